#include "cli/left_out.h"

#include <algorithm>

namespace sluice::cli {

namespace {

constexpr std::size_t named_max = 6;  // of the inputs, nodes and outputs

/// Which nodes may run: at first none but the entry, then whatever has a group whose every field
/// some node that runs may bring.
class Reach {
 public:
  Reach(const Plan& plan, const std::vector<std::string>& without)
      : plan_(plan), without_(without), runs_(plan.nodes.size()) {
    runs_[entry_node] = true;
    for (bool more = true; more;) {
      more = false;
      for (const PlanNode& node : plan_.nodes)
        if (!runs_[node.id] && std::ranges::any_of(node.groups, [&](const PlanGroup& group) {
              return is_whole(group);
            }))
          more = runs_[node.id] = true;
    }
  }

  bool runs(NodeId node) const { return runs_[node]; }
  bool comes(const std::vector<EdgeId>& edges, std::uint16_t field) const {
    return std::ranges::any_of(edges, [&](EdgeId id) {
      const Edge& edge = plan_.edges[id];
      return runs_[edge.from] && std::ranges::any_of(edge.fields, [&](const FieldMap& map) {
               return map.to == field && !(edge.from == entry_node && is_left_out(map.from));
             });
    });
  }

 private:
  bool is_left_out(std::uint16_t input) const {
    return std::ranges::find(without_, plan_.inputs[input]) != without_.end();
  }
  bool is_whole(const PlanGroup& group) const {
    for (std::uint16_t field = 0; field < group.fields.size(); ++field)
      if (!comes(group.edges, field)) return false;
    return true;
  }

  const Plan& plan_;
  const std::vector<std::string>& without_;
  std::vector<bool> runs_;
};

/// "the nodes 'a' and 2 more", "the node 'a'"; empty: there are none.
std::string list_of(const std::string& what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string text = "the " + what + (names.size() == 1 ? " " : "s ");
  for (std::size_t i = 0; i < std::min(names.size(), named_max); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > named_max)
    text += " and " + std::to_string(names.size() - named_max) + " more";
  return text;
}

}  // namespace

std::string left_out_text(const Plan& plan, const std::vector<std::string>& without) {
  if (without.empty()) return "";
  const Reach reach(plan, without);
  std::vector<std::string> nodes;
  std::vector<std::string> outputs;
  for (const PlanNode& node : plan.nodes)
    if (!reach.runs(node.id)) nodes.push_back(node.name);
  for (const PlanOutput& output : plan.outputs)
    if (!reach.comes(output.edges, 0)) outputs.push_back(output.name);
  if (nodes.empty() && outputs.empty()) return "";
  std::string text = "without " + list_of("input", without) + ", ";
  if (!nodes.empty()) text += list_of("node", nodes) + " cannot run";
  if (!nodes.empty() && !outputs.empty()) text += " and ";
  if (!outputs.empty())
    text += list_of("output", outputs) + (outputs.size() == 1 ? " does" : " do") + " not come";
  return text;
}

}  // namespace sluice::cli
