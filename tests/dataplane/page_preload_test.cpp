// What machines tell each other of their pages, and what is pulled because of it: nothing is lost
// between two messages, nobody is told more than it reads, and each page that was told ends once.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>

#include "base/random.h"
#include "dataplane/page_news.h"
#include "dataplane/page_preloads.h"
#include "invariants.h"
#include "page_shelf.h"

using namespace sluice;
using pages::Follow;
using pages::Published;
using pages::ToldPage;

namespace {

PageKey none() { return PageKey{}; }

/// A machine that tells of its pages: page n follows page n / 3.
struct Teller {
  Teller() : news(receipts) {}
  PageNews news;
  std::set<std::uint64_t> there;

  void publish(std::uint64_t page) {
    if (page == 0 || !there.insert(page).second) return;
    if (page >= 3 && !there.contains(page / 3)) {
      there.erase(page);
      publish(page / 3);
      there.insert(page);
    }
    news.published(static_cast<Page>(page), {key_of(page), page >= 3 ? key_of(page / 3) : none()});
  }
  /// With all that follow it, those first.
  void drop(std::uint64_t page) {
    if (there.erase(page) == 0) return;
    for (std::uint64_t next = page * 3; next < page * 3 + 3; ++next) drop(next);
    news.dropped(static_cast<Page>(page));
  }
};

Published read_published(const PeerMessage& message) {
  return std::get<Published>(*pages::decode(message.bytes));
}
Follow read_follow(const PeerMessage& message) {
  return std::get<Follow>(*pages::decode(message.bytes));
}

/// One machine that preloads, and others that tell, with their links in the test's hands.
struct World {
  explicit World(std::size_t pages) : capacity(pages), preloads(pages) {}

  const std::size_t capacity;
  PagePreloads preloads;
  std::map<PeerLife, Teller> tellers;
  std::set<PeerLife> met;
  std::map<PeerLife, std::deque<PeerMessage>> to_teller, from_teller;  // by the teller
  std::vector<std::uint64_t> memory;  // in the order of their coming
  std::set<std::uint64_t> in_memory;
  std::map<PageKey, std::uint64_t> numbers;
  std::optional<PagePreloads::Run> run;
  std::size_t came = 0;
  Invariants invariants;
  SplitMix64 random{11};

