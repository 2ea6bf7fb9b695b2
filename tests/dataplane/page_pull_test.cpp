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

using namespace sluice;
using pages::Bytes;

namespace {

constexpr std::uint32_t page_bytes = 96;
constexpr PeerLife client{9, 1};

pages::Hello hello_of(std::uint64_t incarnation, std::uint32_t bytes = page_bytes) {
  pages::Hello hello;
  hello.layout.fill(7);
  hello.incarnation = incarnation;
  hello.page_bytes = bytes;
  return hello;
}

PageKey key_of(std::uint64_t number) {
  return PageKey{{number, number * 3 + 1, number ^ 0x5555U, 1}};
}

std::vector<PageKey> keys_of(std::uint64_t first, std::size_t count) {
  std::vector<PageKey> keys;
  for (std::size_t i = 0; i < count; ++i) keys.push_back(key_of(first + i));
  return keys;
}

/// What is published under a key, always.
void fill(const PageKey& key, std::span<std::byte> to) {
  SplitMix64 random(key.words[0]);
  for (std::byte& byte : to) byte = static_cast<std::byte>(random.next());
}

Bytes content_of(const PageKey& key, std::size_t bytes = page_bytes) {
  Bytes content(bytes);
  fill(key, content);
  return content;
}

/// Pages of which some are overwritten while they are copied.
class Shelf final : public PageLookup {
 public:
  std::map<PageKey, std::uint64_t> there;  // generation
  bool tears = false;
  SplitMix64 random{3};
  std::uint64_t torn = 0;

  bool has(const PageKey& key) const override { return there.contains(key); }
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override {
    const auto it = there.find(key);
    if (it == there.end()) return std::nullopt;
    fill(key, to);
    const ServedPage page{it->second, crc32c(to)};
    if (tears && random.next() % 2 == 0) {
      // Another owner's bytes, from some place on: all of it or a part.
      const std::size_t from = random.next() % to.size() / 2;
      Bytes other = content_of(key_of(random.next()), to.size());
      std::memcpy(to.data() + from, other.data() + from, to.size() - from);
      ++torn;
    }
    return page;
  }
};

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

