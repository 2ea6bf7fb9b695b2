#include "workflows/load.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "graph/check.h"
#include "graph/print.h"
#include "workflows/load_global_param.h"
#include "workflows/load_tree.h"
#include "workflows/meant_type.h"
#include "workflows/misplaced.h"
#include "workflows/overrides.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 11> workflow_part{
    "sluice",  "workflow", "inputs", "global_params", "roles",  "nodes",
    "outputs", "limits",   "calls",  "on_error",      "include"};
constexpr std::array<std::string_view, 8> role_part{
    "plugin", "model", "global_params", "replicas", "balance", "colocate", "options", "idempotent"};
constexpr std::array<std::string_view, 9> node_part{
    "run", "inputs", "count", "on_error", "outputs", "deadline", "max_age", "on_full", "queue"};
constexpr std::array<std::string_view, 4> limits_part{"deadline", "loop_iterations", "frames",
                                                      "calls"};
constexpr std::array<KnownKeys, 5> tables{{{"workflow", workflow_part},
                                           {"global_param", GlobalParamReader::keys},
                                           {"role", role_part},
                                           {"node", node_part},
                                           {"limits", limits_part}}};

/// Stands for what was refused, so that nothing is said to lack it.
const Name refused_name{};

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string odd_character(std::string_view text) {
  const std::string odd = misleading_character(text);
  return odd.empty() ? "" : "; this has the character " + odd + ": type it anew";
}

class Loader : public YamlReader {
 public:
  Loader(WorkflowSpec& spec, Diagnostics& diagnostics)
      : YamlReader(diagnostics), spec_(spec), params_(diagnostics) {}

  /// False: it is no workflow, or too large to be one.
  bool load(const YamlNode& root);

 private:
  std::optional<FieldRef> field_ref(const YamlNode& node) {
    if (!expect(node, Kind::scalar, "a source")) return std::nullopt;
    if (++sources_ == WorkflowBounds::sources + 1)
      too_many(node.mark, "sources", WorkflowBounds::sources);
    const std::size_t dot = node.scalar.find('.');
    FieldRef ref;
    ref.mark = node.mark;
    if (dot != std::string::npos) {
      ref.node = node.scalar.substr(0, dot);
      ref.field = node.scalar.substr(dot + 1);
    }
    if (is_name(ref.node) && is_name(ref.field)) return ref;
    // A name that is wrong was reported where it is declared.
    if (bad_names_.contains(ref.node == "inputs" ? ref.field : ref.node) ||
        bad_names_.contains(node.scalar))
      return ref;
    const std::string plain = in_small_letters(ref.node + "." + ref.field);
    const std::string bare = in_template(node.scalar);
    error(node.mark, "bad-source", in_quotes(node.scalar) + " is not a source",
          !bare.empty() ? "a source is written as it is: " + bare
          : is_name(in_small_letters(ref.node)) && is_name(in_small_letters(ref.field))
              ? "names are in lower case: " + plain
              : "write node.field, or inputs.field for what a call brings in" +
                    odd_character(node.scalar));
    return std::nullopt;
  }
  std::vector<FieldRef> sources(const YamlNode& node) {
    std::vector<FieldRef> refs;
    if (node.kind == Kind::list) {
      if (node.items.empty())
        error(node.mark, "bad-source", "a field needs a source", "write node.field");
      for (const YamlNode& item : node.items)
        if (auto ref = field_ref(item)) refs.push_back(std::move(*ref));
    } else if (auto ref = field_ref(node)) {
      refs.push_back(std::move(*ref));
    }
    return refs;
  }

