// A node that counts, by every pair of counts, of frames that come in every number: how often it
// runs, with how many values of each field, and what the call says.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "runtime/sim/simulation.h"
#include "tests/outcomes.h"
#include "watched.h"

using namespace sluice;
using sluice::testing::Bound;
using sluice::testing::bound_to;

namespace {

/// `more`: what else `g` is read from; frames of several nodes are put in the order of their paths.
std::string counting(const std::string& f, const std::string& g, const std::string& more) {
  return R"(sluice: 1
workflow: counting
inputs: { x: text, n: number }
roles: { r: { plugin: scripted } }
nodes:
  hand: { run: r.a, inputs: [ { x: inputs.x } ], outputs: [f, g, n] }
  side: { run: r.b, inputs: [ { x: hand.f } ], outputs: [g] }
  take:
    run: r.c
    inputs: [ { f: hand.f, g: [ hand.g)" +
         more + R"( ] } ]
    count: { f: )" +
         f + ", g: " + g + R"( }
    outputs: [o]
outputs: { o: take.o, all: side.g }
)";
}

/// What came of one call.
std::string text_of(const Plan& plan, const sim::Report& report) {
  const NodeId take = plan.find("take")->id;
  std::string text;
  for (const sim::Firing& firing : report.firings) {
    if (firing.node != take) continue;
    text += "runs with";
    std::map<std::uint16_t, std::size_t> values;  // by field
    for (const sim::FiringInput& input : firing.inputs) ++values[input.field];
    for (const auto& [field, count] : values) text += " " + std::to_string(count);
    text += "; ";
  }
  const sim::CallReport& call = report.calls.at(0);
  for (const std::uint64_t count : call.outputs) text += std::to_string(count) + " ";
  if (call.failure)
    text += "fails at " + plan.nodes[call.failure->node].name + ": " + call.failure->error.message;
  for (const std::string& warning : call.warnings) text += "| " + warning;
  for (const std::string& violation : report.violations) text += "VIOLATED " + violation;
  return text;
}

constexpr std::uint64_t f = 1, g = 2, n = 4;
const std::vector<std::vector<std::uint64_t>> all_yields{{},
                                                         {f},
                                                         {g},
                                                         {n},
                                                         {f | g},
                                                         {f | g | n},
                                                         {f | n, g},
                                                         {f | n, f, g},
                                                         {g | n, g, f},
                                                         {f | g, f | g | n},
                                                         {n, n},
                                                         {n | f, n},
                                                         {g, g, f, f, f, n}};

}  // namespace

TEST_CASE("a node that counts runs by what came, for every pair of counts, as before") {
  test::Outcomes outcomes("counts");
  for (const char* more : {"", ", side.g"})
    for (const char* of_f : {"all", "0", "2", "hand.n", "inputs.n"})
      for (const char* of_g : {"all", "1"}) {
        Bound bound = bound_to(counting(of_f, of_g, more));
        NodeScript& hand = bound.script.nodes[bound.plan.find("hand")->id];
        NodeScript& side = bound.script.nodes[bound.plan.find("side")->id];
        bound.script.sessions = {"s"};
        for (const std::int64_t number : {-1, 0, 1, 2})
          for (const auto& yields : all_yields)
            for (const std::size_t copies : {1U, 2U}) {
              hand.by_iteration = {yields};
              hand.values = {0, 0, number};
              side.by_iteration = {std::vector<std::uint64_t>(copies, 1)};
              bound.script.calls = {{0, 3, {0, number}}};
              const sim::Report report = sim::simulate(bound.plan, bound.script, {});
              outcomes.add(std::string("f ") + of_f + ", g " + of_g + more,
                           text_of(bound.plan, report));
            }
      }
  outcomes.require_as_kept();
}
