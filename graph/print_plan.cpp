#include <algorithm>
#include <chrono>
#include <set>

#include "base/count_text.h"
#include "graph/print.h"
#include "graph/print_picture.h"

namespace sluice {

namespace {

std::string_view kind_name(CollectorKind kind) {
  switch (kind) {
    case CollectorKind::join:
      return "join";
    case CollectorKind::count:
      return "count";
    case CollectorKind::order:
      return "order";
    case CollectorKind::output:
      return "output";
  }
  return "";
}

std::string collector_name(const Plan& plan, const Collector& c) {
  if (c.kind == CollectorKind::output) return "outputs." + plan.outputs[c.group].name;
  const std::string& node = plan.nodes[c.owner].name;
  return c.kind == CollectorKind::order ? node : node + "[" + std::to_string(c.group) + "]";
}

std::string way_text(const Plan& plan, const Branch& branch) {
  if (branch.through_join) return "by " + collector_name(plan, plan.collectors[branch.target]);
  const Edge& edge = plan.edges[branch.target];
  return edge.is_output() ? "itself" : "by " + plan.nodes[edge.to].name;
}

/// In which order the collector gets what one frame sets off several ways: where nothing else says
/// so, nodes' names do, and nobody would guess that.
std::string ways_text(const Plan& plan, CollectorId collector) {
  std::string text;
  for (const PlanNode& node : plan.nodes)
    for (const Flow& flow : node.flows) {
      if (flow.collector != collector || flow.branches.size() < 2) continue;
      std::string ways;
      for (const Branch& branch : flow.branches)
        ways += (ways.empty() ? "first " : ", then ") + way_text(plan, branch);
      text += "  Of what one frame of '" + node.name + "' sets off: " + ways + ".\n";
    }
  return text;
}

/// The source fields that an edge carries, e.g. "parse.text".
std::string sources_of(const Plan& plan, const Edge& edge) {
  const PlanNode& from = plan.nodes[edge.from];
  std::string text;
  for (const CarriedField& carried : carried_by(plan, edge))
    text += (text.empty() ? "" : ", ") + from.name + "." + from.outputs[carried.field] +
            (carried.counts ? " (how many)" : "");
  return text;
}

/// Without a frame of the field the group cannot run: of a count, it is counted as one or more, or
/// it is the only field and all of it is taken.
bool is_needed(const PlanGroup& group, std::size_t field) {
  for (const PlanCount& count : group.counts)
    if (count.field == field)
      return count.kind == PlanCount::Kind::literal
                 ? count.literal > 0
                 : count.kind == PlanCount::Kind::all && group.fields.size() == 1;
  return true;
}

std::string critical_text(const Plan& plan, const PlanGroup& group) {
  std::set<std::string> slots;
  for (std::size_t field = 0; field < group.critical.size(); ++field)
    if (group.critical[field] != none && is_needed(group, field))
      slots.insert(plan.nodes[plan.edges[group.critical[field]].from].name);
  std::string text;
  for (const std::string& slot : slots) text += (text.empty() ? "" : ", ") + slot;
  return text;
}

std::string counts_text(const Plan& plan, const PlanGroup& group) {
  std::string text;
  for (const PlanCount& count : group.counts)
    text += (text.empty() ? "" : ", ") + count_text(plan, group, count);
  return text;
}

/// When a count runs, with what, and when it does not.
std::string explain_count(const Plan& plan, const PlanGroup& group) {
  using Kind = PlanCount::Kind;
  const auto is_none = [](const PlanCount& count) {
    return count.kind == Kind::literal && count.literal == 0;
  };
  const std::string counts = counts_text(plan, group);
  if (std::ranges::all_of(group.counts, is_none))
    return "once per call, with no frame, whatever comes: " + counts +
           ". A frame that comes is left over, of which the call warns.\n";
  const bool all = std::ranges::any_of(
      group.counts, [](const PlanCount& count) { return count.kind == Kind::all; });
  const bool fewer = std::ranges::any_of(group.counts, [&](const PlanCount& count) {
    return count.kind != Kind::all && !is_none(count);
  });
  const std::string when = all ? "no more frames can come, with them in logical order: "
                           : group.by_path
                               ? "no more frames can come, with the first in logical order: "
                               : "the first frames in logical order are there: ";
  const std::string with = !fewer ? "none" : all ? "fewer, or with none" : "fewer";
  return "once per call, when " + when + counts + ". It never runs when the stream ends with " +
         with + ".\n";
}

/// Whom the node tells that no more will come: the collectors its flows lead to.
std::string told_by(const Plan& plan, const PlanNode& node) {
  std::string text;
  for (const Flow& flow : node.flows) {
    const Collector& c = plan.collectors[flow.collector];
    text +=
        (text.empty() ? "" : ", ") + std::string(kind_name(c.kind)) + " " + collector_name(plan, c);
  }
  return text;
}

std::string group_text(const Plan& plan, const PlanGroup& group, std::size_t index) {
  std::string text = "    group " + std::to_string(index) + ": ";
  std::string edges;
  for (const EdgeId id : group.edges)
    edges += (edges.empty() ? "" : " + ") + sources_of(plan, plan.edges[id]);
  if (group.collector == none) return text + "direct, on each frame of " + edges + "\n";
  const Collector& c = plan.collectors[group.collector];
  text += std::string(kind_name(c.kind)) + " of " + edges + "\n      bucket: ";
  if (c.kind == CollectorKind::count) {
    text += "one per call, " + counts_text(plan, group);
  } else {
    text += "one per frame of " + plan.nodes[c.root].name +
            " (root: the nearest node that every path to the slots passes)";
  }
  const std::string critical = critical_text(plan, group);
  return text + "\n      critical slots: " + (critical.empty() ? "none" : critical) + "\n";
}

template <typename T, typename Text>
std::string json_list(const std::vector<T>& items, Text text) {
  std::string list = "[";
  for (const T& item : items) list += (list.size() > 1 ? "," : "") + text(item);
  return list + "]";
}

std::string ms_text(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()) +
         " ms";
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::string text = "workflow " + plan.workflow + "\n";
  text += "  inputs:";
  for (const std::string& input : plan.inputs) text += " " + input;
  text += "\n";
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node) continue;
    text += "  node " + node.name + "\n";
    for (std::size_t g = 0; g < node.groups.size(); ++g)
      text += group_text(plan, node.groups[g], g);
    if (node.fan_out() > 1)
      text += "    runs on each of " + std::to_string(node.fan_out()) +
              " replicas, and yields in their order (balance: broadcast)\n";
    if (node.order != none)
      text += "    runs in logical order per session (numbered from " +
              plan.nodes[plan.collectors[node.order].root].name + ")\n";
    if (node.queue_max != 0)
      text += "    at most " + std::to_string(node.queue_max) +
              " of a call wait, for one more the oldest is dropped (on_full: drop_oldest)\n";
    const std::string told = told_by(plan, node);
    if (!told.empty()) text += "    control edges: " + told + "\n";
    if (node.activations_max != 0)
      text += "    at most " + std::to_string(node.activations_max) + " activation" +
              (node.activations_max == 1 ? "" : "s") + " in a call\n";
    if (node.loop_index != none) text += "    stands in a loop\n";
  }
  for (const PlanOutput& output : plan.outputs) {
    text += "  output " + output.name + ":";
    for (const EdgeId id : output.edges) text += " " + sources_of(plan, plan.edges[id]);
    text += ", in order of " + plan.nodes[plan.collectors[output.collector].root].name + "\n";
  }
  return text;
}

