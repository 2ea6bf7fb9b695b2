// A turn of telling an index all anew does the same work, however many pages there are.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "counter.h"
#include "dataplane/page_index.h"

using namespace sluice;

namespace {

/// Calls of operator new in the first turn.
std::size_t first_turn(std::uint64_t pages) {
  PageIndex index({"sluice:laptop:pages:7", {0, 1}, std::chrono::seconds(2), "data"});
  SplitMix64 random(pages);
  for (std::uint64_t page = 0; page < pages; ++page)
    index.published({{random.next(), random.next(), 0, 0}}, {});
  const std::size_t before = allocations();
  const auto question = index.ask(std::chrono::seconds(1));
  const std::size_t after = allocations();
  REQUIRE(question.has_value());
  CHECK(question->words.size() == 13 + PageIndex::batch_most);
  return after - before;
}

}  // namespace

TEST_CASE("the first turn of telling all anew asks for as much memory with any number of pages") {
  CHECK(first_turn(1000) == first_turn(50000));
}
