#include "graph/script.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/count_text.h"
#include "base/nearest.h"

namespace sluice {

namespace {

class Binder {
 public:
  Binder(const ScenarioSpec& spec, const Plan& plan, Diagnostics& diagnostics)
      : spec_(spec), plan_(plan), diagnostics_(diagnostics) {}

  Script bind() {
    for (const PlanNode& node : plan_.nodes) script_.nodes.push_back(default_script(node));
    for (const NodeScriptSpec& node : spec_.nodes) bind_node(node);
    for (const ScenarioCallSpec& call : spec_.calls) bind_call(call);
    check_expected();
    return std::move(script_);
  }

 private:
  void unknown(const Name& name, const std::string& what, const std::vector<std::string>& known) {
    const std::string near = nearest_name(name.text, {known.begin(), known.end()});
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    diagnostics_.push_back({Severity::error, name.mark, "unknown-" + what,
                            "the workflow has no " + what + " '" + name.text + "'",
                            near.empty() ? what + "s: " + list : "did you mean '" + near + "'?"});
  }

  /// One frame with every output; where the role says what comes apart, a frame of each.
  static std::vector<std::uint64_t> default_frames(const PlanNode& node) {
    std::uint64_t came = 0;
    std::vector<std::uint64_t> frames;
    for (const std::uint64_t whole : node.frames) {
      const std::uint64_t frame = whole & ~(came & node.once);
      if (node.yields_max != 0 && frames.size() == node.yields_max) break;
      if (frame != 0) frames.push_back(frame);
      came |= frame;
    }
    if (!frames.empty()) return frames;
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) all |= std::uint64_t{1} << i;
    return {all};
  }

  static NodeScript default_script(const PlanNode& node) {
    NodeScript script;
    script.by_iteration = {default_frames(node)};
    script.values.assign(node.outputs.size(), 0);
    const NodeScriptSpec plain;
    script.latency_least = plain.latency_least;
    script.latency_most = plain.latency_most;
    return script;
  }

  const PlanNode* find_node(const Name& name) {
    const PlanNode* node = plan_.find(name.text);
    if (node != nullptr && node->id != entry_node) return node;
    std::vector<std::string> known;
    for (const PlanNode& one : plan_.nodes)
      if (one.id != entry_node) known.push_back(one.name);
    unknown(name, "node", known);
    return nullptr;
  }

  static std::size_t index_in(const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
  }

  std::size_t find_field(const PlanNode& node, const Name& field) {
    const std::size_t index = index_in(node.outputs, field.text);
    if (index == node.outputs.size()) {
      const std::string near = nearest_name(field.text, {node.outputs.begin(), node.outputs.end()});
      diagnostics_.push_back({Severity::error, field.mark, "unknown-field",
                              "node '" + node.name + "' has no output '" + field.text + "'",
                              near.empty() ? "" : "did you mean '" + near + "'?"});
    }
    return index;
  }

  void bind_node(const NodeScriptSpec& spec) {
    const PlanNode* node = find_node(spec.node);
    if (node == nullptr) return;
    check_replicas(spec, *node);
    check_turns(spec, *node);
    NodeScript& script = script_.nodes[node->id];
    script.by_replica = spec.by_replica.has_value();
    if (!spec.by_iteration.empty()) script.by_iteration.clear();
    for (const YieldsSpec& yields : spec.by_iteration) {
      std::vector<std::uint64_t>& masks = script.by_iteration.emplace_back();
      for (const std::vector<Name>& frame : yields) {
        std::uint64_t& mask = masks.emplace_back(0);
        for (const Name& field : frame)
          if (const std::size_t index = find_field(*node, field); index < node->outputs.size())
            mask |= std::uint64_t{1} << index;
      }
    }
    for (const auto& [field, value] : spec.values)
      if (const std::size_t index = find_field(*node, field); index < node->outputs.size())
        script.values[index] = value;
    check_possible(spec, *node, script);
    supply_values(spec, *node, script);
    script.latency_least = spec.latency_least;
    script.latency_most = spec.latency_most;
    script.fail = spec.fail;
    script.fail_when_iteration = spec.fail_when_iteration;
    script.fail_on_replica = spec.fail_on_replica;
  }

