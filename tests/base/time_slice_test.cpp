#include "base/time_slice.h"

#include <catch2/catch.hpp>
#include <cstdint>

namespace sluice {
namespace {

using std::chrono::microseconds;

constexpr TimeSlice::Time at(std::int64_t us) { return TimeSlice::Time(microseconds(us)); }

/// When a worker with parts of that length gives its core away, in microseconds; 0: not within 1 s.
std::int64_t first_over(std::int64_t part) {
  TimeSlice slice(at(0));
  for (std::int64_t now = part; now < 1'000'000; now += part)
    if (slice.is_over(at(now))) return now;
  return 0;
}

TEST_CASE("a worker gives its core away behind the first part that ends after the slice") {
  CHECK(first_over(1) == 3001);
  CHECK(first_over(400) == 3200);
  CHECK(first_over(500) == 3500);  // at 3000 exactly it has not been longer
  CHECK(first_over(700) == 3500);
}

TEST_CASE("parts as long as an absence are taken for one, so such a worker keeps its core") {
  CHECK(first_over(701) == 0);
}

TEST_CASE("a slice begins anew when the core was away, and when it was given away") {
  TimeSlice slice(at(0));
  CHECK_FALSE(slice.is_over(at(600)));
  CHECK_FALSE(slice.is_over(at(1200)));
  CHECK_FALSE(slice.is_over(at(5000)));  // the system had it for others
  for (std::int64_t now = 5500; now <= 8000; now += 500) CHECK_FALSE(slice.is_over(at(now)));
  CHECK(slice.is_over(at(8001)));
  slice.begin(at(11'000));
  for (std::int64_t now = 11'500; now <= 14'000; now += 500) CHECK_FALSE(slice.is_over(at(now)));
  CHECK(slice.is_over(at(14'100)));
}

}  // namespace
}  // namespace sluice
