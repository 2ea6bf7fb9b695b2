#include "workflows/load_node.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/check.h"
#include "graph/print.h"
#include "workflows/load.h"

namespace sluice {

using Kind = YamlNode::Kind;

void NodeReader::load_groups(NodeSpec& spec, const YamlNode& node) {
  if (node.kind == Kind::map) {
    error(node.mark, "wrong-kind",
          "inputs of node '" + spec.name.text + "' must be a list of groups, this is a map",
          "put a '-' before it, or [ ] around it: each entry of the list is one OR group");
    return;
  }
  if (!expect(node, Kind::list, "inputs of node '" + spec.name.text + "'",
              node.kind != Kind::scalar ? ""
              : node.scalar.find('.') == std::string::npos
                  ? "write [ { field: node.field } ]"
                  : "write [ { field: " + node.scalar + " } ]"))
    return;
  if (node.items.empty())
    error(node.mark, "no-inputs", "node " + in_quotes(spec.name.text) + " has no input group",
          "inputs: [ { field: node.field } ]");
  if (node.items.size() > WorkflowBounds::groups)
    return too_many(node.items[WorkflowBounds::groups].mark, "groups of a node",
                    WorkflowBounds::groups);
  for (const YamlNode& item : node.items) {
    if (item.kind == Kind::scalar) {
      error(item.mark, "wrong-kind", "an input group must be a map, this is a single value",
            item.scalar.find('.') == std::string::npos    ? "write { field: node.field }"
            : item.scalar.find(": ") != std::string::npos ? "write { " + item.scalar + " }"
                                                          : "write { field: " + item.scalar + " }");
      continue;
    }
    if (!expect(item, Kind::map, "an input group")) continue;
    GroupSpec group;
    group.mark = item.mark;
    if (item.entries.empty())
      error(item.mark, "empty-group", "an input group needs a field", "{ field: node.field }");
    if (item.entries.size() > WorkflowBounds::fields) {
      error(item.entries[WorkflowBounds::fields].key.mark, "too-many-fields",
            "an input group has at most " + std::to_string(WorkflowBounds::fields) +
                " fields, this has " + std::to_string(item.entries.size()),
            "bring some of them together in a node before it");
      spec.groups.clear();
      return;
    }
    for (const YamlEntry& entry : item.entries) {
      const auto& [key, value] = parted(entry);
      if (auto field = name(key, "a field's name"))
        group.fields.push_back({std::move(*field), sources(value)});
    }
    spec.groups.push_back(std::move(group));
  }
}

void NodeReader::load_counts(NodeSpec& spec, const YamlNode& node) {
  const bool empty = node.kind == Kind::map && node.entries.empty();
  if (node.kind == Kind::scalar || empty) {
    const std::string value = empty || node.scalar.empty() ? "1" : node.scalar;
    std::string fields;
    for (const GroupSpec& group : spec.groups)
      for (const FieldSpec& field : group.fields)
        fields += (fields.empty() ? "" : ", ") + field.field.text + ": " + value;
    error(node.mark, "wrong-kind",
          "count of node " + in_quotes(spec.name.text) + " must say it for each field, this is " +
              (empty ? "empty" : in_quotes(node.scalar)),
          "count: { " + (fields.empty() ? "field: " + value : fields) + " }");
    return;
  }
  if (!expect(node, Kind::map, "count of node " + in_quotes(spec.name.text))) return;
  for (const YamlEntry& entry : node.entries) {
    const auto& [key, value] = parted(entry);
    auto field = name(key, "a field's name");
    if (!field) continue;
    // What cannot be read counts as `all`: the field is not said to lack a count.
    spec.counts.push_back({std::move(*field), CountAll{}, value.mark});
    CountSpec& count = spec.counts.back();
    const std::string what = "the count of '" + key.scalar + "'";
    if (value.scalar == "all" || !expect(value, Kind::scalar, what)) continue;
    const bool digit = !value.scalar.empty() && value.scalar[0] >= '0' && value.scalar[0] <= '9';
    if (value.scalar.find('.') != std::string::npos && !digit) {
      if (auto ref = field_ref(value)) count.frames = std::move(*ref);
    } else if (const auto literal = number(value, what, 0, 100'000,
                                           "or `all`, or node.field, which brings a number")) {
      count.frames = *literal;
    }
  }
}

void NodeReader::load_run(NodeSpec& spec, const YamlNode& key, const YamlNode& node) {
  const YamlNode* run = find(node, "run");
  if (run == nullptr)
    return error(key.mark, "missing-key", "node " + in_quotes(key.scalar) + " needs a 'run'",
                 "run: role.interface");
  if (!expect(*run, Kind::scalar, "run")) return;
  const std::size_t dot = run->scalar.find('.');
  const std::string role = run->scalar.substr(0, dot);
  const std::string interface = dot == std::string::npos ? "" : run->scalar.substr(dot + 1);
  if (is_bad_name(role)) return;
  if (!is_name(role) || !is_name(interface))
    return error(run->mark, "bad-run", in_quotes(run->scalar) + " does not say what to run",
                 is_name(in_small_letters(role)) && is_name(in_small_letters(interface))
                     ? "names are in lower case: " + in_small_letters(run->scalar)
                     : "write role.interface" + odd_character(run->scalar));
  spec.role = {role, run->mark};
  spec.interface = {interface, run->mark};
}

/// Nodes that are indented as if they were keys of this one are told once, and read as nodes.
const YamlNode& NodeReader::without_nodes(const YamlNode& key, const YamlNode& node,
                                          std::vector<YamlEntry>& inner) {
  const auto is_node = [](const YamlEntry& entry) {
    return std::ranges::find(keys, entry.key.scalar) == keys.end() &&
           entry.value.find("run") != nullptr;
  };
  if (std::ranges::none_of(node.entries, is_node)) return node;
  YamlNode& own = taken_apart_.emplace_back(node);
  own.entries.clear();
  for (const YamlEntry& entry : node.entries)
    (is_node(entry) ? inner : own.entries).push_back(entry);
  for (const YamlEntry& entry : inner)
    error(entry.key.mark, "nested-node",
          "node " + in_quotes(entry.key.scalar) + " stands within node " + in_quotes(key.scalar),
          "indent it as '" + key.scalar + "' is: all nodes stand below `nodes`");
  return own;
}

void NodeReader::load_node(const YamlNode& key, const YamlNode& whole) {
  if (is_misplaced(whole)) return;
  if (lacks_colon(key)) {
    spec_.unread.nodes = true;
    return;
  }
  std::vector<YamlEntry> inner;
  load_one(key, without_nodes(key, whole, inner));
  for (const YamlEntry& entry : inner) load_node(entry.key, entry.value);
}

void NodeReader::load_one(const YamlNode& key, const YamlNode& node) {
  const auto node_name = name(key, "a node's name");
  if (!node_name) return;
  if (node_name->text == "inputs") {
    spec_.unread.inputs = true;  // what seems to be a call's may be meant for this node
    error(key.mark, "bad-name", "a node cannot be called 'inputs'",
          "inputs.field names what a call brings in; choose another name");
    return;
  }
  NodeSpec spec;
  spec.name = *node_name;
  if (!expect(node, Kind::map, "node " + in_quotes(key.scalar))) {
    spec_.nodes.push_back(std::move(spec));
    return;
  }
  check_keys(node, keys, "node " + in_quotes(key.scalar));
  load_run(spec, key, node);
  if (const YamlNode* inputs = find(node, "inputs")) {
    load_groups(spec, *inputs);
  } else {
    error(key.mark, "missing-key", "node " + in_quotes(key.scalar) + " needs 'inputs'",
          "inputs: [ { field: node.field } ]");
  }
  if (const YamlNode* count = find(node, "count")) load_counts(spec, *count);
  if (const YamlNode* on_error = find(node, "on_error"))
    choice<OnError>(*on_error, "on_error", {{"fail", OnError::fail}, {"skip", OnError::skip}},
                    spec.on_error);
  if (const YamlNode* deadline = find(node, "deadline")) {
    spec.deadline = duration(*deadline, "deadline").value_or(spec.deadline);
    spec.deadline_mark = deadline->mark;
  }
  if (const YamlNode* age = find(node, "max_age")) {
    spec.max_age = duration(*age, "max_age").value_or(spec.max_age);
    spec.max_age_mark = age->mark;
  }
  load_queue(spec, node);
  if (const YamlNode* outputs = find(node, "outputs");
      outputs && !is_misplaced(*outputs) && expect(*outputs, Kind::list, "a node's outputs"))
    load_fields(spec, *outputs);
  spec_.nodes.push_back(std::move(spec));
}

void NodeReader::load_fields(NodeSpec& spec, const YamlNode& list) {
  if (list.items.empty())
    error(list.mark, "no-outputs",
          "the outputs of node " + in_quotes(spec.name.text) + " are an empty list",
          "name what it yields, or leave `outputs` out");
  for (const YamlNode& item : list.items) {
    auto output = name(item, "an output field's name");
    if (!output || !is_name(output->text)) {
      // Of `x: text` the word in front of the ':'.
      const bool typed = item.kind == Kind::map && !item.entries.empty();
      spec.refused_outputs.push_back(typed ? item.entries[0].key.scalar : item.scalar);
      continue;
    }
    if (std::ranges::find(spec.outputs, output->text, &Name::text) != spec.outputs.end())
      error(item.mark, "duplicate-output",
            "the output " + in_quotes(output->text) + " stands twice", "remove one of them");
    spec.outputs.push_back(std::move(*output));
  }
}

void NodeReader::load_nodes(const YamlNode& map) {
  const auto is_part = [](const YamlEntry& entry) {
    return std::ranges::find(keys, entry.key.scalar) != keys.end();
  };
  bool below_empty = false;
  for (const auto& [key, value] : map.entries) {
    // Keys of the node above that are not indented: that it is empty has been said.
    const bool is_key = std::ranges::find(keys, key.scalar) != keys.end();
    const bool is_node = value.kind == Kind::map &&
                         (key.scalar != "count" || std::ranges::any_of(value.entries, is_part));
    below_empty = value.kind == Kind::null || (below_empty && is_key && !is_node);
    if (!below_empty || value.kind == Kind::null) load_node(key, value);
  }
}

void NodeReader::load_queue(NodeSpec& spec, const YamlNode& node) {
  if (const YamlNode* queue = find(node, "queue")) {
    spec.queue_mark = queue->mark;
    spec.queue = number(*queue, "queue", 1, 1'000).value_or(spec.queue);
  }
  const YamlNode* full = find(node, "on_full");
  if (full == nullptr) return;
  spec.on_full_mark = full->mark;
  if (!choice<OnFull>(*full, "on_full",
                      {{"wait", OnFull::wait}, {"drop_oldest", OnFull::drop_oldest}}, spec.on_full))
    spec.queue = 0;  // what it would go with is not known
}

}  // namespace sluice
