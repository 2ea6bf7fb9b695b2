// Pages between machines: whatever peers answer, late, wrongly, in part or never, each pull ends
// once, and nothing else than what was published is taken for it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "base/crc32c.h"
#include "base/random.h"
#include "dataplane/page_puller.h"
#include "invariants.h"
#include "page_shelf.h"

using namespace sluice;
using pages::Bytes;

namespace {

/// One puller and some servers, with what goes between them in the test's hands.
struct World {
  struct Server {
    PageServer machine;
    Shelf shelf;
    bool answers = true;
  };
  struct Ended {
    PullEnd how;
    std::size_t pages;
  };

  explicit World(std::size_t early = 0) : puller(hello_of(1), early) {}

  PagePuller puller;
  std::map<PeerLife, Server> servers;
  std::deque<PeerMessage> to_client;
  std::int64_t now = 1000;
  std::map<std::uint64_t, Ended> ended;
  std::map<std::uint64_t, std::vector<Bytes>> got;  // by pull
  std::map<std::uint64_t, std::vector<PageKey>> asked;
  bool fetches_all = true;
  std::size_t wrong = 0;

  Server& add(std::uint32_t number, std::uint32_t incarnation = 1) {
    const PeerLife life{number, incarnation};
    Server& made =
        servers.emplace(life, Server{PageServer(hello_of(incarnation), receipts), {}, true})
            .first->second;
    made.machine.met(client);
    puller.met(life, hello_of(incarnation), now);
    return made;
  }
  bool begin(std::uint64_t pull, std::vector<PageKey> keys) {
    asked[pull] = keys;
    const bool begun = puller.begin(pull, std::move(keys), now);
    exchange();
    return begun;
  }
  /// What the client says goes to the servers at once, what they say waits.
  void exchange() {
    for (PeerMessage& message : puller.take_out()) {
      const auto it = servers.find(message.peer);
      if (it == servers.end() || !it->second.answers) continue;
      std::vector<PeerMessage> out;
      serve(it->second.machine, client, *pages::decode(message.bytes), it->second.shelf, out);
      for (PeerMessage& one : out) to_client.push_back({it->first, std::move(one.bytes)});
    }
  }
  void take_events() {
    for (PullEvent& event : puller.take_events()) {
      if (event.kind == PullEvent::Kind::found) {
        if (fetches_all) fetch_into(puller, event.pull, places(event.pages), now);
      } else if (event.kind == PullEvent::Kind::page) {
        CHECK_FALSE(ended.contains(event.pull));
        const auto came = bytes_of(event.place);
        Bytes content(came.begin(), came.end());
        CHECK(event.pages == got[event.pull].size());
        if (content != content_of(asked[event.pull][event.pages], content.size())) ++wrong;
        got[event.pull].push_back(std::move(content));
      } else {
        CHECK(ended.emplace(event.pull, Ended{event.end, event.pages}).second);
      }
    }
    exchange();
  }
  bool deliver_one() {
    if (to_client.empty()) return false;
    PeerMessage message = std::move(to_client.front());
    to_client.pop_front();
    puller.take(message.peer, std::move(message.bytes), now);
    take_events();
    return true;
  }
  void deliver() {
    while (deliver_one()) continue;
  }
  void pass(std::int64_t time) {
    now += time;
    puller.tick(now);
    take_events();
  }
};

}  // namespace

TEST_CASE("pages are pulled from the peer that has most of the chain") {
  World world;
  for (std::uint64_t i = 0; i < 3; ++i) world.add(1).shelf.there[key_of(i)] = i;
  for (std::uint64_t i = 0; i < 40; ++i) world.add(2).shelf.there[key_of(i)] = i;
  world.add(3);
  CHECK(world.begin(5, keys_of(0, 50)));
  world.deliver();
  REQUIRE(world.ended.contains(5));
  CHECK(world.ended.at(5).how == PullEnd::done);
  CHECK(world.got[5].size() == 40);
  CHECK(world.wrong == 0);
  const PageServer& server = world.servers.at({2, 1}).machine;
  CHECK(server.counts().pages == 40);
  CHECK(server.owed(client) == 0);
  CHECK(world.begin(6, keys_of(100, 2)));
  world.deliver();
  CHECK(world.ended.at(6).how == PullEnd::nobody);
  CHECK(world.puller.pulls() == 0);
}

