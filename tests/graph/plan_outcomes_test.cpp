// Plans of workflows whose every place is changed: all their tables, in short, and what is said of
// those that are none.
#include <catch2/catch.hpp>
#include <string>

#include "base/sha256.h"
#include "graph/print.h"
#include "harness.h"
#include "tests/drawn_workflow.h"
#include "tests/outcomes.h"
#include "tests/wire/everything.h"

namespace sluice {
namespace {

constexpr const char* loops = R"(sluice: 1
workflow: loops
inputs: { a: text, n: number }
calls: overlap
on_error: cancel
roles:
  r: { plugin: scripted, replicas: 2 }
  s: { plugin: scripted, balance: session, colocate: r }
nodes:
  begin: { run: r.a, inputs: [ { x: inputs.a }, { x: judge.again } ], outputs: [y, z] }
  pick: { run: s.b, inputs: [ { x: begin.y }, { x: pick.more } ], outputs: [more, chosen] }
  judge: { run: r.c, inputs: [ { x: pick.chosen } ], outputs: [again, answer], deadline: 50ms }
  side: { run: r.d, inputs: [ { x: begin.z, y: begin.y } ], outputs: [o], max_age: 20ms }
  last:
    run: s.e
    inputs: [ { j: judge.answer, o: side.o }, { k: side.o } ]
    outputs: [u, v]
    on_error: skip
  total:
    run: r.f
    inputs: [ { u: last.u, p: [ last.v, side.o ] } ]
    count: { u: inputs.n, p: 3 }
    outputs: [w]
outputs: { out: total.w, early: judge.answer }
limits: { loop_iterations: 9, frames: 500, calls: 7, deadline: 3s }
)";

/// A few digits of a text's digest.
std::string digest(const std::string& text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string made;
  for (unsigned shift = 0; shift < 40; shift += 4)
    made += digits[sha256_prefix(text) >> shift & 15U];
  return made;
}

struct Words {
  std::string text;
  template <typename... Values>
  void add(const char* name, const Values&... values) {
    text += std::string(name);
    ((text += " " + std::to_string(static_cast<std::int64_t>(values))), ...);
    text += '\n';
  }
  void add(const std::string& name) { text += name + '\n'; }
};

void add_group(const PlanGroup& group, Words& words) {
  words.add("group", group.collector, group.by_path);
  for (const std::string& field : group.fields) words.add(field);
  for (const EdgeId edge : group.edges) words.add("from", edge);
  for (const EdgeId edge : group.critical) words.add("critical", edge);
  for (const PlanCount& count : group.counts)
    words.add("count", count.field, static_cast<int>(count.kind), count.literal, count.source,
              count.source_field);
}

void add_node(const PlanNode& node, Words& words) {
  words.add("node " + node.name + " " + node.interface + " " + node.run);
  words.add("runs", node.role, node.executor, node.order, node.order_position, node.replicas,
            static_cast<int>(node.balance), node.held, node.loop_index, node.skip_errors,
            node.yields_max, node.activations_max, node.deadline.count(), node.max_age.count(),
            node.dominator, node.mark.line, node.mark.column);
  if (node.queue_max != 0) words.add("drops", node.queue_max);
  for (const std::string& output : node.outputs) words.add(output);
  for (const EdgeId edge : node.edges) words.add("to", edge);
  for (const Flow& flow : node.flows) {
    words.add("flow", flow.collector, static_cast<int>(flow.kind));
    for (const Branch& branch : flow.branches)
      words.add("branch", branch.through_join, branch.target, branch.position);
  }
  for (const PlanGroup& group : node.groups) add_group(group, words);
}

/// Everything that the engines look up.
std::string tables_of(const Plan& plan) {
  Words words;
  words.add("plan", plan.loop_nodes, plan.paths, plan.limits.deadline.count(),
            plan.limits.loop_iterations, plan.limits.frames, plan.limits.calls,
            static_cast<int>(plan.calls), plan.cancel_on_error);
  for (const PlanNode& node : plan.nodes) add_node(node, words);
  for (const Edge& edge : plan.edges) {
    words.add("edge", edge.id, edge.from, edge.to, edge.group, edge.mark.line, edge.mark.column,
              edge.mask, edge.direct, edge.frames_max, edge.bytes_max);
    for (const FieldMap& map : edge.fields) words.add("map", map.from, map.to, map.last);
    for (const std::uint64_t mask : edge.field_masks) words.add("mask", mask);
    for (const CollectorId share : edge.shares) words.add("share", share);
  }
  for (const Collector& c : plan.collectors) {
    words.add("collector", c.id, static_cast<int>(c.kind), c.owner, c.group, c.root, c.loops,
              c.rank);
    for (const CollectorId outer : c.outer) words.add("outer", outer);
  }
  for (const PlanOutput& output : plan.outputs) {
    words.add("output " + output.name);
    words.add("collector", output.collector);
    for (const EdgeId edge : output.edges) words.add("edge", edge);
  }
  return words.text;
}

/// What came of all the workflows that were looked at: how many are plans, and in short which.
struct Looked {
  std::size_t plans = 0;
  std::string tables, shown, places;
  std::string text() const {
    return std::to_string(plans) + " plans: tables " + digest(tables) + ", shown " + digest(shown) +
           "; places of diagnostics " + digest(places);
  }
};

/// What is said of a workflow; its plan is added to `all`.
std::string look(const std::string& text, Looked& all) {
  LoadedWorkflow loaded = load_workflow("w.yaml", text);
  const Plan plan = plan_workflow(loaded, testing::scripted());
  if (!has_errors(loaded.diagnostics)) {
    ++all.plans;
    all.tables += tables_of(plan);
    all.shown += plan_text(plan) + plan_json(plan) + plan_svg(plan) + plan_dot(plan) +
                 plan_mermaid(plan) + explain_inputs(plan);
    for (const PlanNode& node : plan.nodes) all.shown += explain_node(plan, node);
    for (const PlanOutput& output : plan.outputs) all.shown += explain_output(plan, output);
  }
  std::string words;
  for (const Diagnostic& d : loaded.diagnostics) {
    all.places += std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column) + "+" +
                  std::to_string(d.mark.length) + " ";
    words += (words.empty() ? "" : "\n") + d.code + ": " + d.message +
             (d.suggestion.empty() ? "" : " [" + d.suggestion + "]");
  }
  return words.empty() ? "nothing is said" : words;
}

}  // namespace

