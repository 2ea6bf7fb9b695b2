// Machines that tell an index of their pages and ask it, while answers are lost, calls come late,
// the server ends amid one, is emptied, or goes on with older data: at rest it says what is there.
#include "dataplane/page_index.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <iostream>

#include "base/random.h"
#include "runtime/redis/page_index.h"
#include "tests/index/lua_server.h"
#include "tests/sanitized.h"

using namespace sluice;
using namespace std::chrono_literals;
using Instant = PageIndex::Instant;

namespace {

constexpr auto lease = 2000ms;
const std::string base = "sluice:laptop:pages:7";

void check(bool holds, const char* invariant) {
  if (!holds) std::cout << "broken invariant: " << invariant << std::endl;
  CHECK(holds);
}

PageKey key_of(std::uint64_t page) {
  SplitMix64 random(page);
  return {{random.next(), random.next(), random.next(), random.next()}};
}
std::string name_of(std::uint64_t page) {
  const PageKey key = key_of(page);
  return {reinterpret_cast<const char*>(key.words.data()), 16};
}
/// Page n follows page n / 3.
std::vector<std::uint64_t> chain_of(std::uint64_t page) {
  std::vector<std::uint64_t> chain;
  for (; page > 0; page /= 3) chain.insert(chain.begin(), page);
  return chain;
}

struct Machine {
  explicit Machine(PeerLife self, std::size_t batch = PageIndex::batch_most,
                   std::uint64_t start = 0)
      : life(self), index({base, self, lease, "data", start, batch}) {}

  void publish(std::uint64_t page, Instant now) {
    for (const std::uint64_t one : chain_of(page))
      if (pages.insert(one).second) index.published(key_of(one), now);
    remember();
  }
  void publish_to(std::uint64_t most, Instant now) {
    for (std::uint64_t page = 1; page <= most; ++page) publish(page, now);
  }
  void drop_leaf(Instant now) {
    if (pages.empty()) return;
    const std::uint64_t leaf = *pages.rbegin();
    pages.erase(leaf);
    index.dropped(key_of(leaf), now);
    remember();
  }
  void remember() {
    std::set<std::string> names;
    for (const std::uint64_t page : pages) names.insert(name_of(page));
    had.insert(std::move(names));
  }

  PeerLife life;
  PageIndex index;
  std::set<std::uint64_t> pages;
  std::set<std::set<std::string>> had{{}};
  std::optional<IndexQuestion> open;
  Instant answer_at{};  // of the open one
  std::map<std::uint64_t, Instant> asked;
};

struct World {
  explicit World(std::uint64_t seed, std::size_t in_batch = PageIndex::batch_most)
      : random(seed), server(page_index_functions()), batch(in_batch) {
    for (std::uint32_t machine = 0; machine < 4; ++machine)
      machines.push_back(std::make_unique<Machine>(PeerLife{machine, 1}, batch));
  }

  std::uint64_t below(std::uint64_t most) { return random.next() % most; }
  void pass(std::chrono::nanoseconds time) {
    now += time;
    server.now_ms = 1'700'000'000'000 + now.count() / 1'000'000;
  }
  std::set<std::string> there(const Machine& one) const {
    const auto it = server.data.sets.find(base + ":has:" + std::to_string(one.life.machine));
    return it == server.data.sets.end() ? std::set<std::string>() : it->second;
  }
  /// Whatever the server has of a machine, that machine had at some time.
  void look() {
    for (const auto& one : machines) check(one->had.contains(there(*one)) || has_parts(*one), "X3");
  }
  /// Told in parts: closed under prefixes all the same.
  bool has_parts(const Machine& one) const {
    const std::set<std::string> names = there(one);
    for (std::uint64_t page = 1; page < 1000; ++page)
      if (names.contains(name_of(page)) && page >= 3 && !names.contains(name_of(page / 3)))
        return false;
    return true;
  }

  void say(Machine& one, const std::vector<std::string>& words, std::uint64_t number) {
    const LuaAnswer answer = server.ask(words);
    if (answer.error.empty())
      one.index.answered(number, answer.words, now);
    else
      one.index.refused(number, answer.error, now);
  }