  static std::string field_list(const PlanNode& node, std::uint64_t frame) {
    std::string list;
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if ((frame >> i & 1U) != 0) list += (list.empty() ? "" : ", ") + node.outputs[i];
    return list;
  }

  static bool is_possible(const PlanNode& node, std::uint64_t frame) {
    return frame == 0 || node.frames.empty() ||
           std::ranges::any_of(node.frames,
                               [&](std::uint64_t whole) { return (frame & ~whole) == 0; });
  }

  /// What the role says of its frames holds for its script; the first thing that does not is told.
  void check_possible(const NodeScriptSpec& spec, const PlanNode& node, const NodeScript& script) {
    const std::string says = "'" + node.run + "' ";
    const auto report = [&](Mark mark, const char* code, std::string what, std::string help) {
      diagnostics_.push_back(
          {Severity::error, mark, code, "'" + node.name + "' " + std::move(what), std::move(help)});
    };
    for (std::size_t i = 0; i < spec.by_iteration.size(); ++i) {
      const std::vector<std::uint64_t>& frames = script.by_iteration[i];
      if (node.yields_max != 0 && frames.size() > node.yields_max)
        return report(spec.yields_marks[i], "too-many-yields",
                      "yields " + count_text(frames.size(), "frame") + " at once, and " + says +
                          "yields at most " + std::to_string(node.yields_max),
                      "leave out what no activation of it can yield");
      std::uint64_t came = 0;
      for (std::size_t y = 0; y < frames.size(); ++y) {
        const std::vector<Name>& names = spec.by_iteration[i][y];
        if (!is_possible(node, frames[y])) return report_apart(node, frames[y], names[0].mark);
        if (const std::uint64_t again = came & frames[y] & node.once; again != 0)
          return report(names[0].mark, "yielded-again",
                        "yields " + field_list(node, again) + " a second time, and " + says +
                            "yields it once in a call",
                        "leave it out of all frames but one");
        came |= frames[y];
      }
    }
  }

  void report_apart(const PlanNode& node, std::uint64_t frame, Mark mark) {
    std::string apart;
    for (const std::uint64_t whole : node.frames)
      apart += (apart.empty() ? "[ " : ", [ ") + field_list(node, whole) + " ]";
    diagnostics_.push_back({Severity::error, mark, "impossible-frame",
                            "'" + node.name + "' yields " + field_list(node, frame) +
                                " in one frame, and '" + node.run + "' never does",
                            "each of its frames is within one of these: " + apart});
  }

  /// Elsewhere no order of events says which replica runs what.
  void check_replicas(const NodeScriptSpec& spec, const PlanNode& node) {
    const auto check = [&](Mark mark, const std::string& key, std::size_t highest) {
      if (node.balance != Balance::broadcast)
        return diagnostics_.push_back(
            {Severity::error, mark, "not-broadcast",
             "'" + node.name + "' runs on one replica of its role, and which one is not said",
             "give the role `balance: broadcast`, or remove `" + key + "`"});
      if (highest >= node.replicas)
        diagnostics_.push_back(
            {Severity::error, mark, "unknown-replica",
             key + " of '" + node.name + "' speaks of replica " + std::to_string(highest) +
                 ", counted from 0, and its role has " + count_text(node.replicas, "replica"),
             "replicas are 0 to " + std::to_string(node.replicas - 1)});
    };
    if (spec.by_replica) check(spec.by_replica->mark, "by_replica", spec.by_iteration.size() - 1);
    if (spec.fail_on_replica)
      check(spec.fail_on_replica_mark, "fail_on_replica",
            static_cast<std::size_t>(*spec.fail_on_replica));
  }

  /// What stands in no loop has one turn, the first.
  void check_turns(const NodeScriptSpec& spec, const PlanNode& node) {
    if (node.loop_index != none) return;
    const auto report = [&](Mark mark, const std::string& what, const std::string& help) {
      diagnostics_.push_back(
          {Severity::error, mark, "no-such-turn",
           "'" + node.name + "' stands in no loop: its only turn is 0, and " + what, help});
    };
    if (!spec.by_replica && spec.by_iteration.size() > 1)
      report(spec.yields_marks[1], "`by_iteration` says what it yields at others",
             "write what it yields as `yields`");
    if (spec.fail_when_iteration.value_or(0) > 0)
      report(spec.fail_when_iteration_mark,
             "it is told to fail at " + std::to_string(*spec.fail_when_iteration),
             "`fail: true` fails it whenever it runs");
  }