  void too_many(Mark mark, const std::string& what, std::size_t most) {
    error(mark, "too-many", "a workflow has at most " + std::to_string(most) + " " + what,
          "take it apart, or make less of it");
    too_many_ = true;
  }
  /// False, with an error, when the map holds more than `most`.
  bool bounded(const YamlNode& map, const std::string& what, std::size_t most) {
    if (map.entries.size() <= most) return true;
    too_many(map.entries[most].key.mark, what, most);
    return false;
  }
  void note_bad_names(const YamlNode* map) {
    if (map == nullptr) return;
    for (const auto& [key, value] : map->entries) {
      if (!is_name(key.scalar)) bad_names_.insert(key.scalar);
      if (const YamlNode* fields = value.find("outputs"))
        for (const YamlNode& field : fields->items)
          if (!is_name(field.scalar)) bad_names_.insert(key.scalar + "." + field.scalar);
    }
  }
  void load_sections(const YamlNode& root);
  void find_misplaced(const YamlNode& root);
  bool is_misplaced(const YamlNode& value) const { return misplaced_.contains(&value); }
  void load_version(const YamlNode& root);
  void load_call_mode(const YamlNode& node);
  void load_includes(const YamlNode& node);
  void load_run(NodeSpec& spec, const YamlNode& key, const YamlNode& node);
  void load_inputs(const YamlNode& node);
  void load_global_params(const YamlNode& node);
  void load_role(const YamlNode& key, const YamlNode& node);
  void load_role_extras(RoleSpec& role, const YamlNode& node);
  void load_nodes(const YamlNode& map);
  void load_node(const YamlNode& key, const YamlNode& node);
  void load_fields(NodeSpec& spec, const YamlNode& list);
  void load_queue(NodeSpec& spec, const YamlNode& node);
  void load_groups(NodeSpec& spec, const YamlNode& node);
  void load_counts(NodeSpec& spec, const YamlNode& node);
  void load_outputs(const YamlNode& node);
  void load_limits(const YamlNode& node);

  WorkflowSpec& spec_;
  GlobalParamReader params_;
  std::set<std::string, std::less<>> bad_names_;  // declared, and reported there
  std::set<const YamlNode*> misplaced_;           // read as keys of the workflow
  std::size_t sources_ = 0;
  bool too_many_ = false;
};

void Loader::load_inputs(const YamlNode& node) {
  spec_.unread.inputs = !expect(node, Kind::map, "inputs");
  if (spec_.unread.inputs || !bounded(node, "inputs", WorkflowBounds::inputs)) return;
  for (const YamlEntry& entry : node.entries) {
    if (is_misplaced(entry.value)) continue;
    const auto& [key, value] = parted(entry);
    const auto input = name(key, "an input's name");
    if (!input) continue;
    if (!expect(value, Kind::scalar, "the type of input " + in_quotes(key.scalar))) {
      spec_.inputs.push_back({*input, ValueType::any});
      continue;
    }
    const auto type = value_type_from(value.scalar);
    if (!type || *type == ValueType::any) {
      const std::string near = meant_type(value.scalar);
      error(value.mark, "unknown-type", in_quotes(value.scalar) + " is not a type",
            near.empty() ? "types are json, text, image, audio, tensor, number and bytes"
                         : "did you mean '" + near + "'?");
    }
    spec_.inputs.push_back({*input, type.value_or(ValueType::any)});
  }
}

void Loader::load_global_params(const YamlNode& node) {
  spec_.unread.global_params = !expect(node, Kind::map, "global_params");
  if (spec_.unread.global_params ||
      !bounded(node, "global parameters", WorkflowBounds::global_params))
    return;
  for (const auto& [key, value] : node.entries) {
    if (is_misplaced(value)) continue;
    const auto param = name(key, "a global parameter's name");
    if (!param) continue;
    spec_.global_params.push_back(params_.load(*param, key, value));
  }
}

void Loader::load_role_extras(RoleSpec& role, const YamlNode& node) {
  const YamlNode* list = find(node, "global_params");
  const YamlNode* options = find(node, "options");
  if (list && !expect(*list, Kind::list, "a role's global_params"))
    role.global_params.push_back(refused_name);
  else if (list)
    for (const YamlNode& item : list->items)
      if (auto param = name(item, "a global parameter's name"))
        role.global_params.push_back(std::move(*param));
  if (options && expect(*options, Kind::map, "options"))
    for (const YamlEntry& entry : options->entries) {
      const auto& [key, value] = parted(entry);
      if (expect(value, Kind::scalar, "option '" + key.scalar + "'"))
        role.options.push_back({{key.scalar, key.mark}, {value.scalar, value.mark}});
    }
}