  /// One machine's question goes its way.
  void step(Machine& one, bool is_calm) {
    const std::optional<IndexQuestion> question = one.index.ask(now);
    if (!question.has_value()) return;
    check(!one.index.ask(now).has_value(), "X2");
    const std::uint64_t fate = is_calm ? 99 : below(100);
    if (fate < 4) {  // it never comes there
      one.index.broke("lost", now);
    } else if (fate < 8) {  // it does, but not its answer
      server.ask(question->words);
      pass(question->patience);
      one.index.broke("late", now);
    } else if (fate < 12) {  // it is taken later
      late.push_back(question->words);
      pass(question->patience);
      one.index.broke("late", now);
    } else if (fate < 15) {  // the server ends amid it
      server.writes_left = below(4);
      server.ask(question->words);
      server.writes_left = ~std::uint64_t{0};
      one.index.broke("it closed the connection", now);
    } else if (fate < 17) {
      one.index.refused(question->number, "OOM allow-oom flag is not set on the script", now);
    } else if (fate < 19) {
      one.index.answered(question->number, {"what", "is", "this"}, now);
    } else {
      if (fate < 30) pass(std::chrono::milliseconds(below(60)));
      say(one, question->words, question->number);
      one.index.answered(question->number, {"ok", "again", "1"}, now);  // counts once
    }
  }

  void find(Machine& one) {
    std::vector<PageKey> keys;
    for (const std::uint64_t page : chain_of(1 + below(80))) keys.push_back(key_of(page));
    if (one.index.find(next_find, keys, now)) {
      one.asked[next_find] = now;
      wanted[next_find] = keys.size();
    }
    ++next_find;
  }
  void take(Machine& one) {
    for (const PageIndex::Found& found : one.index.take_found(now)) {
      check(one.asked.erase(found.id) == 1, "X2");
      check(found.is_answered || found.providers.empty(), "X2");
      for (const PageProvider& provider : found.providers) {
        check(provider.peer.machine != one.life.machine, "X4");
        check(provider.pages <= wanted.at(found.id), "X4");
      }
    }
    for (const auto& [id, at] : one.asked) check(now - at <= PageIndex::find_patience, "X2");
  }

  void fault() {
    switch (below(7)) {
      case 0:
        server.data = {};
        return;
      case 1:
        if (!copies.empty()) server.data = copies[below(copies.size())];
        return;
      case 2:
        copies.push_back(server.data);
        return;
      case 3:
        if (!late.empty()) {
          server.ask(late.front());
          late.pop_front();
        }
        return;
      case 4:
        pass(std::chrono::milliseconds(below(9000)));
        return;
      case 5: {  // a pool more of the same name in the same process, amid which nobody took leave
        std::unique_ptr<Machine>& one = machines[below(machines.size())];
        starts += 1'000'000;
        one = std::make_unique<Machine>(one->life, batch, starts);
        return;
      }
      default:
        // A process more that is the machine; the one before says nothing any more.
        std::unique_ptr<Machine>& one = machines[below(machines.size())];
        const PeerLife next{one->life.machine, one->life.incarnation + 1};
        one = std::make_unique<Machine>(next, batch);
    }
  }

  /// The server goes on with what it had before a machine's last change.
  void lose_last_change(Machine& one) {
    const LuaData before = server.data;
    one.publish(1 + below(120), now);
    pass(PageIndex::linger);
    step(one, true);
    server.data = before;
  }

  void rest() {
    for (const auto& words : std::exchange(late, {})) server.ask(words);
    for (int round = 0; round < 400; ++round) {
      for (const auto& one : machines) {
        step(*one, true);
        take(*one);
      }
      pass(500ms);
    }
    for (const auto& one : machines) {
      for (int i = 0; i < 8; ++i) step(*one, true);
      std::set<std::string> want;
      for (const std::uint64_t page : one->pages) want.insert(name_of(page));
      check(there(*one) == want, "X1");
      check(one->index.is_told() && one->index.down().empty(), "X1");
    }
  }

  SplitMix64 random;
  LuaServer server;
  const std::size_t batch;
  std::uint64_t starts = 0;  // of pools
  Instant now{1'000'000'000};
  std::vector<std::unique_ptr<Machine>> machines;
  std::deque<std::vector<std::string>> late;
  std::vector<LuaData> copies;
  std::map<std::uint64_t, std::size_t> wanted;
  std::uint64_t next_find = 1;
};

/// The answer to one question of a machine for a chain.
std::vector<PageProvider> asked(World& world, Machine& one, std::uint64_t page) {
  std::vector<PageKey> keys;
  for (const std::uint64_t each : chain_of(page)) keys.push_back(key_of(each));
  REQUIRE(one.index.find(world.next_find++, keys, world.now));
  world.step(one, true);
  const auto found = one.index.take_found(world.now);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].is_answered);
  return found[0].providers;
}

}  // namespace