TEST_CASE("each message is read as it was written, and no other bytes are one") {
  const Bytes note_text = content_of(key_of(3));
  const std::vector<Bytes> all{
      encode(hello_of(4)),
      encode(pages::Find{1, keys_of(3, 4)}),
      encode(pages::Found{2, 17, 5}),
      encode(pages::Ask{3, keys_of(9, 2)}),
      encode(pages::End{4, 2, pages::End::Status::busy, 9}),
      encode(pages::Took{5}),
      encode(pages::Note{6, note_text}),
      encode(pages::Noted{7, 8}),
      encode(pages::Proof{key_of(6)}),
  };
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    const auto read = pages::decode(all[kind]);
    REQUIRE(read.has_value());
    if (const auto* find = std::get_if<pages::Find>(&*read)) CHECK(find->keys == keys_of(3, 4));
    // Shorter or longer is another message, or none; a note may have any length.
    for (std::size_t size = 0; size < all[kind].size(); ++size) {
      const auto cut = pages::decode(std::span(all[kind]).first(size));
      const bool is_note = cut.has_value() && std::holds_alternative<pages::Note>(*cut);
      CHECK((!cut.has_value() || is_note));
    }
    Bytes longer = all[kind];
    longer.push_back({});
    const auto more = pages::decode(longer);
    CHECK((!more.has_value() || std::holds_alternative<pages::Note>(*more)));
  }
  CHECK(std::get<pages::Hello>(*pages::decode(all[0])) == hello_of(4));
  const Bytes content(page_bytes);
  Bytes page = encode(pages::PageContent{{8, 2, 3, key_of(4), 5, page_bytes, 6}, content});
  const auto whole = pages::decode(page);
  REQUIRE(whole.has_value());
  const auto& read_page = std::get<pages::PageContent>(*whole);
  CHECK(read_page.head.key == key_of(4));
  CHECK(read_page.head.index == 5);
  CHECK(read_page.content.size() == page_bytes);
  for (std::size_t size = 0; size < page.size(); ++size)
    CHECK_FALSE(pages::decode(std::span(page).first(size)).has_value());
  page.push_back({});
  CHECK_FALSE(pages::decode(page).has_value());
  // A count that the message cannot hold takes no memory.
  Bytes many = encode(pages::Find{1, keys_of(0, 1)});
  many[16] = many[17] = many[18] = many[19] = std::byte{0xff};
  CHECK_FALSE(pages::decode(many).has_value());
  Bytes other = all[5];
  other[4] = std::byte{1};  // version
  CHECK_FALSE(pages::decode(other).has_value());
}

TEST_CASE("a page with any byte changed is told from what was published") {
  World world;
  world.add(1).shelf.there[key_of(0)] = 4;
  std::size_t detected = 0, bytes = 0;
  for (std::size_t at = 0;; ++at) {
    const std::uint64_t pull = at + 1;
    REQUIRE(world.begin(pull, keys_of(0, 1)));
    world.deliver_one();  // found; the page and its end wait
    Bytes& page = world.to_client.front().bytes;
    bytes = page.size();
    if (at == bytes) break;
    page[at] ^= std::byte{static_cast<unsigned char>(1U << at % 8)};
    world.deliver();
    world.pass(PagePuller::pull_patience + 1);
    REQUIRE(world.ended.contains(pull));
    // The generation is for people: the key says what the bytes are.
    const bool is_generation = at >= 24 && at < 32;
    if (is_generation) {
      CHECK(world.ended.at(pull).how == PullEnd::done);
    } else {
      CHECK(world.ended.at(pull).how != PullEnd::done);
      CHECK(world.got[pull].empty());
      ++detected;
    }
    world.pass(PagePuller::longest_pause + 1);
  }
  CHECK(world.wrong == 0);
  CHECK(detected == bytes - 8);
}