void Loader::load_role(const YamlNode& key, const YamlNode& node) {
  if (is_misplaced(node)) return;
  if (lacks_colon(key)) {
    spec_.unread.roles = true;
    return;
  }
  const auto role_name = name(key, "a role's name");
  if (!role_name) return;
  RoleSpec role;
  role.name = *role_name;
  if (!expect(node, Kind::map, "role " + in_quotes(key.scalar),
              is_name(node.scalar) ? "write { plugin: " + node.scalar + " }" : "")) {
    spec_.roles.push_back(std::move(role));
    return;
  }
  check_keys(node, role_part, "role " + in_quotes(key.scalar));
  if (const YamlNode* plugin = find(node, "plugin")) {
    // A name that is none is no plugin's either: that is said, with the nearest.
    if (plugin->kind == Kind::scalar && !plugin->scalar.empty())
      role.plugin = {plugin->scalar, plugin->mark};
    else
      (void)name(*plugin, "a plugin's name");
  } else {
    error(key.mark, "missing-key", "role '" + key.scalar + "' needs a 'plugin'",
          "plugin: the name of what computes, see `sluice roles`");
  }
  if (const YamlNode* model = find(node, "model"))
    role.model =
        expect(*model, Kind::scalar, "model") ? Name{model->scalar, model->mark} : refused_name;
  if (const YamlNode* replicas = find(node, "replicas"))
    role.replicas = static_cast<std::uint32_t>(number(*replicas, "replicas", 1, 256).value_or(1));
  if (const YamlNode* balance = find(node, "balance"))
    if (!choice<Balance>(*balance, "balance",
                         {{"round_robin", Balance::round_robin},
                          {"session", Balance::session},
                          {"broadcast", Balance::broadcast}},
                         role.balance))
      role.balance = Balance::session;  // which of them it is, nothing depends on
  if (const YamlNode* idempotent = find(node, "idempotent")) {
    choice<bool>(*idempotent, "idempotent", {{"true", true}, {"false", false}}, role.idempotent);
    role.idempotent_mark = idempotent->mark;
  }
  if (const YamlNode* colocate = find(node, "colocate"))
    role.colocate = name(*colocate, "a role's name");
  load_role_extras(role, node);
  spec_.roles.push_back(std::move(role));
}

