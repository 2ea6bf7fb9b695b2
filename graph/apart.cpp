// Joins whose fields come of different frames of their root, so that no yield of it brings all.
#include <algorithm>
#include <bit>
#include <set>

#include "graph/compile.h"

namespace sluice::compiling {

namespace {

/// Looked at in all: a workflow with more edges and roots than this allows gets no such warning.
constexpr std::size_t steps_max = 20'000'000;

const InterfaceDeclaration* interface_of(const WorkflowSpec& spec, const PlanNode& node,
                                         const Declarations& declarations) {
  if (node.role == none) return nullptr;
  const PluginDeclaration* plugin = find_plugin(declarations, spec.roles[node.role].plugin.text);
  return plugin == nullptr ? nullptr : find_interface(*plugin, node.interface);
}

/// The frames that a node may yield, as fields of its outputs; empty: all fields in each.
std::vector<std::uint64_t> frames_of(const PlanNode& node, const InterfaceDeclaration& interface) {
  std::vector<std::uint64_t> masks;
  for (const std::vector<std::string>& frame : interface.frames) {
    std::uint64_t& mask = masks.emplace_back(0);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (std::ranges::find(frame, node.outputs[i]) != frame.end()) mask |= std::uint64_t{1} << i;
  }
  return masks;
}

/// What could ever run if `root` yielded nothing but frames with the fields `frame`. Of all other
/// nodes each field may come, so what does not run here never does.
class Reach {
 public:
  Reach(const Plan& plan, NodeId root, std::uint64_t frame)
      : plan_(plan), root_(root), frame_(frame), ran_(plan.nodes.size()), came_(plan.nodes.size()) {
    for (const PlanNode& node : plan.nodes) came_[node.id].resize(node.groups.size());
    run(entry_node);
    for (const PlanNode& node : plan.nodes)  // a count of 0 frames needs none of them
      if (std::ranges::any_of(node.groups, [](const auto& group) { return !group.counts.empty(); }))
        run(node.id);
    while (!open_.empty()) {
      const NodeId node = open_.back();
      open_.pop_back();
      for (const EdgeId id : plan_.nodes[node].edges) go_along(plan_.edges[id]);
    }
  }
  bool runs(NodeId node, std::uint16_t group) const {
    return static_cast<std::size_t>(std::popcount(came_[node][group])) ==
           plan_.nodes[node].groups[group].fields.size();
  }

 private:
  void run(NodeId node) {
    if (ran_[node]) return;
    ran_[node] = true;
    open_.push_back(node);
  }
  void go_along(const Edge& edge) {
    const std::uint64_t held = edge.from == root_ ? frame_ : ~std::uint64_t{0};
    if (edge.is_output() || !edge.takes(held)) return;
    for (const FieldMap& map : edge.fields)
      if ((held >> map.from & 1U) != 0) came_[edge.to][edge.group] |= std::uint64_t{1} << map.to;
    if (runs(edge.to, edge.group)) run(edge.to);
  }

  const Plan& plan_;
  const NodeId root_;
  const std::uint64_t frame_;
  std::vector<bool> ran_;
  std::vector<std::vector<std::uint64_t>> came_;  // fields, per node and group
  std::vector<NodeId> open_;
};

void warn_of(const Plan& plan, const Collector& join, const Mark& mark, Diagnostics& diagnostics) {
  const PlanNode& node = plan.nodes[join.owner];
  const std::vector<std::string>& fields = node.groups[join.group].fields;
  std::string names;
  for (std::size_t i = 0; i < fields.size(); ++i)
    names += (i == 0 ? "'" : i + 1 == fields.size() ? " and '" : ", '") + fields[i] + "'";
  report(diagnostics, {Severity::warning, mark, "comes-apart",
                       "what leads to " + names + " leaves '" + plan.nodes[join.root].name +
                           "' in different frames; '" + node.name +
                           "' joins what comes of one frame of it, so it never runs by this group",
                       "make each field a group of its own, or collect them with `count`"});
}

}  // namespace

void warn_of_joins_apart(const WorkflowSpec& spec, const Declarations& declarations,
                         const Plan& plan, Diagnostics& diagnostics) {
  std::set<NodeId> roots;
  for (const Collector& join : plan.collectors)
    if (join.kind == CollectorKind::join && join.root != entry_node) roots.insert(join.root);
  std::size_t steps = 0;
  for (const NodeId root : roots) {
    const InterfaceDeclaration* interface = interface_of(spec, plan.nodes[root], declarations);
    if (interface == nullptr || interface->frames.empty()) continue;
    std::vector<Reach> reaches;
    for (const std::uint64_t frame : frames_of(plan.nodes[root], *interface)) {
      steps += plan.edges.size() + plan.nodes.size();
      if (steps > steps_max) return;
      reaches.emplace_back(plan, root, frame);
    }
    for (const Collector& join : plan.collectors)
      if (join.kind == CollectorKind::join && join.root == root &&
          std::ranges::none_of(
              reaches, [&](const Reach& reach) { return reach.runs(join.owner, join.group); }))
        warn_of(plan, join, spec.nodes[join.owner - 1].groups[join.group].mark, diagnostics);
  }
}

}  // namespace sluice::compiling