  /// A number of `values` that no frame names comes with the first frame.
  static void supply_values(const NodeScriptSpec& spec, const PlanNode& node, NodeScript& script) {
    std::uint64_t named = 0;
    for (const std::vector<std::uint64_t>& yields : script.by_iteration)
      for (const std::uint64_t frame : yields) named |= frame;
    std::uint64_t alone = 0;
    for (const auto& [field, value] : spec.values)
      if (const std::size_t index = index_in(node.outputs, field.text); index < node.outputs.size())
        alone |= std::uint64_t{1} << index & ~named;
    if (alone == 0) return;
    std::vector<std::uint64_t>& first = script.by_iteration.front();
    if (first.empty() || !is_possible(node, first.front() | alone)) first.insert(first.begin(), 0);
    first.front() |= alone;
  }

  void bind_call(const ScenarioCallSpec& spec) {
    ScriptCall call;
    call.session = index_in(script_.sessions, spec.session.text);
    if (call.session == script_.sessions.size()) script_.sessions.push_back(spec.session.text);
    for (const auto& [input, value] : spec.inputs) {
      const std::size_t index = index_in(plan_.inputs, input.text);
      if (index == plan_.inputs.size())
        unknown(input, "input", plan_.inputs);
      else
        bind_input(call, index, input, value);
    }
    script_.calls.push_back(std::move(call));
  }

  void bind_input(ScriptCall& call, std::size_t index, const Name& input, const Name& value) {
    call.inputs |= std::uint64_t{1} << index;
    if (plan_.input_types[index] != ValueType::number) return;
    std::int64_t number = 0;
    const char* const end = value.text.data() + value.text.size();
    const auto read = std::from_chars(value.text.data(), end, number);
    const bool whole = read.ec == std::errc() && read.ptr == end;
    if (!whole && is_count(index))
      diagnostics_.push_back({Severity::error, value.mark, "bad-number",
                              "a node counts by the input '" + input.text + "', and '" +
                                  value.text + "' is no whole number",
                              input.text + ": 2"});
    call.numbers.resize(plan_.inputs.size());
    call.numbers[index] = whole ? number : 0;
  }
  /// True when a count group reads its number from this input.
  bool is_count(std::size_t input) const {
    const auto reads = [&](const PlanCount& count) {
      return count.kind == PlanCount::Kind::runtime &&
             plan_.edges[count.source].from == entry_node && count.source_field == input;
    };
    return std::ranges::any_of(plan_.nodes, [&](const PlanNode& node) {
      return !node.groups.empty() && std::ranges::any_of(node.groups[0].counts, reads);
    });
  }

  void check_expected() {
    if (!spec_.expected_calls.empty() && spec_.expected_calls.size() != spec_.calls.size())
      diagnostics_.push_back({Severity::error, spec_.expected_mark, "expected-calls",
                              "the scenario makes " + count_text(spec_.calls.size(), "call") +
                                  " and expects " + std::to_string(spec_.expected_calls.size()),
                              "expect one entry per call, in order"});
    std::vector<std::string> outputs;
    for (const PlanOutput& output : plan_.outputs) outputs.push_back(output.name);
    for (const ExpectedCall& call : spec_.expected_calls) {
      for (const auto& [output, count] : call.outputs)
        if (index_in(outputs, output.text) == outputs.size()) unknown(output, "output", outputs);
      // Not a node's: the call's own limit or deadline.
      if (call.cause && call.cause->text != plan_.nodes[entry_node].name)
        (void)find_node(*call.cause);
    }
    for (const auto& [node, count] : spec_.expected_firings) (void)find_node(node);
  }

  const ScenarioSpec& spec_;
  const Plan& plan_;
  Diagnostics& diagnostics_;
  Script script_;
};

}  // namespace

Script bind_scenario(const ScenarioSpec& spec, const Plan& plan, Diagnostics& diagnostics) {
  return Binder(spec, plan, diagnostics).bind();
}

}  // namespace sluice