std::string plan_json(const Plan& plan) {
  const auto edge_json = [&](EdgeId id) {
    const Edge& edge = plan.edges[id];
    const auto fields = json_list(edge.fields, [&](const FieldMap& map) {
      return json_quote(plan.nodes[edge.from].outputs[map.from]);
    });
    return "{\"from\":" + json_quote(plan.nodes[edge.from].name) + ",\"fields\":" + fields +
           (edge.frames_max == 0 ? "" : ",\"frames_max\":" + std::to_string(edge.frames_max)) +
           (edge.bytes_max == 0 ? "" : ",\"bytes_max\":" + std::to_string(edge.bytes_max)) + "}";
  };
  const auto group_json = [&](const PlanGroup& group) {
    std::string text = "{\"kind\":\"";
    text += group.collector == none ? "direct" : kind_name(plan.collectors[group.collector].kind);
    text += "\",\"fields\":" + json_list(group.fields, [](const auto& f) { return json_quote(f); });
    text += ",\"edges\":" + json_list(group.edges, edge_json);
    if (group.collector != none)
      text += ",\"root\":" + json_quote(plan.nodes[plan.collectors[group.collector].root].name) +
              ",\"critical\":" + json_quote(critical_text(plan, group));
    return text + "}";
  };
  std::string nodes = "[";
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node) continue;
    nodes += nodes.size() > 1 ? "," : "";
    nodes += "{\"name\":" + json_quote(node.name) +
             ",\"groups\":" + json_list(node.groups, group_json) +
             ",\"ordered\":" + (node.order != none ? "true" : "false") + ",\"tells\":" +
             json_list(node.flows,
                       [&](const Flow& flow) {
                         return json_quote(collector_name(plan, plan.collectors[flow.collector]));
                       }) +
             ",\"in_loop\":" + (node.loop_index != none ? "true" : "false") +
             (node.fan_out() == 1 ? ""
                                  : ",\"balance\":\"broadcast\",\"replicas\":" +
                                        std::to_string(node.fan_out())) +
             (node.queue_max == 0
                  ? ""
                  : ",\"on_full\":\"drop_oldest\",\"queue\":" + std::to_string(node.queue_max)) +
             "}";
  }
  return "{\"workflow\":" + json_quote(plan.workflow) + ",\"inputs\":" +
         json_list(plan.inputs, [](const auto& name) { return json_quote(name); }) +
         ",\"nodes\":" + nodes + "],\"outputs\":" +
         json_list(plan.outputs,
                   [&](const PlanOutput& output) {
                     return "{\"name\":" + json_quote(output.name) +
                            ",\"edges\":" + json_list(output.edges, edge_json) + "}";
                   }) +
         "}\n";
}

