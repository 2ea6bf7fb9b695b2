#include "base/crowd.h"

#include <catch2/catch.hpp>
#include <cstdint>

namespace sluice {
namespace {

using std::chrono::microseconds;

constexpr Crowd::Time at(std::int64_t us) { return Crowd::Time(microseconds(us)); }

/// A thread that was away from then on, for so long.
void away(Crowd& crowd, std::int64_t gave, std::int64_t us) {
  crowd.came_back(at(gave), at(gave + us));
}

TEST_CASE("there is a crowd once a core was away for longer than a millisecond") {
  Crowd crowd;
  CHECK_FALSE(crowd.is_here());
  away(crowd, 0, 1);
  away(crowd, 2000, 1000);
  CHECK_FALSE(crowd.is_here());
  away(crowd, 4000, 1001);
  CHECK(crowd.is_here());
}

TEST_CASE("a crowd is over after a fifth of a second, though cores are away still") {
  Crowd crowd;
  away(crowd, 0, 2000);
  for (const std::int64_t now : {10'000, 60'000, 200'000}) {
    away(crowd, now, 2000);
    CHECK(crowd.is_here());
  }
  away(crowd, 202'001, 0);
  CHECK_FALSE(crowd.is_here());
}

TEST_CASE("behind its end a crowd's own threads are not taken for another one") {
  Crowd crowd;
  away(crowd, 0, 2000);
  away(crowd, 210'000, 2000);  // over at 212'000
  CHECK_FALSE(crowd.is_here());
  away(crowd, 215'000, 7000);
  CHECK_FALSE(crowd.is_here());
  away(crowd, 219'000, 3001);
  CHECK(crowd.is_here());
}

}  // namespace
}  // namespace sluice