TEST_CASE("under random faults an index is at rest what its owners have") {
  for (std::uint64_t seed = 1; seed <= testing::seeds(150); ++seed) {
    World world(seed, seed % 3 == 0 ? PageIndex::batch_most : 1 + seed % 16);
    for (int i = 0; i < 500; ++i) {
      Machine& one = *world.machines[world.below(4)];
      const std::uint64_t what = world.below(100);
      if (what < 25)
        one.publish(1 + world.below(120), world.now);
      else if (what < 40)
        one.drop_leaf(world.now);
      else if (what < 55)
        world.find(one);
      else if (what < 57)
        world.fault();
      else if (what < 65)
        world.pass(std::chrono::milliseconds(world.below(40)));
      else
        world.step(one, false);
      for (const auto& each : world.machines) world.take(*each);
      world.look();
    }
    world.lose_last_change(*world.machines[world.below(4)]);
    world.rest();
  }
}

TEST_CASE("under random faults all is told anew while pages come, go and come again") {
  constexpr std::uint64_t pages_most = 999;
  constexpr std::size_t batch = 16;
  std::uint64_t anew = 0;
  for (std::uint64_t seed = 1; seed <= testing::seeds(40); ++seed) {
    World world(seed, batch);
    Machine& one = *world.machines[0];
    one.publish_to(300, world.now);
    std::vector<std::uint64_t> gone;
    std::size_t together = 0;  // tellings during which something changed
    for (int i = 0; i < 600; ++i) {
      for (std::uint64_t changes = world.below(6); changes > 0; --changes) {
        const std::uint64_t page = 1 + world.below(pages_most);
        const bool is_leaf = !one.pages.contains(3 * page) && !one.pages.contains(3 * page + 1) &&
                             !one.pages.contains(3 * page + 2);
        together += one.index.is_told() ? 0 : 1;
        if (one.pages.contains(page) && is_leaf) {
          one.pages.erase(page);
          one.index.dropped(key_of(page), world.now);
          gone.push_back(page);
        } else {
          const bool is_back = !gone.empty() && world.below(2) == 0;
          for (const std::uint64_t each : chain_of(is_back ? gone.back() : page))
            if (one.pages.insert(each).second) one.index.published(key_of(each), world.now);
        }
      }
      for (int leaves = world.below(20) == 0 ? 50 : 0; leaves > 0;
           --leaves)  // more than one call's
        one.drop_leaf(world.now);
      world.pass(PageIndex::linger);
      if (world.below(40) == 0) world.server.data = {};
      world.step(one, world.below(8) != 0);
      check(world.has_parts(one), "X3");
    }
    CHECK(together > 100);
    anew += one.index.counts().anew;
    world.rest();
  }
  CHECK(anew > 5 * testing::seeds(40));
}

TEST_CASE(
    "each turn of telling anew has at most a batch of pages, and it ends while pages change") {
  constexpr std::size_t batch = 16, pages = 2000;
  World world(7);
  Machine one({0, 1}, batch);
  for (std::uint64_t page = 1; page <= pages; ++page) one.index.published(key_of(page), world.now);
  std::size_t calls = 0;
  bool is_full = true;  // the last batch
  for (std::uint64_t next = pages + 1; is_full && calls < 2 * pages; ++calls) {
    const auto question = one.index.ask(world.now);
    REQUIRE(question.has_value());
    CHECK(question->words.size() <= 13 + batch);
    is_full = question->words.size() == 13 + batch;
    CHECK(question->words[7] == (calls == 0 ? "anew" : "next"));
    for (std::size_t i = 0; i < batch / 4; ++i) {  // a page that has been told goes, one comes
      one.index.dropped(key_of(calls * batch / 2 + i + 1), world.now);
      one.index.published(key_of(next++), world.now);
    }
    world.say(one, question->words, question->number);
    world.pass(PageIndex::linger);
  }
  CHECK(calls < pages / (batch / 2) + 8);
}

