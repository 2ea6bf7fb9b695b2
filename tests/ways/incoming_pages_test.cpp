// Pages that are read straight into the pool: whatever becomes of a pull while they are on their
// way, nobody else gets them before nothing can be written there any more.
#include "engine/storage/incoming_pages.h"

#include <thread>

#include "two_pools.h"

using namespace sluice;

namespace {

constexpr std::size_t all = 4 * TwoPools::room;  // pages of the reader
constexpr std::size_t asked = 12;

/// A pull whose reads are all on their way, as far as the owner lets them be.
struct OnTheWay : TwoPools {
  OnTheWay() : TwoPools(Way::one_memory) {
    REQUIRE(put(*owner.pool, 1, asked) == asked);
    world.holds = true;
    REQUIRE(reader.peers->begin(1, origin(), tokens_of(1, asked), {}, storage_clock()));
    poll();
    REQUIRE(world.held.size() == asked);
    CHECK(there(*reader.pool, 1, asked) == 0);
  }
  std::size_t poll() {
    std::vector<PageSource::Ready> ready;
    reader.peers->poll(storage_clock(), ready);
    return ready.empty() ? 0 : ready[0].tokens / page_tokens;
  }
  void lose_owner() {
    owner = {};
    CHECK(poll() == 0);
    CHECK_FALSE(reader.peers->is_waited_for());
  }
  /// Nobody but the pull has its pages; another prompt gets all others, and what is there stays.
  void fill_all_others() {
    poll();
    CHECK(put(*reader.pool, 7, all) == all - asked);
    CHECK(there(*reader.pool, 7, all) == all - asked);
    world.go_on();
    CHECK(there(*reader.pool, 7, all) == all - asked);
    poll();
    CHECK(put(*reader.pool, 7, all) == all);
    CHECK(there(*reader.pool, 7, all) == all);
    CHECK(reader.pool->pages_free() == all);
  }
};

}  // namespace

TEST_CASE("pages that are on their way are nobody's, and are found when all of each has come") {
  OnTheWay pull;
  CHECK(pull.reader.pool->pages_free() == all - asked);
  pull.world.go_on();
  CHECK(there(*pull.reader.pool, 1, asked) == 0);  // not looked at yet
  CHECK(pull.poll() == asked);
  CHECK(there(*pull.reader.pool, 1, asked) == asked);
  CHECK(pull.reader.pool->pages_free() == all);
}

TEST_CASE("the pages of a pull that is given up are given to others when its reads have ended") {
  OnTheWay pull;
  pull.reader.peers->forget(1);
  pull.fill_all_others();
  CHECK(there(*pull.reader.pool, 1, asked) == 0);
}

TEST_CASE("the pages of a pull from a machine that is lost are given to others behind its reads") {
  OnTheWay pull;
  pull.lose_owner();
  pull.fill_all_others();
}

TEST_CASE("a pull of which a page has changed gives all others back behind their reads") {
  OnTheWay pull;
  int reads = 0;
  pull.world.amid = [&] {
    if (++reads == 3) CHECK(put(*pull.owner.pool, 9, TwoPools::room) == TwoPools::room);
  };
  pull.world.go_on();
  const std::size_t came = pull.poll();
  CHECK(came <= 2);
  CHECK(there(*pull.reader.pool, 1, asked) == came);
  CHECK(pull.ended(PullEnd::changed) == 1);
  CHECK(pull.reader.pool->pages_free() == all);
}

TEST_CASE("a pool ends behind the reads into it") {
  OnTheWay pull;
  pull.lose_owner();
  std::thread writer([&] { pull.world.go_on(); });
  pull.reader = {};
  writer.join();
  CHECK(pull.world.held.empty());
}

