#include "graph/missing.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace sluice {

namespace {

constexpr std::size_t outputs_named = 4;
constexpr std::size_t reasons_named = 4;

std::string listed(const std::vector<std::string>& words, const char* last) {
  std::string text;
  for (const std::string& word : words)
    text += (&word == &words.front() ? "" : &word == &words.back() ? last : ", ") + word;
  return text;
}

/// "side.f", or "side.f or other.g": which sources bring a field, or an output.
std::string sources(const Plan& plan, const std::vector<EdgeId>& edges, std::uint16_t field) {
  std::string text;
  for (const EdgeId id : edges) {
    const Edge& edge = plan.edges[id];
    for (const FieldMap& map : edge.fields)
      if (map.to == field)
        text += (text.empty() ? "" : " or ") + plan.nodes[edge.from].name + "." +
                plan.nodes[edge.from].outputs[map.from];
  }
  return text;
}

/// Nodes that ran, or the entry: the outputs that never came of them.
using Ends = std::map<NodeId, std::uint64_t>;

/// ": node 'a' ran and yielded nothing on 'f'"; empty: nothing is known.
std::string reasons_text(const Plan& plan, const Ends& ends) {
  std::vector<std::string> reasons;
  for (const auto& [node, left_out] : ends) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < plan.nodes[node].outputs.size(); ++i)
      if ((left_out >> i & 1U) != 0) names.push_back("'" + plan.nodes[node].outputs[i] + "'");
    if (node == entry_node)
      reasons.push_back((names.size() == 1 ? "input " : "inputs ") + listed(names, " and ") +
                        (names.size() == 1 ? " was" : " were") + " not given");
    else
      reasons.push_back("node '" + plan.nodes[node].name + "' ran and yielded nothing on " +
                        listed(names, " or "));
  }
  if (reasons.empty()) return "";
  const std::size_t more = reasons.size() - std::min(reasons.size(), reasons_named);
  reasons.resize(reasons.size() - more);
  return ": " + listed(reasons, ", ") +
         (more == 0 ? "" : ", and " + std::to_string(more) + " more");
}

/// Follows what never came in the call back to where it ended.
class Search {
 public:
  Search(const Plan& plan, const Untold& untold) : plan_(plan), untold_(untold) {}

  /// `field` of a group (or of an output: 0) that these edges lead to.
  void follow(const std::vector<EdgeId>& edges, std::uint16_t field) {
    follow(edges, field, false);
    while (!open_.empty()) step();
  }

  Ends found() const {
    Ends last;
    for (const auto& [node, left_out] : ends_)
      if (waited_for_.contains(node) || !is_branch(node)) last.emplace(node, left_out);
    // In a circle each may have led on to the other.
    return last.empty() && stops_.empty() ? ends_ : last;
  }

 private:
  /// `waited_for`: by a node that got some of what it needs.
  void follow(const std::vector<EdgeId>& edges, std::uint16_t field, bool waited_for) {
    for (const EdgeId id : edges)
      for (const FieldMap& map : plan_.edges[id].fields)
        if (map.to == field) visit(plan_.edges[id].from, map.from, waited_for);
  }

  /// `output` of `node` never came in the call.
  void visit(NodeId node, std::uint16_t output, bool waited_for) {
    const std::uint64_t bit = std::uint64_t{1} << output;
    const Untold::Told* told = untold_.find(node, 0);
    if (waited_for) waited_for_.insert(node);
    if (node == entry_node) {
      if ((untold_.given & bit) == 0) ends_[node] |= bit;
    } else if (told != nullptr && told->silent) {
      if ((told->left_out & bit) != 0) ends_[node] |= bit;
    } else if (told != nullptr && told->stopped) {
      stops_.insert(node);
    } else if (told != nullptr && told->ran) {
      // It yielded this, or the machine that says so is wrong.
    } else if (seen_.insert({node, waited_for}).second) {
      open_.emplace_back(node, waited_for);
    }
  }

  /// A node that did not run: what did its groups lack?
  void step() {
    const auto [id, waited_for] = open_.back();
    const PlanNode& node = plan_.nodes[id];
    open_.pop_back();
    for (std::uint16_t g = 0; g < node.groups.size(); ++g) {
      const PlanGroup& group = node.groups[g];
      const Untold::Told* told = untold_.find(node.id, g);
      const bool lacks = told != nullptr && (told->lacks || told->few);
      // Each of its fields came, though not together, or not often enough: that has its own line.
      if (lacks && told->every == 0) stops_.insert(node.id);
      if (lacks && told->every != 0) waiting_.insert(node.id);
      for (std::uint16_t field = 0; field < group.fields.size(); ++field)
        if (!lacks || (told->every >> field & 1U) != 0)
          follow(group.edges, field, waited_for || lacks);
    }
  }

