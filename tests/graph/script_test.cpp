// A scenario bound to a plan: sessions by name, and each node's yields in order.
#include "graph/script.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/sim/world.h"

using namespace sluice;

TEST_CASE("calls of one session's name share its place, in the order in which names come") {
  const testing::Bound bound = testing::bind(testing::three_calls);
  CHECK(bound.script.sessions == std::vector<std::string>{"a", "b"});
  REQUIRE(bound.script.calls.size() == 3);
  CHECK(bound.script.calls[0].session == 0);
  CHECK(bound.script.calls[1].session == 1);
  CHECK(bound.script.calls[2].session == 0);
  for (const ScriptCall& call : bound.script.calls) {
    CHECK(call.inputs == 1);
    CHECK(call.number(0) == 0);
    CHECK(call.number(7) == 0);
  }
}

TEST_CASE("a node yields the fields that its script names, and fails where it says so") {
  const testing::Bound bound = testing::bind(testing::three_calls);
  const auto outputs = [&](const char* node, std::initializer_list<const char*> names) {
    std::uint64_t mask = 0;
    const PlanNode* found = bound.plan.find(node);
    for (const char* name : names)
      for (std::size_t i = 0; i < found->outputs.size(); ++i)
        if (found->outputs[i] == name) mask |= std::uint64_t{1} << i;
    return mask;
  };
  const NodeScript& split = bound.script.nodes[bound.plan.find("split")->id];
  const std::vector<std::uint64_t> yields{outputs("split", {"one", "two"}),
                                          outputs("split", {"one"}),
                                          outputs("split", {"one", "two"})};
  CHECK(split.yields(0, 0) == yields);
  CHECK(split.yields(9, 0) == yields);
  CHECK_FALSE(split.fails(0, 0));
  const NodeScript& left = bound.script.nodes[bound.plan.find("left")->id];
  CHECK(left.yields(0, 0) == std::vector<std::uint64_t>(2, outputs("left", {"y"})));
  NodeScript fails;
  fails.by_iteration = {{1}, {2}};
  fails.fail_when_iteration = 1;
  CHECK_FALSE(fails.fails(0, 0));
  CHECK(fails.fails(1, 0));
  CHECK_FALSE(fails.fails(2, 0));
  CHECK(fails.yields(1, 0) == std::vector<std::uint64_t>{2});
  CHECK(fails.yields(5, 0) == std::vector<std::uint64_t>{2});
}