/// What can come along the node's edges in one call, where it is bounded.
std::string bounds_text(const Plan& plan, const PlanNode& node) {
  std::string text;
  for (const PlanGroup& group : node.groups)
    for (const EdgeId id : group.edges) {
      const Edge& edge = plan.edges[id];
      if (edge.frames_max == 0) continue;
      text += "  From " + sources_of(plan, edge) + " at most " + std::to_string(edge.frames_max) +
              (edge.frames_max == 1 ? " frame" : " frames");
      if (edge.bytes_max != 0) text += ", " + std::to_string(edge.bytes_max) + " bytes";
      text += " in a call.\n";
    }
  return text;
}

std::string explain_node(const Plan& plan, const PlanNode& node) {
  std::string text = "'" + node.name + "' runs\n";
  for (std::size_t g = 0; g < node.groups.size(); ++g) {
    const PlanGroup& group = node.groups[g];
    std::string slots;
    for (const EdgeId id : group.edges)
      slots += (slots.empty() ? "" : " and ") + sources_of(plan, plan.edges[id]);
    text += g == 0 ? "  - " : "  - or ";
    if (group.collector == none) {
      text += "on each frame that holds " + slots + "; a frame without it is a branch not taken.\n";
      continue;
    }
    const Collector& c = plan.collectors[group.collector];
    if (c.kind == CollectorKind::count) {
      text += explain_count(plan, group);
      continue;
    }
    text += "once for each frame of '" + plan.nodes[c.root].name + "', when no more of " + slots +
            " can come from that frame.\n    It does not run for a frame from which one of its "
            "fields got nothing";
    const std::string critical = critical_text(plan, group);
    text += critical.empty() ? ".\n" : " (only source: " + critical + ").\n";
  }
  if (node.order != none)
    text +=
        "  One at a time per session and call, in logical order: an earlier frame that is "
        "still on its way is waited for, one that failed is not.\n" +
        ways_text(plan, node.order);
  if (node.fan_out() > 1)
    text += "  Each time it runs on each of " + std::to_string(node.fan_out()) +
            " replicas with the same inputs (balance: broadcast). What they yield stands in the "
            "order of the\n  replicas, like the frames of one stream; a replica that fails takes "
            "nothing from the others.\n";
  if (node.queue_max != 0)
    text += "  Of each call at most " + std::to_string(node.queue_max) + " may wait while " +
            (node.fan_out() > 1 ? "a replica" : std::to_string(node.at_once())) +
            (node.at_once() == 1 ? " runs" : " run") +
            ". When one more comes, the oldest that has not begun is dropped,\n  as if it had not "
            "been made, and the call warns of it (on_full: drop_oldest).\n";
  if (node.loop_index != none)
    text += "  It stands in a loop: at most " + count_text(plan.limits.loop_iterations, "turn") +
            " of one chain of frames, and " + count_text(plan.limits.frames, "frame") +
            " for it in a call; one more is a failure (limits).\n";
  else if (node.frames_counted)
    text += "  Frames may multiply on their way to it: at most " +
            count_text(plan.limits.frames, "frame") +
            " for it in a call; one more is a failure (limits).\n";
  if (node.max_age.count() != 0)
    text += "  What it gets of a call older than " + ms_text(node.max_age) +
            " is dropped, and the call warns of it (max_age).\n";
  if (node.deadline.count() != 0)
    text += "  A run fails when it is not done " + ms_text(node.deadline) +
            " after its inputs are there; the time it waits for a replica counts (deadline).\n";
  if (node.skip_errors) text += "  Its failures are skipped (on_error: skip).\n";
  return text + bounds_text(plan, node);
}