  /// It yielded something else, and that led on to another end, or to a node that waits for more.
  bool is_branch(NodeId node) const {
    const Untold::Told* told = untold_.find(node, 0);
    const std::uint64_t yielded =
        node == entry_node ? untold_.given : plan_.nodes[node].read & ~told->left_out;
    if (yielded == 0) return false;
    std::vector<bool> reached(plan_.nodes.size());
    std::vector<NodeId> open{node};
    while (!open.empty()) {
      const NodeId at = open.back();
      open.pop_back();
      for (const EdgeId id : plan_.nodes[at].edges) {
        const Edge& edge = plan_.edges[id];
        if (edge.is_output() || reached[edge.to] || (at == node && (edge.mask & yielded) == 0))
          continue;
        reached[edge.to] = true;
        if (edge.to == node) continue;
        if (ends_.contains(edge.to) || stops_.contains(edge.to) || waiting_.contains(edge.to))
          return true;
        open.push_back(edge.to);
      }
    }
    return false;
  }

  const Plan& plan_;
  const Untold& untold_;
  Ends ends_;
  std::set<NodeId> stops_;       // where it ended for a reason that has its own line
  std::set<NodeId> waiting_;     // got some of what they need
  std::set<NodeId> waited_for_;  // for these, or for what they wait for in turn
  std::set<std::pair<NodeId, bool>> seen_;
  std::vector<std::pair<NodeId, bool>> open_;
};

std::string join_text(const Plan& plan, const Untold& untold, const Untold::Told& told) {
  const PlanNode& node = plan.nodes[told.node];
  const PlanGroup& group = node.groups[told.group];
  std::string text = node.name + ": ";
  if (node.groups.size() > 1) text += "group " + std::to_string(told.group) + ": ";
  if (told.every == 0) {
    // Each of them came for some yield: none had all.
    std::vector<std::string> names;
    for (std::size_t field = 0; field < group.fields.size(); ++field)
      if ((told.some >> field & 1U) != 0) names.push_back(group.fields[field]);
    return text + listed(names, " and ") + " never came for one and the same yield of " +
           plan.nodes[plan.collectors[group.collector].root].name + ", it did not run";
  }
  Search search(plan, untold);
  for (std::uint16_t field = 0; field < group.fields.size(); ++field) {
    if ((told.every >> field & 1U) == 0) continue;
    text += group.fields[field] + " did not come from " + sources(plan, group.edges, field) + ", ";
    search.follow(group.edges, field);
  }
  return text + "it did not run" + reasons_text(plan, search.found());
}

}  // namespace

void Untold::add(const Lost& lost) {
  if (lost.node == entry_node) return;
  const auto key = [](const Told& one) { return std::pair(one.node, one.group); };
  auto at = std::ranges::lower_bound(told_, std::pair(lost.node, lost.group), {}, key);
  if (at == told_.end() || key(*at) != std::pair(lost.node, lost.group))
    at = told_.insert(at, {.node = lost.node, .group = lost.group});
  switch (lost.kind) {
    case Lost::Kind::few:
      at->few = true;
      at->every &= lost.fields;
      break;
    case Lost::Kind::missing:
      at->lacks = true;
      at->some |= lost.fields;
      at->every &= lost.fields;
      break;
    case Lost::Kind::ran:
      at->ran = true;
      break;
    case Lost::Kind::silent:
      at->left_out = at->silent ? at->left_out & lost.fields : lost.fields;
      at->silent = true;
      break;
    case Lost::Kind::stopped:
      at->stopped = true;
      break;
  }
}

const Untold::Told* Untold::find(NodeId node, std::uint16_t group) const {
  const auto key = [](const Told& one) { return std::pair(one.node, one.group); };
  const auto at = std::ranges::lower_bound(told_, std::pair(node, group), {}, key);
  return at != told_.end() && key(*at) == std::pair(node, group) ? &*at : nullptr;
}

void Untold::silent_nodes(std::vector<NodeId>& nodes) const {
  nodes.clear();
  for (const Told& one : told_)
    if (one.silent) nodes.push_back(one.node);
}

void Untold::clear() {
  told_.clear();
  given = 0;
}

void Untold::say(const Plan& plan, bool no_output, Warnings& warnings) const {
  for (const Told& one : told_) {
    const Told* node = find(one.node, 0);
    if (one.lacks && (node == nullptr || !node->ran)) warnings.add(join_text(plan, *this, one));
  }
  if (!no_output) return;
  std::string text = "the call brought no output: ";
  Ends ends;
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    Search search(plan, *this);
    search.follow(plan.outputs[i].edges, 0);
    for (const auto& [node, left_out] : search.found()) ends[node] |= left_out;
    if (i < outputs_named)
      text += (i == 0 ? "" : ", ") + plan.outputs[i].name + " did not come from " +
              sources(plan, plan.outputs[i].edges, 0);
  }
  if (plan.outputs.size() > outputs_named)
    text += ", and " + std::to_string(plan.outputs.size() - outputs_named) + " more";
  warnings.add(text + reasons_text(plan, ends));
}

}  // namespace sluice
