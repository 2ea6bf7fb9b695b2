#include "cli/load_advice.h"

#include <catch2/catch.hpp>

namespace sluice::cli {
namespace {

using Catch::Matchers::Contains;

constexpr LoadCounts late{.calls = 300, .failed = 200, .late = 190, .lost = 0, .overlap = true};
constexpr LoadCounts lost{.calls = 300, .failed = 200, .late = 20, .lost = 180, .overlap = true};
constexpr Load shared[] = {Load::together, Load::closed, Load::open};

TEST_CASE("calls that are late only beside others are advised to be fewer at once") {
  const auto advice = [](Load load) { return load_advice(late, load, false, {100, 1}); };
  for (const Load load : shared)
    CHECK_THAT(advice(load), Contains("one at a time 1 of 100 calls is late: "));
  CHECK_THAT(advice(Load::together), Contains("a smaller --concurrency"));
  CHECK_THAT(advice(Load::closed), Contains("a smaller --concurrency"));
  CHECK_THAT(advice(Load::open), Contains("a lower --rate"));
}

TEST_CASE("calls that are late by themselves are not advised to be fewer at once") {
  for (const Load load : {Load::alone, Load::in_turn}) {
    LoadCounts apart = late;
    apart.overlap = false;
    const std::string advice = load_advice(apart, load, false, {});
    CHECK_THAT(advice,
               Contains("longer than their deadline") || Contains("longer than its deadline"));
    CHECK_THAT(advice, !Contains("--"));
  }
  LoadCounts apart = late;
  apart.overlap = false;
  for (const Load load : shared) {
    CHECK_THAT(load_advice(apart, load, false, {}), Contains("no two calls are under way at once"));
    CHECK_FALSE(asks_about_one_at_a_time(apart, load, false));
    const std::string advice = load_advice(late, load, false, {100, 60});
    CHECK_THAT(advice, Contains("60 of 100 calls are late too: fewer at once do not"));
    CHECK_THAT(advice, !Contains("--"));
  }
}

TEST_CASE("where some calls are late by themselves, fewer at once are said to help the others") {
  for (const Load load : shared) {
    // 190 of 300 under the load, 0.633: two standard errors beside 100 are 0.113, a tenth is 0.063.
    for (const std::uint64_t some : {7, 51})
      CHECK_THAT(load_advice(late, load, false, {100, some}),
                 Contains("are late too: fewer at once, or spread, help some calls"));
    CHECK_THAT(load_advice(late, load, false, {100, 6}), !Contains("too"));
    CHECK_THAT(load_advice(late, load, false, {100, 53}), Contains("do not help"));
  }
}

TEST_CASE("of few calls chance is not taken for the load's doing") {
  LoadCounts few{.calls = 10, .failed = 5, .late = 5, .lost = 0, .overlap = true};
  CHECK_THAT(load_advice(few, Load::open, false, {10, 3}), Contains("do not help"));
  CHECK_THAT(load_advice(few, Load::open, false, {10, 0}), Contains("a lower --rate"));
  few = {.calls = 10'000, .failed = 5'000, .late = 5'000, .lost = 0, .overlap = true};
  CHECK_THAT(load_advice(few, Load::open, false, {10'000, 4'400}), Contains("help some"));
  CHECK_THAT(load_advice(few, Load::open, false, {10'000, 4'600}), Contains("do not help"));
}

TEST_CASE("with faults the load alone is not blamed for calls that are late") {
  CHECK(asks_about_one_at_a_time(late, Load::open, false));
  CHECK_FALSE(asks_about_one_at_a_time(late, Load::open, true));
  CHECK_FALSE(asks_about_one_at_a_time(lost, Load::open, false));
  for (const Load load : {Load::alone, Load::together})
    CHECK_THAT(load_advice(late, load, true, {}), Contains("without it the load alone"));
}

TEST_CASE("most calls have to fail with machines before a rate is advised, which alone helps") {
  for (const Load load : {Load::together, Load::closed, Load::in_turn}) {
    CHECK_THAT(load_advice(lost, load, true, {}), Contains("a low --rate spreads them"));
    CHECK_THAT(load_advice(lost, load, true, {}), !Contains("--concurrency"));
    LoadCounts few = lost;
    few.lost = 150;
    CHECK(load_advice(few, load, true, {}).empty());
  }
  for (const Load load : {Load::alone, Load::open})
    CHECK(load_advice(lost, load, true, {}).empty());
}

}  // namespace
}  // namespace sluice::cli