  bool has(const PageKey& key) const {
    const auto it = numbers.find(key);
    return it != numbers.end() && in_memory.contains(it->second);
  }
  void collect() {
    for (PeerMessage& one : preloads.take_out()) to_teller[one.peer].push_back(std::move(one));
    for (auto& [life, teller] : tellers)
      for (PeerMessage& one : teller.news.take_out()) {
        invariants.must("N1", met.contains(life) && one.peer == client);
        from_teller[life].push_back(std::move(one));
        // What is here of it is unread.
        invariants.must("N2", from_teller[life].size() <= 1);
      }
  }
  void meet(PeerLife life) {
    met.insert(life);
    tellers[life].news.met(client);
    preloads.met(life);
    collect();
  }
  void lose(PeerLife life) {
    met.erase(life);
    to_teller[life].clear();
    from_teller[life].clear();
    tellers[life].news.lost(client);
    preloads.lost(life);
    if (run && run->peer == life) end_run();
  }
  void deliver(PeerLife life, bool to) {
    auto& queue = (to ? to_teller : from_teller)[life];
    if (queue.empty()) return;
    const PeerMessage message = std::move(queue.front());
    queue.pop_front();
    if (to)
      (void)tellers[life].news.take(client, read_follow(message));
    else
      preloads.take(life, read_published(message));
    collect();
  }
  void begin_run() {
    if (run.has_value()) return;
    const std::size_t most = 1 + random.next() % 8;
    run = preloads.next([&](const PageKey& key) { return has(key); }, most);
    collect();
    came = 0;
    if (!run) return;
    invariants.must("N3", run->keys.size() <= most && !run->keys.empty());
    PageKey before = run->parent;
    invariants.must("N3", before == none() || has(before));
    for (const PageKey& key : run->keys) {
      const std::uint64_t page = numbers.at(key);
      invariants.must("N3", before == (page >= 3 ? key_of(page / 3) : none()));
      invariants.must("N4", !has(key));
      before = key;
    }
    const std::size_t room = capacity - memory.size();
    if (run->keys.size() > room) {
      const std::size_t more = preloads.may_displace();
      refusals += more == 0 ? 1 : 0;
      run->keys.resize(std::min(run->keys.size(), room + more));
    }
    if (run->keys.empty()) end_run();
  }
  void end_run() {
    preloads.ended();
    run.reset();
  }
  void come() {
    if (!run) return;
    if (memory.size() == capacity && !give_up(true)) return end_run();
    const PageKey& key = run->keys[came++];
    // A task may have computed it, and given up what it follows.
    const bool is_new = !has(key);
    if (is_new) memory.push_back(numbers.at(key));
    in_memory.insert(numbers.at(key));
    preloads.came(key, is_new);
    if (came == run->keys.size()) end_run();
  }
  /// A page that none follows, not of the run's.
  bool give_up(bool for_run) {
    const auto is_leaf = [&](std::uint64_t page) {
      const auto next = in_memory.lower_bound(page * 3);
      return next == in_memory.end() || *next >= page * 3 + 3;
    };
    for (auto it = memory.begin(); it != memory.end(); ++it) {
      if (!is_leaf(*it) || (run && for_run && key_of(*it) == run->parent)) continue;
      if (run && came > 0 && key_of(*it) == run->keys[came - 1]) continue;
      if (run && came == 0 && key_of(*it) == run->parent) continue;
      preloads.dropped(key_of(*it), for_run);
      in_memory.erase(*it);
      memory.erase(it);
      return true;
    }
    return false;
  }
  void use(std::uint64_t page) {
    std::vector<PageKey> path;
    for (; page > 0; page /= 3) path.insert(path.begin(), key_of(page));
    const auto end = std::ranges::find_if_not(path, [&](const PageKey& key) { return has(key); });
    preloads.used({path.begin(), end});
  }
  /// A task has computed it.
  void compute(std::uint64_t page) {
    std::vector<std::uint64_t> path;
    for (; page > 0; page /= 3) path.insert(path.begin(), page);
    while (memory.size() + path.size() > capacity && give_up(false)) continue;
    if (memory.size() + path.size() > capacity) return;
    for (const std::uint64_t one : path)
      if (in_memory.insert(one).second) memory.push_back(one);
  }
  void look() {
    const PagePreloads::Counts& now = preloads.counts();
    const std::uint64_t ended = now.had + now.taken + now.missed;
    invariants.must("N5", ended <= now.told);
    if (!preloads.is_under_way() && !preloads.has_more()) invariants.must("N5", ended == now.told);
    invariants.must("N5", now.useful + now.wasted + preloads.unused() == now.taken);
    // A run is at most 8, and each seventeenth is tried.
    invariants.must("N7", now.displaced <= now.useful + capacity / 8 + 8 + refusals / 16 * 8);
  }
  /// Everything arrives, and all runs come.
  void rest() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const PeerLife life : met)
        for (const bool to : {true, false})
          while (!(to ? to_teller : from_teller)[life].empty()) {
            deliver(life, to);
            moved = true;
          }
      while (run || preloads.has_more()) {
        begin_run();
        while (run) come();
        moved = true;
      }
    }
  }
  std::uint64_t refusals = 0;
};

void happen(World& world, std::uint64_t pages, std::span<const PeerLife> lives) {
  const PeerLife life = lives[world.random.next() % lives.size()];
  const std::uint64_t page = 1 + world.random.next() % pages;
  world.numbers.emplace(key_of(page), page);
  switch (world.random.next() % 20) {
    case 0:
      world.met.contains(life) ? world.lose(life) : world.meet(life);
      break;
    case 1:
      world.tellers[life].drop(page);
      break;
    case 2:
      if (!world.run) (void)world.give_up(false);
      break;
    case 3:
      world.use(page);
      break;
    case 4:
      if (world.run) world.end_run();
      break;
    case 5:
    case 6:
    case 7:
    case 8:
      world.begin_run();
      break;
    case 18:
    case 19:
      world.compute(page);
      break;
    case 9:
    case 10:
    case 11:
      world.come();
      break;
    case 12:
    case 13:
    case 14:
      world.tellers[life].publish(page);
      world.collect();
      break;
    default:
      if (world.met.contains(life)) world.deliver(life, world.random.next() % 2 == 0);
  }
}

}  // namespace