  PagePuller puller{hello_of(1)};
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
        servers.emplace(life, Server{PageServer(hello_of(incarnation)), {}, true}).first->second;
    std::vector<PeerMessage> out;
    made.machine.take(client, *pages::decode(encode(hello_of(1))), made.shelf, out);
    to_client.push_back({life, encode(hello_of(incarnation))});
    deliver();
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
      it->second.machine.take(client, *pages::decode(message.bytes), it->second.shelf, out);
      for (PeerMessage& one : out) to_client.push_back({it->first, std::move(one.bytes)});
    }
  }
  void take_events() {
    for (PullEvent& event : puller.take_events()) {
      if (event.kind == PullEvent::Kind::found) {
        if (fetches_all) puller.fetch(event.pull, event.pages, now);
      } else if (event.kind == PullEvent::Kind::page) {
        CHECK_FALSE(ended.contains(event.pull));
        Bytes content(event.content.begin(), event.content.end());
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
      encode(pages::Found{2, 17}),
      encode(pages::Ask{3, keys_of(9, 2)}),
      encode(pages::End{4, 2, pages::End::Status::busy}),
      encode(pages::Took{5}),
      encode(pages::Note{6, note_text}),
      encode(pages::Noted{7}),
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
  Bytes page = pages::page_message(page_bytes);
  pages::write_page_head({8, 2, 3, key_of(4), 5, page_bytes, 6}, page);
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
  other[4] = std::byte{2};  // version
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
    world.puller.fetch(1, 9, world.now);
    world.exchange();
    world.deliver();
    CHECK(world.ended.at(1).how == PullEnd::missing);
    CHECK(world.got[1].size() == 4);
  }
  SECTION("it answers in the name of another incarnation") {
    world.servers.at({1, 1}).machine = PageServer(hello_of(2));
    std::vector<PeerMessage> out;
    world.servers.at({1, 1}).machine.take(client, hello_of(1), world.servers.at({1, 1}).shelf, out);
    CHECK(world.begin(1, keys_of(0, 9)));
    world.deliver();
    CHECK(world.ended.at(1).how == PullEnd::broken);
  }
  SECTION("nobody wants it any more") {
    CHECK(world.begin(1, keys_of(0, 9)));
    world.deliver_one();
    world.puller.cancel(1);
    world.exchange();
    world.deliver();
    CHECK(world.ended.empty());
    CHECK(world.servers.at({1, 1}).machine.owed(client) == 0);
  }
}

TEST_CASE("a peer of another layout or secret is neither asked nor answered") {
  World world;
  pages::Hello other = hello_of(1);
  other.layout[31] = 8;
  world.to_client.push_back({{5, 1}, encode(other)});
  world.to_client.push_back({{6, 1}, encode(hello_of(1, page_bytes + 4))});
  world.deliver();
  CHECK_FALSE(world.puller.has_peers(world.now));
  PageServer server(hello_of(1));
  Shelf shelf;
  shelf.there[key_of(0)] = 0;
  std::vector<PeerMessage> out;
  server.take({5, 1}, other, shelf, out);
  server.take({5, 1}, pages::Find{1, keys_of(0, 1)}, shelf, out);
  server.take({7, 1}, pages::Ask{2, keys_of(0, 1)}, shelf, out);
  REQUIRE(out.size() == 2);
  CHECK(std::get<pages::Found>(*pages::decode(out[0].bytes)).pages == 0);
  CHECK(std::get<pages::End>(*pages::decode(out[1].bytes)).status == pages::End::Status::refused);
  CHECK(server.counts().pages == 0);
  CHECK(server.counts().refused == 3);
}

TEST_CASE("what a peer that does not read is owed is bounded, and others are answered") {
  constexpr std::uint32_t large = 1U << 20U;
  PageServer server(hello_of(1, large));
  Shelf shelf;
  for (std::uint64_t i = 0; i < 8; ++i) shelf.there[key_of(i)] = 0;
  std::vector<PeerMessage> out;
  const PeerLife greedy{1, 1}, modest{2, 1};
  server.take(greedy, hello_of(1, large), shelf, out);
  server.take(modest, hello_of(1, large), shelf, out);
  server.take(greedy, pages::Ask{1, keys_of(0, 5)}, shelf, out);  // 5 MiB in one answer
  CHECK(server.counts().refused == 1);
  std::size_t sent = 0;
  for (std::uint64_t id = 2; id < 200; ++id) {
    out.clear();
    server.take(greedy, pages::Ask{id, keys_of(0, 4)}, shelf, out);
    for (const PeerMessage& one : out) sent += one.bytes.size() > large ? large : 0;
    CHECK(server.owed(greedy) <= PageServer::owed_most);
  }
  CHECK(sent == PageServer::owed_most);
  CHECK(server.counts().busy == 198 - 8);
  out.clear();
  server.take(modest, pages::Ask{1, keys_of(0, 4)}, shelf, out);
  CHECK(out.size() == 5);
  server.take(greedy, pages::Took{3}, shelf, out);
  server.take(greedy, pages::Took{3}, shelf, out);
  server.take(greedy, pages::Took{77777}, shelf, out);
  CHECK(server.owed(greedy) == PageServer::owed_most - 4 * large);
  server.lost(greedy);
  CHECK(server.owed(greedy) == 0);
}

TEST_CASE("under random schedules each pull ends once, with nothing but published content") {
  std::map<PullEnd, int> ends;
  std::size_t torn = 0, taken = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    World world;
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
    for (int i = 0; i < 3; ++i) world.pass(PagePuller::pull_patience + 1);
    CHECK(world.puller.pulls() == 0);
    CHECK(world.ended.size() + cancelled == begun);
    CHECK(world.wrong == 0);
    for (const auto& [number, one] : world.ended) ++ends[one.how];
    for (const auto& [number, contents] : world.got) taken += contents.size();
    for (const auto& [life, server] : world.servers) torn += server.shelf.torn;
  }
  CHECK(taken > 300);
  CHECK(torn > 0);
  for (const PullEnd how : {PullEnd::done, PullEnd::nobody, PullEnd::missing, PullEnd::late,
                            PullEnd::lost, PullEnd::broken})
    CHECK(ends[how] > 0);
}

TEST_CASE("of 50,000 reads of pages that are overwritten meanwhile none is taken for a whole one") {
  constexpr std::uint32_t large = 1U << 16U;
  PagePuller puller(hello_of(1, large));
  puller.take({1, 1}, encode(hello_of(1, large)), 0);
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
  for (std::uint64_t pull = 1; pull <= reads; ++pull) {
    now += PagePuller::longest_pause;
    const std::uint64_t page = random.next() % 64;
    REQUIRE(puller.begin(pull, {key_of(page)}, now));
    const std::uint64_t question = 2 * pull - 1;
    (void)puller.take_out();
    puller.take({1, 1}, encode(pages::Found{question, 1}), now);
    (void)puller.take_events();
    puller.fetch(pull, 1, now);
    (void)puller.take_out();
    Bytes message = pages::page_message(large);
    const auto content = pages::page_content(message);
    std::memcpy(content.data(), contents[page].data(), large);
    const bool tears = random.next() % 2 == 0;
    if (tears) {
      const std::size_t from = random.next() % 2 == 0 ? 0 : random.next() % large;
      const std::size_t count = 1 + random.next() % (large - from);
      const Bytes& other = contents[(page + 1 + random.next() % 63) % 64];
      std::memcpy(content.data() + from, other.data() + from, count);
    }
    const bool is_whole = std::memcmp(content.data(), contents[page].data(), large) == 0;
    pages::write_page_head({question + 1, 1, 0, key_of(page), 0, large, sums[page]}, message);
    puller.take({1, 1}, std::move(message), now);
    bool taken = false;
    for (const PullEvent& event : puller.take_events())
      taken = taken || event.kind == PullEvent::Kind::page;
    torn += is_whole ? 0 : 1;
    detected += !is_whole && !taken ? 1 : 0;
    undetected += !is_whole && taken ? 1 : 0;
    whole += is_whole && taken ? 1 : 0;
    puller.cancel(pull);
    (void)puller.take_out();
  }
  CHECK(undetected == 0);
  CHECK(detected == torn);
  CHECK(detected > reads / 4);
  CHECK(whole + detected == reads);
}
