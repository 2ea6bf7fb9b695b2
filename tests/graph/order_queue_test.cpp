// The queue of a logical order against what only a peer that is wrong can bring: positions that
// come twice, refinements without end, more than may wait.
#include "graph/order_queue.h"

#include <catch2/catch.hpp>

using namespace sluice;

namespace {

struct Maker {
  Pools pools;

  Share whole(std::uint64_t sequence = 0) {
    Scope* scope = pools.new_scope(0, {1, {}});
    scope->sequence = sequence;
    return {ScopeRef(scope), 0, share_whole};
  }
  /// The whole of a fresh scope that stands for `share`.
  Share finer(Share share) {
    Scope* scope = pools.new_scope(0, {1, {}});
    scope->parent = std::move(share);
    return {ScopeRef(scope), 0, share_whole};
  }
  static Share part(const Share& share, std::uint64_t begin, std::uint64_t width) {
    return {share.scope, begin, width};
  }
};

constexpr std::uint64_t half = share_whole / 2;

}  // namespace

TEST_CASE("a share that was refined a hundred thousand times over many messages needs no stack") {
  Maker maker;
  OrderQueue queue;
  constexpr std::uint32_t deep = 100'000;
  // Each message has a second half, and says that the first is refined once more.
  Share share = maker.whole();
  for (std::uint32_t i = 0; i < deep; ++i) {
    REQUIRE(queue.put(Maker::part(share, half, half), i));
    share = maker.finer(Maker::part(share, 0, half));
  }
  CHECK(queue.pop(false) == OrderQueue::no_item);
  REQUIRE(queue.settle(share));
  for (std::uint32_t i = deep; i-- > 0;) REQUIRE(queue.pop(false) == i);
  CHECK(queue.pop(false) == OrderQueue::no_item);
  CHECK(queue.complete(0));
  CHECK(queue.empty());
  CHECK_FALSE(queue.open());
  share = Share{};  // nor does giving it back
  CHECK(maker.pools.scopes.in_use() == 0);
}

TEST_CASE("a position that is told twice before its turn is found when its turn comes") {
  Maker maker;
  OrderQueue queue;
  const Share all = maker.whole();
  REQUIRE(queue.put(Maker::part(all, half, 10), 1));
  const bool as_item = GENERATE(true, false);
  REQUIRE((as_item ? queue.put(Maker::part(all, half, 10), 2)
                   : queue.settle(Maker::part(all, half, 10))));
  CHECK(queue.pop(false) == OrderQueue::no_item);
  CHECK_FALSE(queue.broken());
  REQUIRE(queue.settle(Maker::part(all, 0, half)));
  for (int i = 0; i < 3 && !queue.broken(); ++i) queue.pop(false);
  CHECK(queue.broken());
  CHECK(queue.pop(false) == OrderQueue::no_item);
  CHECK_FALSE(queue.settle(Maker::part(all, half + 10, 5)));
  queue.clear();
  CHECK(queue.settle(maker.whole()));
  CHECK_FALSE(queue.broken());
}

TEST_CASE("a part that is told beside a refinement of the same part is found") {
  Maker maker;
  OrderQueue queue;
  const Share all = maker.whole();
  const Share finer = maker.finer(Maker::part(all, 0, half));
  REQUIRE(queue.put(Maker::part(finer, 0, half), 1));
  CHECK(queue.pop(false) == 1);
  SECTION("settled, while the refinement is in hand") {
    REQUIRE(queue.settle(Maker::part(all, 0, half)));
  }
  SECTION("passed, likewise") { REQUIRE(queue.pass(Maker::part(all, 0, half))); }
  SECTION("refined a second time") {
    REQUIRE(queue.settle(maker.finer(Maker::part(all, 0, half))));
  }
  queue.settle(Maker::part(finer, half, half));
  queue.pop(false);
  queue.pop(false);
  CHECK(queue.broken());
  CHECK_FALSE(queue.complete(0));
}

TEST_CASE("what has passed is refused, in a refinement of it too") {
  Maker maker;
  OrderQueue queue;
  const Share all = maker.whole();
  REQUIRE(queue.settle(Maker::part(all, 0, half)));
  CHECK_FALSE(queue.settle(Maker::part(all, 5, 5)));
  CHECK_FALSE(queue.put(maker.finer(Maker::part(all, 5, 5)), 1));
  CHECK(queue.problem() == "a position was settled twice");
  REQUIRE(queue.settle(Maker::part(all, half, half)));
  CHECK(queue.pop(false) == OrderQueue::no_item);
  CHECK_FALSE(queue.settle(all));
  CHECK_FALSE(queue.settle(maker.finer(all)));
  CHECK_FALSE(queue.open());
}

TEST_CASE("no more waits than may, and what may go on goes on") {
  Maker maker;
  OrderQueue queue(Mix(), 4);
  const Share all = maker.whole();
  for (std::uint32_t i = 0; i < 4; ++i) REQUIRE(queue.put(Maker::part(all, half + 10 * i, 10), i));
  CHECK_FALSE(queue.put(Maker::part(all, half + 100, 10), 9));
  CHECK(queue.problem() == "too many positions wait for an earlier one");
  CHECK_FALSE(queue.put(maker.finer(Maker::part(all, half + 100, 10)), 9));
  std::size_t scopes = 1;
  while (scopes < 100 && queue.settle(Maker::part(maker.whole(scopes), 0, half))) ++scopes;
  CHECK(scopes == 4);
  REQUIRE(queue.settle(Maker::part(all, 0, half)));
  for (std::uint32_t i = 0; i < 4; ++i) CHECK(queue.pop(false) == i);
  CHECK(queue.empty());

  // Scopes that have only begun are bounded too, and the first of all, which is not among them.
  OrderQueue begun(Mix(), 4);
  for (std::uint64_t i = 1; i <= 4; ++i)
    REQUIRE(begun.settle(Maker::part(maker.whole(i), 0, half)));
  const Share first = Maker::part(maker.whole(0), 0, half);
  CHECK_FALSE(begun.pass(first));
  CHECK_FALSE(begun.put(first, 1));
  CHECK(begun.problem() == "too many positions wait for an earlier one");
}