TEST_CASE("whatever machines publish, tell, lose or take, each page that was told ends once") {
  Invariants all;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U, 6U}) {
    const std::uint64_t pages = seed % 2 == 0 ? 60 : 2000;
    World world(seed % 3 == 0 ? 24 : 4000);
    world.random = SplitMix64(seed);
    const std::vector<PeerLife> lives{{1, 1}, {2, 1}, {3, 1}};
    for (std::uint64_t page = 1; page <= pages + 1; ++page)
      world.numbers.emplace(key_of(page), page);
    // Who has gone as it waited is told nothing of what comes.
    world.meet(lives[0]);
    world.rest();
    world.lose(lives[0]);
    world.tellers[lives[0]].publish(pages + 1);
    world.collect();
    for (int i = 0; i < 6000 && world.invariants.goes_on(); ++i) {
      happen(world, pages, lives);
      world.look();
    }
    // At rest there is all that anybody has, where there is room for it.
    for (std::uint64_t page = 1; page <= pages; page += 2) world.tellers[lives[0]].publish(page);
    for (const PeerLife life : lives) {
      world.lose(life);
      world.meet(life);
    }
    world.rest();
    world.look();
    const PagePreloads::Counts& now = world.preloads.counts();
    world.invariants.must("N5", now.told == now.had + now.taken + now.missed);
    if (world.capacity > pages)
      for (const auto& [life, teller] : world.tellers)
        for (const std::uint64_t page : teller.there)
          world.invariants.must("N6", world.has(key_of(page)));
    CHECK(world.invariants.broken() == "");
    CHECK(now.taken > 0);
  }
}

TEST_CASE("pages that come while a message is on its way go with the next one") {
  Teller teller;
  teller.news.met(client);
  CHECK(teller.news.take(client, Follow{}));
  CHECK(teller.news.take_out().empty());
  teller.publish(1);
  std::vector<PeerMessage> out = teller.news.take_out();
  REQUIRE(out.size() == 1);
  const Published first = read_published(out[0]);
  CHECK(first.pages == std::vector<ToldPage>{{key_of(1), none()}});
  for (std::uint64_t page = 2; page < 600; ++page) teller.publish(page);
  teller.drop(300);
  CHECK(teller.news.take_out().empty());
  std::size_t told = 1;
  Published last = first;
  while (told < 598) {
    REQUIRE(teller.news.take(client, Follow{last.last, last.mark}));
    out = teller.news.take_out();
    REQUIRE(out.size() == 1);
    last = read_published(out[0]);
    told += last.pages.size();
    CHECK(last.pages.size() <= pages::told_most);
    CHECK(std::ranges::find(last.pages, key_of(300), &ToldPage::key) == last.pages.end());
  }
  CHECK(told == 598);
  CHECK(teller.news.told() == 598);
}

TEST_CASE("who does not read what it is told, or is a stranger, is told nothing more") {
  Teller teller;
  CHECK_FALSE(teller.news.take(client, Follow{}));
  teller.news.met(client);
  teller.publish(1);
  teller.publish(2);
  CHECK(teller.news.take(client, Follow{}));
  const Published told = read_published(teller.news.take_out().at(0));
  CHECK_FALSE(teller.news.take(client, Follow{}));
  CHECK_FALSE(teller.news.take(client, Follow{0, told.mark + 1}));
  teller.publish(4);
  CHECK(teller.news.take_out().empty());
  // Any number that it has read up to may be asked behind; twice it is asked once.
  CHECK(teller.news.take(client, Follow{77, told.mark}));
  CHECK_FALSE(teller.news.take(client, Follow{0, told.mark}));
  CHECK(teller.news.take_out().empty());
  teller.news.lost(client);
  teller.publish(5);
  CHECK(teller.news.take_out().empty());
}