std::string explain_inputs(const Plan& plan) {
  std::string text = "'inputs' is what a call brings, as one frame:\n";
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    std::string readers;
    for (const EdgeId id : plan.nodes[entry_node].edges) {
      const Edge& edge = plan.edges[id];
      const bool reads = std::ranges::any_of(
          carried_by(plan, edge), [&](const CarriedField& carried) { return carried.field == i; });
      const std::string reader =
          edge.is_output() ? "outputs." + plan.outputs[edge.group].name : plan.nodes[edge.to].name;
      if (reads) readers += (readers.empty() ? "" : ", ") + reader;
    }
    text += "  - " + plan.inputs[i] + " (" + std::string(to_string(plan.input_types[i])) +
            "), read by " + (readers.empty() ? "nobody" : readers) + "\n";
  }
  return text + "  An input that a call does not name is a branch not taken.\n";
}

std::string explain_output(const Plan& plan, const PlanOutput& output) {
  std::string text = "'outputs." + output.name + "' is delivered to the caller\n";
  std::uint64_t most = 0;
  bool bounded = true;
  for (const EdgeId id : output.edges) {
    const Edge& edge = plan.edges[id];
    text += "  - each frame that holds " + sources_of(plan, edge) + "\n";
    bounded = bounded && edge.frames_max != 0;
    most += edge.frames_max;
  }
  const PlanNode& root = plan.nodes[plan.collectors[output.collector].root];
  text += root.id == entry_node
              ? "  in logical order within the call: by which yield they descend from"
              : "  in logical order of '" + root.name + "'";
  text += ". An earlier frame that is still on its way is waited for, one that failed is not.\n" +
          ways_text(plan, output.collector);
  if (bounded && most != 0)
    text +=
        "  At most " + std::to_string(most) + (most == 1 ? " frame" : " frames") + " in a call.\n";
  return text;
}

}  // namespace sluice