void Loader::load_groups(NodeSpec& spec, const YamlNode& node) {
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

void Loader::load_counts(NodeSpec& spec, const YamlNode& node) {
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
    CountSpec& count = spec.counts.emplace_back(std::move(*field), CountAll{}, value.mark);
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

void Loader::load_run(NodeSpec& spec, const YamlNode& key, const YamlNode& node) {
  const YamlNode* run = find(node, "run");
  if (run == nullptr)
    return error(key.mark, "missing-key", "node " + in_quotes(key.scalar) + " needs a 'run'",
                 "run: role.interface");
  if (!expect(*run, Kind::scalar, "run")) return;
  const std::size_t dot = run->scalar.find('.');
  const std::string role = run->scalar.substr(0, dot);
  const std::string interface = dot == std::string::npos ? "" : run->scalar.substr(dot + 1);
  if (bad_names_.contains(role)) return;
  if (!is_name(role) || !is_name(interface))
    return error(run->mark, "bad-run", in_quotes(run->scalar) + " does not say what to run",
                 is_name(in_small_letters(role)) && is_name(in_small_letters(interface))
                     ? "names are in lower case: " + in_small_letters(run->scalar)
                     : "write role.interface" + odd_character(run->scalar));
  spec.role = {role, run->mark};
  spec.interface = {interface, run->mark};
}

void Loader::load_node(const YamlNode& key, const YamlNode& node) {
  if (is_misplaced(node)) return;
  if (lacks_colon(key)) {
    spec_.unread.nodes = true;
    return;
  }
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
  check_keys(node, node_part, "node " + in_quotes(key.scalar));
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
  if (const YamlNode* deadline = find(node, "deadline"))
    spec.deadline = duration(*deadline, "deadline").value_or(spec.deadline);
  if (const YamlNode* age = find(node, "max_age"))
    spec.max_age = duration(*age, "max_age").value_or(spec.max_age);
  load_queue(spec, node);
  if (const YamlNode* outputs = find(node, "outputs");
      outputs && !is_misplaced(*outputs) && expect(*outputs, Kind::list, "a node's outputs"))
    load_fields(spec, *outputs);
  spec_.nodes.push_back(std::move(spec));
}

void Loader::load_fields(NodeSpec& spec, const YamlNode& list) {
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

void Loader::load_nodes(const YamlNode& map) {
  const auto is_part = [](const YamlEntry& entry) {
    return std::ranges::find(node_part, entry.key.scalar) != node_part.end();
  };
  bool below_empty = false;
  for (const auto& [key, value] : map.entries) {
    // Keys of the node above that are not indented: that it is empty has been said.
    const bool is_key = std::ranges::find(node_part, key.scalar) != node_part.end();
    const bool is_node = value.kind == Kind::map &&
                         (key.scalar != "count" || std::ranges::any_of(value.entries, is_part));
    below_empty = value.kind == Kind::null || (below_empty && is_key && !is_node);
    if (!below_empty || value.kind == Kind::null) load_node(key, value);
  }
}

void Loader::load_queue(NodeSpec& spec, const YamlNode& node) {
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

void Loader::load_outputs(const YamlNode& node) {
  spec_.unread.outputs = !expect(node, Kind::map, "outputs");
  if (spec_.unread.outputs || !bounded(node, "outputs", WorkflowBounds::outputs)) return;
  for (const YamlEntry& entry : node.entries) {
    if (is_misplaced(entry.value)) continue;
    const auto& [key, value] = parted(entry);
    if (auto output = name(key, "an output's name"))
      spec_.outputs.push_back({std::move(*output), sources(value)});
  }
}

void Loader::load_limits(const YamlNode& node) {
  if (!expect(node, Kind::map, "limits")) return;
  check_keys(node, limits_part, "limits");
  if (const YamlNode* deadline = find(node, "deadline"))
    spec_.limits.deadline = duration(*deadline, "deadline").value_or(spec_.limits.deadline);
  if (const YamlNode* turns = find(node, "loop_iterations"))
    spec_.limits.loop_iterations =
        number(*turns, "loop_iterations", 1, 65'535).value_or(spec_.limits.loop_iterations);
  if (const YamlNode* frames = find(node, "frames"))
    spec_.limits.frames = number(*frames, "frames", 1, 1'000'000'000).value_or(spec_.limits.frames);
  if (const YamlNode* calls = find(node, "calls"))
    spec_.limits.calls = number(*calls, "calls", 1, 1'000'000).value_or(spec_.limits.calls);
}

void Loader::load_version(const YamlNode& root) {
  const YamlNode* version = find(root, "sluice");
  if (version == nullptr)
    error({1, 1, 1}, "missing-key", "the file does not say that it is a workflow",
          "begin with `sluice: 1`");
  else if (expect(*version, Kind::scalar, "the version") && version->scalar != "1")
    error(version->mark, "unknown-version",
          "version " + in_quotes(version->scalar) + " is not known", "write `sluice: 1`");
}

void Loader::load_includes(const YamlNode& node) {
  if (!expect(node, Kind::list, "include")) {
    spec_.unread.roles = spec_.unread.global_params = true;
    return;
  }
  if (node.items.size() > WorkflowBounds::includes)
    return too_many(node.items[WorkflowBounds::includes].mark, "includes",
                    WorkflowBounds::includes);
  for (const YamlNode& item : node.items)
    if (expect(item, Kind::scalar, "an included file"))
      spec_.includes.push_back({item.scalar, item.mark});
    else
      spec_.unread.roles = spec_.unread.global_params = true;
}

void Loader::find_misplaced(const YamlNode& root) {
  const auto found = misplaced_keys(root, [&](std::string_view key) { return find(root, key); });
  for (const Misplaced& one : found) {
    error(one.mark, "misplaced-key", one.message, one.suggestion);
    misplaced_.insert(one.value);
    const auto known = std::ranges::find(workflow_part, one.key);
    read_as(root, *known, *one.value);
  }
}

void Loader::load_sections(const YamlNode& root) {
  if (const YamlNode* list = find(root, "include")) load_includes(*list);
  if (const YamlNode* node = find(root, "inputs")) load_inputs(*node);
  if (const YamlNode* node = find(root, "global_params")) load_global_params(*node);
  if (const YamlNode* node = find(root, "roles")) {
    const bool read = expect(*node, Kind::map, "roles");
    spec_.unread.roles = spec_.unread.roles || !read;
    if (read && bounded(*node, "roles", WorkflowBounds::roles))
      for (const auto& [key, value] : node->entries) load_role(key, value);
  }
  if (const YamlNode* node = find(root, "nodes")) {
    spec_.unread.nodes = !expect(*node, Kind::map, "nodes");
    if (!spec_.unread.nodes && bounded(*node, "nodes", WorkflowBounds::nodes)) load_nodes(*node);
  }
  if (const YamlNode* node = find(root, "outputs")) load_outputs(*node);
  if (const YamlNode* node = find(root, "limits")) load_limits(*node);
}

/// How the calls of one session go; how many run at once is a limit.
void Loader::load_call_mode(const YamlNode& node) {
  const bool is_count =
      !node.scalar.empty() && node.scalar[0] != '0' &&
      std::ranges::all_of(node.scalar, [](char c) { return c >= '0' && c <= '9'; });
  choice<CallMode>(node, "calls", {{"serial", CallMode::serial}, {"overlap", CallMode::overlap}},
                   spec_.calls,
                   is_count ? "how many may be under way at once is `limits: { calls: " +
                                  node.scalar.substr(0, 20) + " }`"
                            : "");
}

bool Loader::load(const YamlNode& root) {
  if (root.kind != Kind::map) {
    error(root.mark.line == 0 ? Mark{1, 1, 1} : root.mark, "not-a-workflow",
          "a workflow is a map, this is " + std::string(kind_name(root.kind)),
          "begin with `sluice: 1`");
    return false;
  }
  // Another program's file: all that a workflow needs and this lacks would say nothing more.
  if (std::ranges::none_of(root.entries, [](const auto& entry) {
        return !nearest_name(entry.key.scalar, {workflow_part.begin(), workflow_part.end()})
                    .empty();
      })) {
    error({1, 1, 1}, "not-a-workflow", "this file has none of the keys of a workflow",
          "begin with `sluice: 1`");
    return false;
  }
  check_keys(root, workflow_part, "a workflow");
  load_version(root);
  find_misplaced(root);
  const auto has = [&](std::string_view key) { return find(root, key) != nullptr; };
  spec_.is_library =
      (has("roles") || has("global_params")) && !has("nodes") && !has("inputs") && !has("outputs");
  if (const YamlNode* workflow = find(root, "workflow"))
    spec_.name = name(*workflow, "a workflow's name").value_or(Name{});
  else if (!spec_.is_library)
    error({1, 1, 1}, "missing-key", "the workflow has no name", "workflow: a_name");
  for (const std::string_view part : {"inputs", "roles", "nodes"}) note_bad_names(find(root, part));
  load_sections(root);
  if (const YamlNode* calls = find(root, "calls")) load_call_mode(*calls);
  if (const YamlNode* on_error = find(root, "on_error"))
    choice<bool>(*on_error, "on_error of a workflow", {{"finish", false}, {"cancel", true}},
                 spec_.cancel_on_error);
  return !too_many_;
}

}  // namespace

std::span<const KnownKeys> workflow_keys() { return tables; }

LoadedWorkflow load_tree(std::string file_name, std::string_view text, const ChangeTree& change) {
  LoadedWorkflow loaded;
  loaded.spec.file = std::move(file_name);
  loaded.text = text;
  YamlNode root = read_yaml(text, loaded.diagnostics);
  // A file that is not YAML says nothing about workflows.
  loaded.readable = is_readable(loaded.diagnostics);
  if (!loaded.readable) return loaded;
  if (change) change(root, loaded.diagnostics);
  loaded.readable = Loader(loaded.spec, loaded.diagnostics).load(root);
  return loaded;
}

LoadedWorkflow load_workflow(std::string file_name, std::string_view text) {
  return load_tree(std::move(file_name), text, {});
}

void name_overrides(LoadedWorkflow& loaded) {
  Overrides(loaded.overrides).name(loaded.diagnostics);
}

Plan plan_workflow(LoadedWorkflow& loaded, const Declarations& declarations) {
  Plan plan;
  if (loaded.readable) {
    check(loaded.spec, declarations, loaded.diagnostics);
    plan = compile(loaded.spec, declarations, loaded.diagnostics);
  }
  name_overrides(loaded);
  sort_diagnostics(loaded.diagnostics);
  return plan;
}

}  // namespace sluice
