// Which engines have to know what time it is.
#include "graph/clock.h"

#include <catch2/catch.hpp>
#include <string>

#include "joined.h"

using namespace sluice;
using sluice::testing::plan_of;

TEST_CASE("a node that may run without inputs knows the time where an age is asked for") {
  const auto plan_with = [](const std::string& age) {
    const std::string yaml = R"(
sluice: 1
workflow: nothing
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  none: { run: any.none, inputs: [ { x: inputs.x } ], count: { x: 0 }, outputs: [v] }
  other: { run: any.other, inputs: [ { x: inputs.x } ], outputs: [v] }
  young: { run: any.young, inputs: [ { x: none.v } ], outputs: [v])" +
                             age + R"( }
outputs: { out: [ young.v, other.v ] }
)";
    return plan_of(yaml.c_str());
  };
  const Plan aged = plan_with(", max_age: 10s");
  CHECK(reads_clock(aged, *aged.find("none")));
  CHECK(reads_clock(aged, *aged.find("young")));
  CHECK(!reads_clock(aged, *aged.find("other")));
  const Plan ageless = plan_with("");
  for (const PlanNode& node : ageless.nodes) CHECK(!reads_clock(ageless, node));
}
