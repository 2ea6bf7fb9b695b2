// What words at the vocabulary's end mean as actions, for each robot that has so many.
#include "engine/policy/action_tokens.h"

#include <catch2/catch.hpp>

using namespace sluice;

namespace {

Architecture with_robots() {
  Architecture made;
  made.action_tokens_end = 1000;
  made.statistics.push_back({"two", {-1, 0}, {1, 10}, {true, false}});
  made.statistics.push_back({"three", {0, 0, -2}, {1, 1, 2}, {true, true, true}});
  made.statistics.push_back({"two more", {0, 0}, {255, 255}, {true, true}});
  return made;
}

}  // namespace

TEST_CASE(
    "actions are told for robots with as many dimensions as there are tokens, and no others") {
  const Architecture robots = with_robots();
  CHECK(actions_text(robots, std::vector{999, 745}) ==
        "two: -0.996078 0.996078\ntwo more: 0.5 254.5\n");
  CHECK(actions_text(robots, std::vector{872, 871, 744}) == "three: 0.5 0.503922 1.99216\n");
  CHECK(actions_text(robots, std::vector{998}).empty());
  CHECK(actions_text(robots, std::vector<std::int32_t>{}).empty());
  CHECK(actions_text(robots, std::vector{872, 871, 744, 1}).empty());
}

TEST_CASE("a token that is no bin's is the first bin or the last") {
  const Architecture robots = with_robots();
  CHECK(actions_text(robots, std::vector{1000, 5}) ==
        "two: -0.996078 0.996078\ntwo more: 0.5 254.5\n");
}

TEST_CASE("as many bins as the checkpoint says, between one edge more") {
  Architecture robots = with_robots();
  robots.action_bins = 5;  // four centres: -0.75, -0.25, 0.25, 0.75
  const std::vector<float> got =
      actions_of(robots, robots.statistics[1], std::vector{999, 998, 996});
  CHECK(got == std::vector<float>{0.125F, 0.375F, 1.5F});
  CHECK(words_among(robots, std::vector{999, 995}) == 0);
  CHECK(words_among(robots, std::vector{1000, 999, 994, 5}) == 3);
}

TEST_CASE("statistics are found by their data set's name, or are the only ones") {
  Architecture robots = with_robots();
  const auto why = [&](const char* name) { return statistics_named(robots, name).error().message; };
  CHECK(statistics_named(robots, "two more").value() == &robots.statistics[2]);
  CHECK(
      why("") ==
      "the checkpoint has statistics of several data sets: say which with `statistics`; there are "
      "two, three, two more");
  CHECK(why("four") ==
        "the checkpoint has no statistics of 'four'; there are two, three, two more");
  robots.statistics.resize(1);
  CHECK(statistics_named(robots, "").value() == &robots.statistics[0]);
  CHECK(why("three") == "the checkpoint has no statistics of 'three'; there are two");
  robots.statistics[0] = {"empty", {}, {}, {}};
  CHECK(why("") == "the statistics of 'empty' have no values: action.q01 and action.q99 are empty");
  robots.statistics.assign(11, {"robot", {0}, {1}, {true}});
  CHECK(why("arm").ends_with("robot, robot and 3 more"));
  robots.statistics.clear();
  CHECK(why("").starts_with("the checkpoint has no statistics of actions, so nobody knows "));
  CHECK(why("two") == why(""));
}
