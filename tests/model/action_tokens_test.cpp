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