TEST_CASE("who covers most pages is named first, of equals the one behind who asks") {
  World world(1);
  for (const auto& [machine, page] : {std::pair{0U, 40U}, {2U, 40U}, {3U, 13U}})
    world.machines[machine]->publish(page, world.now);
  world.rest();
  Machine& one = *world.machines[1];
  CHECK(asked(world, one, 40) == std::vector<PageProvider>{{{2, 1}, 4}, {{0, 1}, 4}, {{3, 1}, 3}});
  CHECK(asked(world, one, 41) == std::vector<PageProvider>{{{2, 1}, 3}, {{3, 1}, 3}, {{0, 1}, 3}});
  CHECK(asked(world, one, 5) == std::vector<PageProvider>{{{2, 1}, 1}, {{3, 1}, 1}, {{0, 1}, 1}});
  CHECK(asked(world, one, 2).empty());
  CHECK(one.index.counts().asked == 4);
  CHECK(one.index.counts().found == 3);
}

TEST_CASE("a machine whose lease is over is not named, and what was never answered is told") {
  World world(2);
  world.machines[0]->publish(40, world.now);
  world.rest();
  Machine& one = *world.machines[1];
  CHECK(asked(world, one, 40).size() == 1);
  for (int i = 0; i < 6; ++i) {  // machine 0 says nothing any more
    world.pass(lease / 4);
    world.step(one, true);
  }
  world.pass(lease);
  while (one.index.due() <= world.now) world.step(one, true);
  CHECK(asked(world, one, 40).empty());
  const std::vector<PageKey> keys{key_of(1)};
  REQUIRE(one.index.find(world.next_find, keys, world.now));
  CHECK(one.index.take_found(world.now).empty());
  world.pass(PageIndex::find_patience);
  const auto found = one.index.take_found(world.now);
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].is_answered);
  CHECK(one.index.counts().unanswered == 1);
}

TEST_CASE("an index that is away, slow, or makes no sense is not asked, and tried less and less") {
  World world(3);
  Machine& one = *world.machines[0];
  const std::vector<PageKey> keys{key_of(1)};
  CHECK_FALSE(one.index.find(1, keys, world.now));  // not reached yet
  CHECK(one.index.down() == "it has not been reached yet");
  Instant pause{};
  for (int i = 0; i < 12; ++i) {
    const auto question = one.index.ask(world.now);
    REQUIRE(question.has_value());
    CHECK(question->words[1] == "sluice_pages_1_tell");
    if (i % 3 == 0) one.index.broke("it does not answer", world.now);
    if (i % 3 == 1) one.index.refused(question->number, "NOPERM", world.now);
    if (i % 3 == 2) one.index.answered(question->number, {"gap", "other", "0"}, world.now);
    const Instant next = one.index.due() - world.now;
    CHECK(next >= std::min(std::max(pause, PageIndex::first_pause), PageIndex::longest_pause));
    CHECK(next <= PageIndex::longest_pause);
    CHECK_FALSE(one.index.find(1, keys, world.now));
    pause = next;
    world.pass(next);
  }
  CHECK(pause == PageIndex::longest_pause);
  world.step(one, true);
  CHECK(one.index.down().empty());
  REQUIRE(one.index.find(1, keys, world.now));
  REQUIRE(one.index.ask(world.now).has_value());
  CHECK(one.index.find(2, keys, world.now + 1ms));
  CHECK_FALSE(one.index.find(3, keys, world.now + 51ms));  // a question is open for long
}

TEST_CASE("where there is no room a machine leaves, and comes again after a while") {
  World world(4);
  Machine& one = *world.machines[0];
  one.publish(40, world.now);
  world.rest();
  one.publish(41, world.now);
  world.pass(PageIndex::linger);
  const auto refused = one.index.ask(world.now);
  REQUIRE(refused.has_value());
  one.index.answered(refused->number, {"full", "262144"}, world.now);
  const auto leaves = one.index.ask(world.now);
  REQUIRE(leaves.has_value());
  CHECK(leaves->words[1] == "sluice_pages_1_leave");
  world.say(one, leaves->words, leaves->number);
  CHECK(world.there(one).empty());
  CHECK(one.index.due() == world.now + PageIndex::first_full_pause);
  CHECK(asked(world, one, 40).empty());  // asking goes on
  world.pass(PageIndex::first_full_pause);
  world.step(one, true);
  CHECK(world.there(one).size() == 5);
}

