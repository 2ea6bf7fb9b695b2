#include "graph/print_picture.h"

#include <algorithm>

#include "graph/print.h"

namespace sluice {

namespace {

using Box = Picture::Box;
using Arrow = Picture::Arrow;

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

std::string label_of(const Plan& plan, const Edge& edge) {
  std::string label;
  for (const CarriedField& carried : carried_by(plan, edge))
    append(label,
           plan.nodes[edge.from].outputs[carried.field] + (carried.counts ? " (how many)" : ""));
  return label;
}

Box node_box(const Plan& plan, const PlanNode& node) {
  Box box{Box::Kind::node, "n_" + node.name, {node.name}, node.order != none};
  std::string run = node.run;
  if (node.replicas > 1)
    run += (node.fan_out() > 1 ? ", each of " : ", ") + std::to_string(node.replicas) + " replicas";
  if (!run.empty()) box.lines.push_back(run);
  if (node.groups.size() > 1)
    box.lines.push_back("runs on any of " + std::to_string(node.groups.size()));
  if (node.queue_max != 0)
    box.lines.push_back("keeps the newest " +
                        (node.queue_max == 1 ? "" : std::to_string(node.queue_max) + " ") +
                        "that wait" + (node.queue_max == 1 ? "s" : ""));
  if (box.ordered) {
    const NodeId root = plan.collectors[node.order].root;
    box.lines.push_back(root == entry_node
                            ? "in order per session"
                            : "in order of " + plan.nodes[root].name + " per session");
  }
  return box;
}

Box gate_box(const Plan& plan, const PlanNode& node, std::size_t index) {
  const PlanGroup& group = node.groups[index];
  Box box{Box::Kind::gate, "g_" + node.name + "_" + std::to_string(index), {}, false};
  if (group.counts.empty()) {
    const NodeId root = plan.collectors[group.collector].root;
    box.lines = {"all of",
                 root == entry_node ? "one call" : "one yield of " + plan.nodes[root].name};
    return box;
  }
  box.lines = {"once per call"};
  for (const PlanCount& count : group.counts) box.lines.push_back(count_text(plan, group, count));
  return box;
}

class Composer {
 public:
  explicit Composer(const Plan& plan) : plan_(plan) {}

  Picture run() {
    Box inputs{Box::Kind::inputs, "inputs", {"inputs"}, false};
    std::string fields;
    for (const std::string& input : plan_.inputs) append(fields, input);
    if (!fields.empty()) inputs.lines.push_back(fields);
    picture_.boxes.push_back(std::move(inputs));
    for (const PlanNode& node : plan_.nodes)
      if (node.id != entry_node) picture_.boxes.push_back(node_box(plan_, node));
    for (const PlanNode& node : plan_.nodes) add_groups(node);
    for (const PlanOutput& output : plan_.outputs) add_output(output);
    return std::move(picture_);
  }

 private:
  void add_groups(const PlanNode& node) {
    for (std::size_t g = 0; g < node.groups.size(); ++g) {
      const PlanGroup& group = node.groups[g];
      std::size_t to = node.id;
      if (group.collector != none) {
        to = picture_.boxes.size();
        picture_.boxes.push_back(gate_box(plan_, node, g));
      }
      for (const EdgeId id : group.edges) {
        const Edge& edge = plan_.edges[id];
        picture_.arrows.push_back({edge.from, to, label_of(plan_, edge), to != node.id});
      }
      if (to != node.id) picture_.arrows.push_back({to, node.id, "", false});
    }
  }

  void add_output(const PlanOutput& output) {
    const std::size_t to = picture_.boxes.size();
    Box box{Box::Kind::output, "o_" + output.name, {output.name}, false};
    const NodeId root = plan_.collectors[output.collector].root;
    if (root != entry_node) box.lines.push_back("in order of " + plan_.nodes[root].name);
    picture_.boxes.push_back(std::move(box));
    for (const EdgeId id : output.edges)
      picture_.arrows.push_back(
          {plan_.edges[id].from, to, label_of(plan_, plan_.edges[id]), false});
  }

  const Plan& plan_;
  Picture picture_;
};

std::string joined(const std::vector<std::string>& lines, std::string_view between) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : std::string(between)) + line;
  return text;
}

}  // namespace

std::string count_text(const Plan& plan, const PlanGroup& group, const PlanCount& count) {
  std::string text = group.fields[count.field] + ": ";
  if (count.kind == PlanCount::Kind::all) return text + "all";
  if (count.kind == PlanCount::Kind::literal) return text + std::to_string(count.literal);
  const PlanNode& from = plan.nodes[plan.edges[count.source].from];
  return text + from.name + "." + from.outputs[count.source_field];
}

std::vector<CarriedField> carried_by(const Plan& plan, const Edge& edge) {
  std::vector<CarriedField> carried;
  for (const FieldMap& map : edge.fields)
    if (std::ranges::find(carried, map.from, &CarriedField::field) == carried.end())
      carried.push_back({map.from, false});
  if (edge.is_output()) return carried;
  for (const PlanCount& count : plan.nodes[edge.to].groups[edge.group].counts)
    if (count.kind == PlanCount::Kind::runtime && count.source == edge.id)
      carried.push_back({count.source_field, true});
  return carried;
}

Picture picture_of(const Plan& plan) { return Composer(plan).run(); }

std::string plan_dot(const Plan& plan) {
  const Picture picture = picture_of(plan);
  std::string text = "digraph " + plan.workflow +
                     " {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname=sans];\n";
  for (const Box& box : picture.boxes) {
    text += "  " + box.id + " [label=\"" + joined(box.lines, "\\n") + "\"";
    if (box.kind == Box::Kind::gate) text += ", shape=hexagon, style=solid, color=blue";
    if (box.kind == Box::Kind::inputs || box.kind == Box::Kind::output) text += ", shape=oval";
    if (box.ordered) text += ", peripheries=2";
    text += "];\n";
  }
  for (const Arrow& arrow : picture.arrows) {
    text += "  " + picture.boxes[arrow.from].id + " -> " + picture.boxes[arrow.to].id;
    if (!arrow.label.empty())
      text += " [label=\"" + arrow.label + "\"" + (arrow.collected ? ", color=blue" : "") + "]";
    text += ";\n";
  }
  return text + "}\n";
}

std::string plan_mermaid(const Plan& plan) {
  const Picture picture = picture_of(plan);
  std::string text = "flowchart LR\n";
  for (const Box& box : picture.boxes) {
    const bool end = box.kind == Box::Kind::inputs || box.kind == Box::Kind::output;
    const std::string_view open = end                           ? "(["
                                  : box.kind == Box::Kind::gate ? "{{"
                                  : box.ordered                 ? "[["
                                                                : "[";
    const std::string_view close = end                           ? "])"
                                   : box.kind == Box::Kind::gate ? "}}"
                                   : box.ordered                 ? "]]"
                                                                 : "]";
    text += "  " + box.id + std::string(open) + "\"" + joined(box.lines, "<br/>") + "\"" +
            std::string(close) + "\n";
  }
  for (const Arrow& arrow : picture.arrows)
    text += "  " + picture.boxes[arrow.from].id + " -->" +
            (arrow.label.empty() ? "" : "|\"" + arrow.label + "\"|") + " " +
            picture.boxes[arrow.to].id + "\n";
  return text;
}

}  // namespace sluice