TEST_CASE("a pull waits once for room, and takes what there is then") {
  for (const std::size_t left : {std::size_t{0}, std::size_t{5}, asked}) {
    INFO(left);
    TwoPools pools(Way::one_memory);
    REQUIRE(put(*pools.owner.pool, 1, asked) == asked);
    KvPool& pool = *pools.reader.pool;
    const std::span<const PageKey> none;
    Sequence first = pool.open(none), more = pool.open(none);
    REQUIRE(pool.add_pages(first, all - asked + 1).ok());
    REQUIRE(pool.add_pages(more, asked - 1).ok());
    REQUIRE(pools.reader.peers->begin(1, origin(), tokens_of(1, asked), {}, storage_clock()));
    std::vector<PageSource::Ready> ready;
    pools.reader.peers->poll(storage_clock(), ready);
    CHECK(ready.empty());
    CHECK(pools.reader.peers->pages_awaited() == asked);
    // Who has pages may give some up for those that are awaited.
    if (left > 0) more = {};
    if (left == asked) first = {};
    if (left == 5) {
      more = pool.open(none);
      REQUIRE(pool.add_pages(more, asked - 1 - left).ok());
    }
    for (int i = 0; i < 3 && ready.empty(); ++i) pools.reader.peers->poll(storage_clock(), ready);
    REQUIRE(ready.size() == 1);
    CHECK(ready[0].tokens == left * page_tokens);
    CHECK(there(pool, 1, asked) == left);
    CHECK(pools.reader.peers->pages_awaited() == 0);
  }
}

TEST_CASE("the pool gives pages up as places are asked for, and not before") {
  TwoPools pools(Way::one_memory);
  KvPool& pool = *pools.reader.pool;
  REQUIRE(put(pool, 1, all) == all);
  const std::unique_ptr<IncomingPages> incoming = IncomingPages::take(pool, {}, 1, asked);
  REQUIRE(incoming != nullptr);
  CHECK(incoming->unplaced() == asked);
  CHECK(there(pool, 1, all) == all);
  std::vector<Ref<Buffer>> first = incoming->places({}, 5);
  CHECK(first.size() == 5);
  CHECK(incoming->unplaced() == asked - 5);
  CHECK(there(pool, 1, all) == all - 5);
  std::vector<Ref<Buffer>> rest = incoming->places({}, all);
  CHECK(rest.size() == asked - 5);
  CHECK(there(pool, 1, all) == all - asked);
  rest.clear();
  CHECK(incoming->is_written());
  first.clear();
  CHECK_FALSE(incoming->is_written());
}

TEST_CASE("what is pulled for a tenant is as much as its quota leaves, and takes its own cache") {
  for (const Way way : {Way::one_memory, Way::message}) {
    INFO(name_of(way));
    TwoPools pools(way);
    for (const std::int32_t prompt : {1, 2}) REQUIRE(put(*pools.owner.pool, prompt, 6, "one") == 6);
    REQUIRE(put(*pools.owner.pool, 3, 4, "one") == 4);
    KvPool& pool = *pools.reader.pool;
    KvPeers& peers = *pools.reader.peers;
    pool.limit_tenants(8);
    REQUIRE(put(pool, 9, all - 8) == all - 8);  // nobody's
    const auto pull = [&](std::uint64_t task, std::int32_t prompt, std::size_t pages) {
      return peers.begin(task, origin("one"), tokens_of(prompt, pages), {}, storage_clock());
    };
    std::vector<PageSource::Ready> ready;
    const auto wait = [&] {
      std::size_t came = 0;
      for (int i = 0; i < 1000 && peers.is_waited_for(); ++i)
        peers.poll(storage_clock(), ready, std::chrono::milliseconds(20));
      for (const PageSource::Ready& one : ready) came += one.tokens / page_tokens;
      ready.clear();
      return came;
    };
    REQUIRE(pull(1, 1, 6));
    REQUIRE(pull(2, 2, 6));
    CHECK(wait() == 8);
    CHECK(there(pool, 1, 6, "one") == 6);
    CHECK(there(pool, 2, 6, "one") == 2);
    CHECK(pools.reader.peers->counts().pulled == 8);
    REQUIRE(pull(3, 3, 4));
    CHECK(wait() == 4);
    CHECK(there(pool, 3, 4, "one") == 4);
    CHECK(pool.table().tenants().pages_of("one").pages == 8);
    CHECK(there(pool, 9, all - 8) == all - 8);
    // Nobody is asked for pages that it may not have.
    KvSequence held;
    pool.belong(held, "one");
    REQUIRE(pool.reserve(held, 8 * page_tokens).ok());
    CHECK_FALSE(pull(4, 1, 6));
  }
}