TEST_CASE("a machine that tells what it was not asked for, or numbers that go back, is not heard") {
  PagePreloads preloads(100);
  const PeerLife life{1, 1};
  const Published one{1, 1, {{key_of(1), none()}}};
  preloads.take(life, one);
  CHECK(preloads.counts().refused == 1);
  preloads.met(life);
  CHECK(preloads.take_out().size() == 1);
  preloads.take(life, {5, 7, {{key_of(1), none()}, {key_of(2), none()}}});
  const std::vector<PeerMessage> out = preloads.take_out();
  REQUIRE(out.size() == 1);
  CHECK((read_follow(out[0]).since == 7 && read_follow(out[0]).mark == 5));
  preloads.take(life, one);
  CHECK(preloads.counts().refused == 2);
  CHECK(preloads.take_out().empty());  // nor asked any more
  preloads.take(life, {5, 9, {{key_of(4), none()}}});
  CHECK(preloads.counts().refused == 3);
  CHECK(preloads.counts().told == 2);
  // More pages than numbers.
  preloads.met({2, 1});
  preloads.take({2, 1}, {5, 1, {{key_of(8), none()}, {key_of(9), none()}}});
  CHECK(preloads.counts().refused == 4);
  preloads.met({2, 1});
  CHECK(preloads.take_out().size() == 1);  // it has joined again
}

TEST_CASE("a machine that tells more than is pulled is not asked on") {
  PagePreloads preloads(100'000);
  const PeerLife life{1, 1};
  preloads.met(life);
  std::uint64_t page = 0;
  std::size_t asked = 0;
  while (!preloads.take_out().empty() && ++asked < 1000) {
    Published told{asked, page + pages::told_most, {}};
    while (told.pages.size() < pages::told_most) told.pages.push_back({key_of(++page), none()});
    preloads.take(life, told);
  }
  CHECK(asked == PagePreloads::queued_most / pages::told_most);
  // Of chains of one page each a run is one.
  std::size_t runs = 0;
  while (preloads.take_out().empty() && runs < 1000) {
    const auto run = preloads.next([](const PageKey&) { return false; }, 8);
    REQUIRE(run);
    CHECK(run->keys.size() == 1);
    preloads.came(run->keys[0], true);
    preloads.ended();
    ++runs;
  }
  CHECK(runs == pages::told_most);
}

TEST_CASE("of pages that tasks have used a run takes no more than is left of what was earned") {
  PagePreloads preloads(80);
  CHECK(preloads.may_displace() == 10);
  for (std::uint64_t page = 0; page < 7; ++page) preloads.dropped(key_of(page), true);
  preloads.dropped(key_of(7), false);
  CHECK(preloads.may_displace() == 3);
  for (std::uint64_t page = 8; page < 12; ++page) preloads.dropped(key_of(page), true);
  for (std::uint32_t refused = 0; refused < PagePreloads::tries_after; ++refused)
    CHECK(preloads.may_displace() == 0);
  CHECK(preloads.may_displace() == 10);
  CHECK(preloads.may_displace() == 0);
}

TEST_CASE("messages of what is published are read as they were written, and no others") {
  const Follow follow{7, 9};
  const auto read = pages::decode(encode(follow));
  REQUIRE(read);
  CHECK((std::get<Follow>(*read).since == 7 && std::get<Follow>(*read).mark == 9));
  const Published told{3, 11, {{key_of(4), key_of(1)}, {key_of(5), none()}}};
  const pages::Bytes bytes = encode(told);
  const auto again = pages::decode(bytes);
  REQUIRE(again);
  const Published& back = std::get<Published>(*again);
  CHECK((back.mark == 3 && back.last == 11 && back.pages == told.pages));
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(pages::decode(std::span(bytes).first(size)));
  pages::Bytes more = bytes;
  more.push_back({});
  CHECK_FALSE(pages::decode(more));
  pages::Bytes empty(bytes.begin(), bytes.begin() + 28);
  empty[24] = std::byte{0};
  CHECK_FALSE(pages::decode(empty));
}
