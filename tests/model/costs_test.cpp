// What is learned from forwards, beside a weighted least-squares line computed anew.
#include "engine/plan/costs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "engine/plan/planner.h"

using namespace sluice;

namespace {

using Forwards = std::vector<std::pair<std::uint32_t, Nanoseconds>>;

Costs learned(const Forwards& forwards) {
  Costs costs;
  for (const auto& [rows, took] : forwards) costs.learn(rows, took);
  return costs;
}

/// Fixed part and slope over all forwards, each weighing 0.98 of the one behind it.
std::pair<double, double> line_of(const Forwards& forwards) {
  double count = 0, mean_x = 0, mean_y = 0, over = 0, under = 0;
  const auto each = [&](const auto& use) {
    double weight = 1;
    for (auto it = forwards.rbegin(); it != forwards.rend(); ++it, weight *= 0.98)
      use(weight, static_cast<double>(it->first), static_cast<double>(it->second));
  };
  each([&](double weight, double x, double y) {
    count += weight;
    mean_x += weight * x;
    mean_y += weight * y;
  });
  mean_x /= count;
  mean_y /= count;
  each([&](double weight, double x, double y) {
    over += weight * (x - mean_x) * (y - mean_y);
    under += weight * (x - mean_x) * (x - mean_x);
  });
  return {mean_y - over / under * mean_x, over / under};
}

}  // namespace

TEST_CASE("costs are known after five forwards of more than one size") {
  CHECK_FALSE(Costs().known());
  CHECK_FALSE(learned({{1, 10}, {2, 20}, {3, 30}, {4, 40}}).known());
  CHECK(learned({{1, 10}, {2, 20}, {3, 30}, {4, 40}, {5, 50}}).known());
  CHECK_FALSE(learned({{8, 10}, {8, 20}, {8, 30}, {8, 40}, {8, 50}, {8, 60}}).known());
  CHECK_FALSE(learned({{8, 10}, {8, 20}, {9, 30}, {9, 40}, {8, 1}, {8, 1}, {8, 1}}).known());
  CHECK(learned({{8, 10}, {8, 20}, {10, 30}, {10, 40}, {8, 1}}).known());
}

TEST_CASE("forwards on a line are told exactly, and as many rows fit as the line says") {
  const Costs costs = learned({{1, 1040}, {9, 1360}, {4, 1160}, {30, 2200}, {16, 1640}});
  REQUIRE(costs.known());
  for (const std::uint32_t rows : {0U, 1U, 7U, 500U})
    CHECK(std::abs(costs.of(rows) - (1000 + 40 * Nanoseconds{rows})) <= 1);
  CHECK(costs.rows_within(999) == 0);
  CHECK(costs.rows_within(1005) == 0);
  CHECK(costs.rows_within(1079) == 1);
  CHECK(costs.rows_within(1081) == 2);
  CHECK(costs.rows_within(1000 + 40 * 500 + 5) == 500);
  CHECK(costs.rows_within(std::numeric_limits<std::int64_t>::max()) == 0xffffffffU);
}

TEST_CASE("older forwards weigh less by a fiftieth for each that came behind them") {
  Forwards forwards{{1, 1000}, {9, 9000}, {4, 5000}, {30, 31000}, {16, 15000}};
  for (std::uint32_t i = 0; i < 60; ++i) forwards.push_back({1 + i * 7 % 23, 500 + 90 * (i % 17)});
  for (const std::size_t count : {5U, 12U, 40U, 65U}) {
    const Forwards some(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(count));
    const auto [fixed, slope] = line_of(some);
    const Costs costs = learned(some);
    for (const std::uint32_t rows : {1U, 10U, 100U}) {
      // No part of the line is below nothing.
      const double want = std::max(fixed, 0.0) + std::max(slope, 0.0) * rows;
      CHECK(std::abs(static_cast<double>(costs.of(rows)) - want) < 1 + want * 1e-6);
    }
  }
}

TEST_CASE("more rows never cost less, and nothing costs less than nothing") {
  const Costs falling = learned({{1, 500}, {2, 400}, {3, 300}, {4, 200}, {5, 100}});
  CHECK(falling.of(1) == falling.of(1000));
  CHECK(falling.of(1) > 200);
  CHECK(falling.rows_within(1000) == 0xffffffffU);
  CHECK(falling.rows_within(0) == 0);
  const Costs steep = learned({{10, 100}, {20, 1100}, {30, 2100}, {40, 3100}, {50, 4100}});
  CHECK(steep.of(0) == 0);
  CHECK(steep.rows_within(0) == 0);
  CHECK(steep.rows_within(1050) == 10);
}

TEST_CASE("what waits is counted with what is promised, to the page") {
  PlannerOptions options;
  Planner planner(options);
  planner.begin(1, {2, 5});
  planner.begin(2, {0, 3});
  CHECK(planner.fits(8));
  CHECK_FALSE(planner.fits(7));
  Batch batch;
  planner.admit(5, 100, batch);
  REQUIRE(batch.admitted.size() == 1);
  CHECK(planner.promised() == 5);
  CHECK(planner.fits(8));
  CHECK_FALSE(planner.fits(7));
  planner.took(1, 2);
  CHECK(planner.promised() == 3);
  CHECK(planner.fits(6));
  CHECK_FALSE(planner.fits(5));
  CHECK(planner.is_admitted(1));
  CHECK_FALSE(planner.is_admitted(2));
  CHECK_FALSE(planner.is_admitted(3));
  planner.end(2);
  CHECK(planner.fits(3));
  planner.end(1);
  CHECK(planner.promised() == 0);
  CHECK(planner.fits(0));
}