TEST_CASE("each place of a workflow that is changed has the plan, or the refusal, that it had") {
  test::Outcomes outcomes("plans");
  for (const auto& [name, text] :
       {std::pair{"everything", testing::everything}, {"loops", loops}}) {
    Looked all;
    outcomes.change_text(name, text, [&](const std::string& other) { return look(other, all); });
    outcomes.add(name, all.text());
  }
  outcomes.require_as_kept();
}

TEST_CASE("workflows made by chance have the plans, or the refusals, that they had") {
  test::Outcomes outcomes("drawn_plans");
  for (std::uint64_t from = 0; from < 4000; from += 200) {
    Looked all;
    std::string said;
    for (std::uint64_t seed = from; seed < from + 200; ++seed) {
      const std::string words = look(test::DrawnWorkflow(seed).yaml(), all);
      for (std::size_t at = 0; at < words.size();) {  // what kinds there are, and all in short
        const std::size_t end = std::min(words.find('\n', at), words.size());
        outcomes.add("kinds", words.substr(at, std::min(words.find(':', at), end) - at));
        at = end + 1;
      }
      said += words + '\n';
    }
    outcomes.add("drawn", all.text() + ", said " + digest(said));
  }
  outcomes.require_as_kept();
}

TEST_CASE("what a plan is told to be in words is what it was") {
  test::Outcomes outcomes("plans_in_words");
  for (const auto& [name, text] :
       {std::pair{"everything", testing::everything}, {"loops", loops}}) {
    LoadedWorkflow loaded = load_workflow("w.yaml", text);
    check(loaded.spec, testing::scripted(), loaded.diagnostics);
    const Plan plan = compile(loaded.spec, testing::scripted(), loaded.diagnostics);
    REQUIRE_FALSE(has_errors(loaded.diagnostics));
    outcomes.add(name, plan_text(plan));
    outcomes.add(name, explain_inputs(plan));
    for (const PlanNode& node : plan.nodes) outcomes.add(name, explain_node(plan, node));
    for (const PlanOutput& output : plan.outputs) outcomes.add(name, explain_output(plan, output));
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