TEST_CASE("who has room for a part of its pages only waits twice as long each time") {
  World world(4);
  Machine& one = *world.machines[0];
  for (std::uint64_t page = 1; page <= 600; ++page) one.index.published(key_of(page), world.now);
  for (PageIndex::Instant pause = PageIndex::first_full_pause; pause < 10s; pause *= 2) {
    const auto part = one.index.ask(world.now);
    REQUIRE(part.has_value());
    world.say(one, part->words, part->number);
    const auto refused = one.index.ask(world.now);
    REQUIRE(refused.has_value());
    one.index.answered(refused->number, {"full", "262144"}, world.now);
    const auto leaves = one.index.ask(world.now);
    REQUIRE(leaves.has_value());
    world.say(one, leaves->words, leaves->number);
    CHECK(one.index.due() == world.now + pause);
    world.pass(pause);
  }
}

TEST_CASE("one that is full is asked again soon after a question without an answer") {
  World world(4);
  Machine& one = *world.machines[0];
  one.publish(40, world.now);
  const auto refused = one.index.ask(world.now);
  REQUIRE(refused.has_value());
  one.index.answered(refused->number, {"full", "262144"}, world.now);
  const auto leaves = one.index.ask(world.now);
  REQUIRE(leaves.has_value());
  world.say(one, leaves->words, leaves->number);
  const std::vector<PageKey> keys{key_of(1)};
  REQUIRE(one.index.find(1, keys, world.now));
  REQUIRE(one.index.ask(world.now).has_value());
  one.index.broke("it does not answer", world.now);
  CHECK_FALSE(one.index.find(2, keys, world.now));
  world.pass(PageIndex::first_pause);
  REQUIRE(one.index.find(3, keys, world.now));
  const auto again = one.index.ask(world.now);
  REQUIRE(again.has_value());
  CHECK(again->words[1] == "sluice_pages_1_find");
  world.say(one, again->words, again->number);
  CHECK(one.index.down().empty());
}

TEST_CASE("many pages are told in batches, and what comes and goes between two is not told") {
  World world(5);
  Machine& one = *world.machines[0];
  for (std::uint64_t page = 1; page <= 1200; ++page) one.index.published(key_of(page), world.now);
  std::vector<std::size_t> added;
  while (const auto question = one.index.ask(world.now)) {
    added.push_back(std::stoul(question->words[12]));
    world.say(one, question->words, question->number);
  }
  CHECK(added == std::vector<std::size_t>{512, 512, 176});
  one.index.published(key_of(2000), world.now);
  one.index.dropped(key_of(5), world.now);
  one.index.dropped(key_of(2000), world.now);
  one.index.published(key_of(5), world.now);
  CHECK(one.index.is_told());
  CHECK(one.index.counts().told == 1200);
  CHECK(world.there(one).size() == 1200);
}

TEST_CASE(
    "a second pool of a name in one life is not taken for the first, of which nobody took leave") {
  World world(6);
  Machine first({0, 4}, PageIndex::batch_most, 1'000);
  first.publish(40, world.now);
  const auto late = first.index.ask(world.now);
  REQUIRE(late.has_value());
  world.say(first, late->words, late->number);
  Machine second({0, 4}, PageIndex::batch_most, 2'000);
  second.publish(2, world.now);
  world.step(second, true);
  CHECK(second.index.is_told());
  CHECK(second.index.down().empty());
  CHECK(world.there(second) == std::set<std::string>{name_of(2)});
  CHECK(world.server.ask(late->words).words[0] == "gap");  // what the first told, late and again
  CHECK(world.there(second) == std::set<std::string>{name_of(2)});
}

TEST_CASE("an earlier life's changes count no more when a later one has told") {
  World world(6);
  Machine first({0, 4}), second({0, 5});
  first.publish(40, world.now);
  world.step(first, true);
  CHECK(world.there(first).size() == 4);
  second.publish(2, world.now);
  world.step(second, true);
  CHECK(world.there(second).size() == 1);
  first.publish(41, world.now);
  world.pass(PageIndex::linger);
  world.step(first, true);
  CHECK(world.there(second).size() == 1);
  CHECK(first.index.due() > world.now + 1h);  // it tells nothing more
  const LuaAnswer left = world.server.ask(first.index.farewell());
  CHECK(left.error.empty());
  CHECK(world.there(second).size() == 1);
  world.server.ask(second.index.farewell());
  CHECK(world.there(second).empty());
}
