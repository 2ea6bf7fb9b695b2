#include "graph/refused_outputs.h"

#include <algorithm>
#include <vector>

#include "base/nearest.h"
#include "graph/plan.h"

namespace sluice {

namespace {

bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A refused name, and the words in it: `[x:y]` and `[x y]` may mean any of them.
std::vector<std::string_view> names_in(std::string_view text) {
  std::vector<std::string_view> names{text};
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t end = at;
    while (end < text.size() && is_of_name(text[end])) ++end;
    if (end > at) names.push_back(text.substr(at, end - at));
    at = end;
  }
  return names;
}

/// Of `fields`, which are none of the node's outputs, those that may mean a refused one.
std::set<std::string, std::less<>> refused_among(const std::set<std::string, std::less<>>& fields,
                                                 const NodeSpec& node) {
  std::vector<std::string_view> names;  // the refused ones first: of two as near, one of them
  std::vector<std::size_t> owners;      // of those, which of the refused they stand in
  for (std::size_t i = 0; i < node.refused_outputs.size(); ++i)
    for (const std::string_view name : names_in(node.refused_outputs[i])) {
      if (name.empty()) return fields;  // it is no word: any may be it
      names.push_back(name);
      owners.push_back(i);
    }
  for (const Name& output : node.outputs) names.push_back(output.text);
  if (names.size() + fields.size() > outputs_per_node_max) return fields;
  std::set<std::string, std::less<>> meant;
  std::set<std::string, std::less<>> others;  // near to none
  std::set<std::size_t> read;                 // of the refused
  for (const std::string& field : fields) {
    const std::string near = nearest_name(field, names);
    const auto at = static_cast<std::size_t>(std::ranges::find(names, near) - names.begin());
    if (near.empty()) {
      others.insert(field);
    } else if (at < owners.size()) {
      meant.insert(field);
      read.insert(owners[at]);
    }
  }
  if (others.size() + read.size() <= node.refused_outputs.size()) meant.merge(others);
  return meant;
}

}  // namespace

FieldsByNode read_as_refused(const WorkflowSpec& spec) {
  constexpr std::size_t looked_at_max = 1'000;  // more are wrong than anybody would read
  std::size_t looked_at = 0;
  FieldsByNode meant;
  if (std::ranges::all_of(spec.nodes,
                          [](const auto& node) { return node.refused_outputs.empty(); }))
    return meant;
  FieldsByNode all = fields_read(spec);
  for (const NodeSpec& node : spec.nodes) {
    if (node.refused_outputs.empty()) continue;
    auto& fields = all[node.name.text];
    for (const Name& output : node.outputs) fields.erase(output.text);
    looked_at += fields.size();
    meant[node.name.text] = looked_at > looked_at_max ? fields : refused_among(fields, node);
  }
  return meant;
}

}  // namespace sluice