TEST_CASE("a peer that is slow, gone, another or busy costs its pull, and is left alone") {
  World world;
  for (std::uint64_t i = 0; i < 9; ++i) world.add(1).shelf.there[key_of(i)] = 0;
  SECTION("it never answers") {
    world.servers.at({1, 1}).answers = false;
    CHECK(world.begin(1, keys_of(0, 9)));
    world.pass(PagePuller::find_patience + 1);
    CHECK(world.ended.at(1).how == PullEnd::late);
    CHECK_FALSE(world.begin(2, keys_of(0, 9)));  // a pause
    world.pass(PagePuller::first_pause + 1);
    CHECK(world.begin(3, keys_of(0, 9)));
  }
  SECTION("it dies in the middle") {
    CHECK(world.begin(1, keys_of(0, 9)));
    for (int i = 0; i < 4; ++i) world.deliver_one();
    CHECK(world.got[1].size() == 3);
    world.puller.lost({1, 1}, world.now);
    world.take_events();
    CHECK(world.ended.at(1).how == PullEnd::lost);
    const std::uint64_t before = world.puller.stale();
    world.deliver();
    CHECK(world.puller.stale() > before);
    CHECK(world.got[1].size() == 3);
  }
  SECTION("it stands still in the middle") {
    CHECK(world.begin(1, keys_of(0, 9)));
    for (int i = 0; i < 4; ++i) world.deliver_one();
    world.pass(PagePuller::page_patience + 1);
    CHECK(world.ended.at(1).how == PullEnd::late);
    CHECK(world.puller.pulls() == 0);
  }
  SECTION("it has given up a page since it was asked") {
    world.fetches_all = false;
    CHECK(world.begin(1, keys_of(0, 9)));
    world.deliver();
    world.servers.at({1, 1}).shelf.there.erase(key_of(4));
    fetch_into(world.puller, 1, places(9), world.now);
    world.exchange();
    world.deliver();
    CHECK(world.ended.at(1).how == PullEnd::missing);
    CHECK(world.got[1].size() == 4);
  }
  SECTION("it answers in the name of another incarnation") {
    world.servers.at({1, 1}).machine = PageServer(hello_of(2), receipts);
    world.servers.at({1, 1}).machine.met(client);
    CHECK(world.begin(1, keys_of(0, 9)));
    world.deliver();
    CHECK(world.ended.at(1).how == PullEnd::broken);
  }
  SECTION("nobody wants it any more") {
    CHECK(world.begin(1, keys_of(0, 9)));
    world.deliver_one();
    world.puller.cancel(1);
    world.exchange();
    CHECK(world.servers.at({1, 1}).machine.owed(client) == 9 * page_bytes);  // on its way
    world.deliver();
    CHECK(world.ended.empty());
    CHECK(world.servers.at({1, 1}).machine.owed(client) == 0);
  }
}

TEST_CASE("a slow way is not filled with answers that nobody waits for any more") {
  constexpr std::uint32_t large = 1U << 20U;
  constexpr PeerLife server{1, 1};
  PagePuller puller(hello_of(1, large));
  puller.met(server, hello_of(1, large), 0);
  std::size_t asked = 0;
  std::int64_t now = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> asks;
  std::uint64_t pull = 0;
  const auto hear = [&] {
    for (const PeerMessage& one : puller.take_out()) {
      const auto message = *pages::decode(one.bytes);
      if (const auto* find = std::get_if<pages::Find>(&message))
        puller.take(server, encode(pages::Found{find->id, 8, 0}), now);
      if (const auto* ask = std::get_if<pages::Ask>(&message)) {
        asked += ask->keys.size() * large;
        asks.emplace_back(ask->id, ask->keys.size());
      }
    }
    for (const PullEvent& event : puller.take_events())
      if (event.kind == PullEvent::Kind::found)
        fetch_into(puller, event.pull, places(event.pages, large), now);
  };
  // Each pull is given up before anything has come.
  for (int i = 0; i < 20; ++i) {
    now += 2 * PagePuller::longest_pause;
    if (!puller.begin(++pull, keys_of(0, 8), now)) continue;
    hear();
    hear();
    puller.cancel(pull);
  }
  CHECK(asked == PagePuller::in_flight_most);
  // Who has answered the first is asked for more.
  const Bytes content(large);
  for (std::uint32_t i = 0; i < asks[0].second; ++i) {
    const pages::PageHead head{asks[0].first, 1, 0, key_of(i), i, large, crc32c(content)};
    puller.take(server, encode(pages::PageContent{head, content}), now);
  }
  const auto pages_of_first = static_cast<std::uint32_t>(asks[0].second);
  puller.take(server, encode(pages::End{asks[0].first, pages_of_first, {}, 77}), now);
  const std::vector<PeerMessage> took = puller.take_out();
  REQUIRE(took.size() == 1);
  CHECK(read_as<pages::Took>(took[0]).receipt == 77);
  CHECK(puller.begin(++pull, keys_of(0, 8), now));
  hear();
  hear();
  CHECK(asked == PagePuller::in_flight_most + pages_of_first * large);
  // One that answers no question at all is not asked any more.
  std::size_t begun = 0;
  for (int i = 0; i < 100; ++i) begun += puller.begin(++pull, keys_of(0, 8), now) ? 1 : 0;
  CHECK(begun == PagePuller::questions_most);
  CHECK_FALSE(puller.has_peers(now));
}

TEST_CASE(
    "of more peers than one pull asks all are asked in turn, and first who may well have it") {
  PagePuller puller(hello_of(1));
  constexpr std::uint32_t peers = 20;
  for (std::uint32_t peer = 0; peer < peers; ++peer) puller.met({peer, 1}, hello_of(1), 0);
  std::uint64_t pull = 0;
  const auto asked = [&](std::optional<PeerLife> first) {
    REQUIRE(puller.begin(++pull, keys_of(0, 4), 0, first));
    std::vector<std::uint32_t> machines;
    for (const PeerMessage& one : puller.take_out()) {
      machines.push_back(one.peer.machine);
      const auto find = read_as<pages::Find>(one);
      puller.take(one.peer, encode(pages::Found{find.id, 0, 0}), 0);
    }
    (void)puller.take_out();  // receipts
    return machines;
  };
  using Machines = std::vector<std::uint32_t>;
  CHECK(asked({}) == Machines{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(asked({}) == Machines{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(asked({}) == Machines{16, 17, 18, 19, 0, 1, 2, 3});
  CHECK(asked(PeerLife{19, 1}) == Machines{19, 4, 5, 6, 7, 8, 9, 10});
  // One that stands next; one that is not there, or there in another life.
  CHECK(asked(PeerLife{13, 1}) == Machines{13, 11, 12, 14, 15, 16, 17, 18});
  CHECK(asked(PeerLife{13, 2}) == Machines{19, 0, 1, 2, 3, 4, 5, 6});
  puller.lost({7, 1}, 0);
  CHECK(asked({}) == Machines{8, 9, 10, 11, 12, 13, 14, 15});
}

TEST_CASE("who has not proved to mean the same by its pages is neither asked nor answered") {
  PagePuller puller(hello_of(1));
  CHECK_FALSE(puller.has_peers(0));
  puller.take({5, 1}, encode(pages::Found{1, 3, 0}), 0);
  CHECK(puller.stale() == 1);
  PageServer server(hello_of(1), receipts);
  Shelf shelf;
  shelf.there[key_of(0)] = 0;
  std::vector<PeerMessage> out;
  serve(server, {5, 1}, pages::Find{1, keys_of(0, 1)}, shelf, out);
  serve(server, {7, 1}, pages::Ask{2, keys_of(0, 1)}, shelf, out);
  serve(server, {7, 1}, pages::Took{2}, shelf, out);
  CHECK_FALSE(server.take_note({7, 1}, 1, out));
  CHECK(out.empty());
  CHECK(server.counts().refused == 4);
}

TEST_CASE("under random schedules each pull ends once, with nothing but published content") {
  std::map<PullEnd, int> ends;
  Invariants invariants;
  std::size_t torn = 0, taken = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    World world(seed % 4 < 2 ? 0 : 4 * page_bytes);  // of some of the pulls all comes at once
    SplitMix64 random(seed);
    std::uint64_t pull = 0, begun = 0, cancelled = 0;
    for (int i = 0; i < 400; ++i) {
      const std::uint32_t number = 1 + static_cast<std::uint32_t>(random.next() % 3);
      const PeerLife life{number, 1};
      switch (random.next() % 14) {
        case 0:
          if (!world.servers.contains(life)) world.add(number);
          world.servers.at(life).shelf.tears = seed % 3 == 0;
          break;
        case 1:
          if (random.next() % 4 == 0 && world.servers.erase(life) > 0) {
            world.puller.lost(life, world.now);
            world.take_events();
          }
          break;
        case 2:
          if (const auto it = world.servers.find(life); it != world.servers.end())
            for (std::uint64_t k = 0; k < random.next() % 30; ++k)
              it->second.shelf.there[key_of(k)] = random.next();
          break;
        case 3:
          if (const auto it = world.servers.find(life); it != world.servers.end())
            it->second.shelf.there.erase(key_of(random.next() % 30));
          break;
        case 4:
          if (const auto it = world.servers.find(life); it != world.servers.end())
            it->second.answers = random.next() % 3 != 0;
          break;
        case 5:
          if (world.begin(++pull, keys_of(0, 1 + random.next() % 30))) ++begun;
          break;
        case 6: {
          const std::uint64_t which = 1 + random.next() % (pull + 1);
          const std::size_t before = world.puller.pulls();
          world.puller.cancel(which);
          cancelled += before - world.puller.pulls();
          world.exchange();
          break;
        }
        case 7:
          world.pass(static_cast<std::int64_t>(random.next() % 400'000'000));
          break;
        case 8:  // bytes of an adversary
          if (!world.to_client.empty()) {
            Bytes& bytes = world.to_client.front().bytes;
            if (!bytes.empty()) bytes[random.next() % bytes.size()] ^= std::byte{0x10};
          }
          break;
        case 9:  // what was sent is there twice, or is lost
          if (!world.to_client.empty()) {
            if (random.next() % 2 == 0)
              world.to_client.push_back(world.to_client.front());
            else
              world.to_client.pop_front();
          }
          break;
        default:
          world.deliver_one();
      }
    }
    world.deliver();
    if (seed % 2 == 0) {  // all die at once: nobody waits for the dead, and they for nobody
      for (auto& [life, server] : world.servers) {
        world.puller.lost(life, world.now);
        server.machine.lost(client);
        invariants.must("K6", server.machine.owed(client) == 0 && !server.machine.has_more());
      }
      world.take_events();
      invariants.must("K6", world.puller.pulls() == 0);
    }
    for (int i = 0; i < 3; ++i) world.pass(PagePuller::pull_patience + 1);
    invariants.must("K8", world.puller.pulls() == 0);
    invariants.must("K8", world.ended.size() + cancelled == begun);
    invariants.must("K2", world.wrong == 0);
    for (const auto& [number, one] : world.ended) ++ends[one.how];
    for (const auto& [number, contents] : world.got) taken += contents.size();
    for (const auto& [life, server] : world.servers) torn += server.shelf.torn;
  }
  INFO("broken: " << invariants.broken());
  CHECK(invariants.all_hold());
  CHECK(taken > 300);
  CHECK(torn > 0);
  for (const PullEnd how : {PullEnd::done, PullEnd::nobody, PullEnd::missing, PullEnd::late,
                            PullEnd::lost, PullEnd::broken})
    CHECK(ends[how] > 0);
}

TEST_CASE("few pages come with the answer how many pages there are, and are checked like others") {
  World world(4 * page_bytes);
  World::Server& server = world.add(1);
  for (std::uint64_t i = 0; i < 9; ++i) server.shelf.there[key_of(i)] = 0;
  world.fetches_all = false;
  const auto found = [&](std::size_t pages) {
    while (!world.to_client.empty()) {
      PeerMessage message = std::move(world.to_client.front());
      world.to_client.pop_front();
      world.puller.take(message.peer, std::move(message.bytes), world.now);
    }
    const std::vector<PullEvent> events = world.puller.take_events();
    REQUIRE(events.size() == 1);
    CHECK(events[0].pages == pages);
    CHECK(events[0].has_come);
    CHECK(server.machine.counts().pages == pages);
  };
  const auto fetch = [&](std::size_t pages) {
    fetch_into(world.puller, 1, places(pages), world.now);
    world.take_events();
    world.deliver();
  };
  SECTION("all") {
    REQUIRE(world.begin(1, keys_of(0, 4)));
    found(4);
    fetch(4);
    CHECK(world.got[1].size() == 4);
    CHECK(world.ended.at(1).how == PullEnd::done);
  }
  SECTION("some are not there, and for some there is no room") {
    server.shelf.there.erase(key_of(3));
    REQUIRE(world.begin(1, keys_of(0, 4)));
    found(3);
    fetch(2);
    CHECK(world.got[1].size() == 2);
    CHECK(world.ended.at(1).how == PullEnd::done);
  }
  SECTION("one has another byte") {
    REQUIRE(world.begin(1, keys_of(0, 4)));
    world.to_client[2].bytes.back() ^= std::byte{1};
    found(4);
    fetch(4);
    CHECK(world.got[1].size() == 2);
    CHECK(world.ended.at(1).how == PullEnd::broken);
  }
  SECTION("a slow way has its time for each") {
    REQUIRE(world.begin(1, keys_of(0, 4)));
    std::deque<PeerMessage> slow;
    for (slow.swap(world.to_client); !slow.empty(); slow.pop_front()) {
      world.now += PagePuller::find_patience;
      world.puller.tick(world.now);
      if (slow.size() == 1) break;
      world.puller.take(slow.front().peer, slow.front().bytes, world.now);
    }
    world.to_client = slow;
    found(4);
    world.puller.cancel(1);
    REQUIRE(world.begin(2, keys_of(4, 4)));
    world.to_client.clear();
    world.puller.tick(world.now + PagePuller::find_patience + 1);
    CHECK(world.puller.take_events().at(0).end == PullEnd::late);
  }
  SECTION("of more than that the question is how many there are") {
    REQUIRE(world.begin(1, keys_of(0, 10)));
    CHECK(read_as<pages::Found>(world.to_client.at(0)).pages == 9);
    CHECK(server.machine.counts().pages == 0);
  }
  CHECK(world.wrong == 0);
  world.puller.cancel(1);
  CHECK(world.puller.pulls() == 0);
}

TEST_CASE("of 50,000 reads of pages that are overwritten meanwhile none is taken for a whole one") {
  constexpr std::uint32_t large = 1U << 16U;
  PagePuller puller(hello_of(1, large));
  puller.met({1, 1}, hello_of(1, large), 0);
  // What is written there while it is read: made once, for the filling costs more than the check.
  std::vector<Bytes> contents;
  std::vector<std::uint32_t> sums;
  for (std::uint64_t i = 0; i < 64; ++i) {
    contents.push_back(content_of(key_of(i), large));
    sums.push_back(crc32c(contents.back()));
  }
  SplitMix64 random(1);
  std::uint64_t detected = 0, undetected = 0, whole = 0, torn = 0;
  std::int64_t now = 0;
  constexpr std::uint64_t reads = 50'000;
  const std::vector<Ref<Buffer>> place = places(1, large);
  for (std::uint64_t pull = 1; pull <= reads; ++pull) {
    now += PagePuller::longest_pause;
    const std::uint64_t page = random.next() % 64;
    REQUIRE(puller.begin(pull, {key_of(page)}, now));
    const std::uint64_t question = 2 * pull - 1;
    (void)puller.take_out();
    puller.take({1, 1}, encode(pages::Found{question, 1}), now);
    (void)puller.take_events();
    fetch_into(puller, pull, place, now);
    (void)puller.take_out();
    Bytes content = contents[page];
    const bool tears = random.next() % 2 == 0;
    if (tears) {
      const std::size_t from = random.next() % 2 == 0 ? 0 : random.next() % large;
      const std::size_t count = 1 + random.next() % (large - from);
      const Bytes& other = contents[(page + 1 + random.next() % 63) % 64];
      std::memcpy(content.data() + from, other.data() + from, count);
    }
    const bool is_whole = std::memcmp(content.data(), contents[page].data(), large) == 0;
    const pages::PageHead head{question + 1, 1, 0, key_of(page), 0, large, sums[page]};
    puller.take({1, 1}, encode(pages::PageContent{head, content}), now);
    bool taken = false;
    for (const PullEvent& event : puller.take_events())
      taken = taken || event.kind == PullEvent::Kind::page;
    if (taken) CHECK(std::memcmp(place[0]->data(), contents[page].data(), large) == 0);
    torn += is_whole ? 0 : 1;
    detected += !is_whole && !taken ? 1 : 0;
    undetected += !is_whole && taken ? 1 : 0;
    whole += is_whole && taken ? 1 : 0;
    puller.cancel(pull);
    puller.take({1, 1}, encode(pages::End{question + 1, 1, {}, 0}), now);
    (void)puller.take_events();
    (void)puller.take_out();
  }
  CHECK(undetected == 0);
  CHECK(detected == torn);
  CHECK(detected > reads / 4);
  CHECK(whole + detected == reads);
}
