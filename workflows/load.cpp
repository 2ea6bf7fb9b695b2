#include "workflows/load.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "workflows/read_file.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 11> workflow_part{
    "sluice",  "workflow", "inputs", "global_params", "roles",  "nodes",
    "outputs", "limits",   "calls",  "on_error",      "include"};
constexpr std::array<std::string_view, 4> global_param_part{"kind", "model", "page_tokens",
                                                            "pages"};
constexpr std::array<std::string_view, 7> role_part{
    "plugin", "model", "global_params", "replicas", "balance", "colocate", "options"};
constexpr std::array<std::string_view, 7> node_part{"run",     "inputs",   "count",  "on_error",
                                                    "outputs", "deadline", "max_age"};
constexpr std::array<std::string_view, 3> limits_part{"deadline", "loop_iterations", "frames"};
constexpr std::array<KeyTable, 5> tables{{{"workflow", workflow_part},
                                          {"global_param", global_param_part},
                                          {"role", role_part},
                                          {"node", node_part},
                                          {"limits", limits_part}}};

class Loader : public YamlReader {
 public:
  Loader(WorkflowSpec& spec, Diagnostics& diagnostics) : YamlReader(diagnostics), spec_(spec) {}

  void load(const YamlNode& root);

 private:
  std::optional<FieldRef> field_ref(const YamlNode& node) {
    if (!expect(node, Kind::scalar, "a source")) return std::nullopt;
    const std::size_t dot = node.scalar.find('.');
    FieldRef ref;
    ref.mark = node.mark;
    if (dot != std::string::npos) {
      ref.node = node.scalar.substr(0, dot);
      ref.field = node.scalar.substr(dot + 1);
    }
    if (is_name(ref.node) && is_name(ref.field)) return ref;
    error(node.mark, "bad-source", "'" + node.scalar + "' is not a source",
          "write node.field, or inputs.field for what a call brings in");
    return std::nullopt;
  }
  std::vector<FieldRef> sources(const YamlNode& node) {
    std::vector<FieldRef> refs;
    if (node.kind == Kind::list) {
      if (node.items.empty()) error(node.mark, "bad-source", "a field needs a source");
      for (const YamlNode& item : node.items)
        if (auto ref = field_ref(item)) refs.push_back(std::move(*ref));
    } else if (auto ref = field_ref(node)) {
      refs.push_back(std::move(*ref));
    }
    return refs;
  }

  void load_inputs(const YamlNode& node);
  void load_global_params(const YamlNode& node);
  void load_role(const YamlNode& key, const YamlNode& node);
  void load_role_extras(RoleSpec& role, const YamlNode& node);
  void load_node(const YamlNode& key, const YamlNode& node);
  void load_groups(NodeSpec& spec, const YamlNode& node);
  void load_counts(NodeSpec& spec, const YamlNode& node);
  void load_outputs(const YamlNode& node);
  void load_limits(const YamlNode& node);

  WorkflowSpec& spec_;
};

void Loader::load_inputs(const YamlNode& node) {
  if (!expect(node, Kind::map, "inputs")) return;
  for (const auto& [key, value] : node.entries) {
    const auto input = name(key, "an input's name");
    if (!input || !expect(value, Kind::scalar, "an input's type")) continue;
    const auto type = value_type_from(value.scalar);
    if (!type || *type == ValueType::any) {
      const std::string near = nearest_name(
          value.scalar, {"json", "text", "image", "audio", "tensor", "number", "bytes"});
      error(value.mark, "unknown-type", "'" + value.scalar + "' is not a type",
            near.empty() ? "types are json, text, image, audio, tensor, number and bytes"
                         : "did you mean '" + near + "'?");
    }
    spec_.inputs.push_back({*input, type.value_or(ValueType::any)});
  }
}

void Loader::load_global_params(const YamlNode& node) {
  if (!expect(node, Kind::map, "global_params")) return;
  for (const auto& [key, value] : node.entries) {
    const auto param = name(key, "a global parameter's name");
    if (!param || !expect(value, Kind::map, "global parameter '" + key.scalar + "'")) continue;
    check_keys(value, global_param_part, "global parameter '" + key.scalar + "'");
    GlobalParamSpec spec;
    spec.name = *param;
    if (const YamlNode* kind = value.find("kind")) {
      spec.kind = name(*kind, "a kind").value_or(Name{});
    } else {
      error(key.mark, "missing-key", "global parameter '" + key.scalar + "' needs a 'kind'",
            "kind: paged_kv");
    }
    if (const YamlNode* model = value.find("model"); model && expect(*model, Kind::scalar, "model"))
      spec.model = Name{model->scalar, model->mark};
    if (const YamlNode* tokens = value.find("page_tokens"))
      spec.page_tokens = number(*tokens, "page_tokens", 1, 4096).value_or(spec.page_tokens);
    if (const YamlNode* pages = value.find("pages"))
      spec.pages = number(*pages, "pages", 1, 1 << 30).value_or(spec.pages);
    spec_.global_params.push_back(std::move(spec));
  }
}

void Loader::load_role_extras(RoleSpec& role, const YamlNode& node) {
  if (const YamlNode* list = node.find("global_params");
      list && expect(*list, Kind::list, "a role's global_params"))
    for (const YamlNode& item : list->items)
      if (auto param = name(item, "a global parameter's name"))
        role.global_params.push_back(std::move(*param));
  if (const YamlNode* options = node.find("options");
      options && expect(*options, Kind::map, "options"))
    for (const auto& [key, value] : options->entries)
      if (expect(value, Kind::scalar, "option '" + key.scalar + "'"))
        role.options.push_back({{key.scalar, key.mark}, {value.scalar, value.mark}});
}

void Loader::load_role(const YamlNode& key, const YamlNode& node) {
  const auto role_name = name(key, "a role's name");
  if (!role_name || !expect(node, Kind::map, "role '" + key.scalar + "'")) return;
  check_keys(node, role_part, "role '" + key.scalar + "'");
  RoleSpec role;
  role.name = *role_name;
  if (const YamlNode* plugin = node.find("plugin")) {
    role.plugin = name(*plugin, "a plugin's name").value_or(Name{});
  } else {
    error(key.mark, "missing-key", "role '" + key.scalar + "' needs a 'plugin'",
          "plugin: the name of what computes, see `sluice roles`");
  }
  if (const YamlNode* model = node.find("model"); model && expect(*model, Kind::scalar, "model"))
    role.model = Name{model->scalar, model->mark};
  if (const YamlNode* replicas = node.find("replicas"))
    role.replicas = static_cast<std::uint32_t>(number(*replicas, "replicas", 1, 256).value_or(1));
  if (const YamlNode* balance = node.find("balance"))
    choice<Balance>(*balance, "balance",
                    {{"round_robin", Balance::round_robin},
                     {"session", Balance::session},
                     {"broadcast", Balance::broadcast}},
                    role.balance);
  if (const YamlNode* colocate = node.find("colocate"))
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
  if (!expect(node, Kind::list, "inputs of node '" + spec.name.text + "'")) return;
  if (node.items.empty())
    error(node.mark, "no-inputs", "node '" + spec.name.text + "' has no input group");
  for (const YamlNode& item : node.items) {
    if (!expect(item, Kind::map, "an input group")) continue;
    GroupSpec group;
    group.mark = item.mark;
    if (item.entries.empty()) error(item.mark, "empty-group", "an input group needs a field");
    if (item.entries.size() > 60) {
      error(item.mark, "too-many-fields", "an input group has at most 60 fields");
      continue;
    }
    for (const auto& [key, value] : item.entries)
      if (auto field = name(key, "a field's name"))
        group.fields.push_back({std::move(*field), sources(value)});
    spec.groups.push_back(std::move(group));
  }
}

void Loader::load_counts(NodeSpec& spec, const YamlNode& node) {
  if (!expect(node, Kind::map, "count of node '" + spec.name.text + "'")) return;
  for (const auto& [key, value] : node.entries) {
    auto field = name(key, "a field's name");
    if (!field || !expect(value, Kind::scalar, "the count of '" + key.scalar + "'")) continue;
    CountSpec count;
    count.field = std::move(*field);
    count.mark = value.mark;
    if (value.scalar == "all") {
      count.frames = CountAll{};
    } else if (value.scalar.find('.') != std::string::npos) {
      auto ref = field_ref(value);
      if (!ref) continue;
      count.frames = std::move(*ref);
    } else if (const auto literal =
                   number(value, "the count of '" + key.scalar + "'", 0, 100'000)) {
      count.frames = *literal;
    } else {
      continue;
    }
    spec.counts.push_back(std::move(count));
  }
}

void Loader::load_node(const YamlNode& key, const YamlNode& node) {
  const auto node_name = name(key, "a node's name");
  if (!node_name) return;
  if (node_name->text == "inputs") {
    error(key.mark, "bad-name", "a node cannot be called 'inputs'",
          "inputs.field names what a call brings in; choose another name");
    return;
  }
  if (!expect(node, Kind::map, "node '" + key.scalar + "'")) return;
  check_keys(node, node_part, "node '" + key.scalar + "'");
  NodeSpec spec;
  spec.name = *node_name;
  if (const YamlNode* run = node.find("run"); run == nullptr) {
    error(key.mark, "missing-key", "node '" + key.scalar + "' needs a 'run'",
          "run: role.interface");
  } else if (expect(*run, Kind::scalar, "run")) {
    const std::size_t dot = run->scalar.find('.');
    if (dot == std::string::npos || !is_name(run->scalar.substr(0, dot)) ||
        !is_name(run->scalar.substr(dot + 1))) {
      error(run->mark, "bad-run", "'" + run->scalar + "' does not say what to run",
            "write role.interface");
    } else {
      spec.role = {run->scalar.substr(0, dot), run->mark};
      spec.interface = {run->scalar.substr(dot + 1), run->mark};
    }
  }
  if (const YamlNode* inputs = node.find("inputs")) {
    load_groups(spec, *inputs);
  } else {
    error(key.mark, "missing-key", "node '" + key.scalar + "' needs 'inputs'",
          "inputs: [ { field: node.field } ]");
  }
  if (const YamlNode* count = node.find("count")) load_counts(spec, *count);
  if (const YamlNode* on_error = node.find("on_error"))
    choice<OnError>(*on_error, "on_error", {{"fail", OnError::fail}, {"skip", OnError::skip}},
                    spec.on_error);
  if (const YamlNode* deadline = node.find("deadline"))
    spec.deadline = duration(*deadline, "deadline").value_or(spec.deadline);
  if (const YamlNode* age = node.find("max_age"))
    spec.max_age = duration(*age, "max_age").value_or(spec.max_age);
  if (const YamlNode* outputs = node.find("outputs");
      outputs && expect(*outputs, Kind::list, "a node's outputs"))
    for (const YamlNode& item : outputs->items)
      if (auto output = name(item, "an output field's name"))
        spec.outputs.push_back(std::move(*output));
  spec_.nodes.push_back(std::move(spec));
}

void Loader::load_outputs(const YamlNode& node) {
  if (!expect(node, Kind::map, "outputs")) return;
  for (const auto& [key, value] : node.entries)
    if (auto output = name(key, "an output's name"))
      spec_.outputs.push_back({std::move(*output), sources(value)});
}

void Loader::load_limits(const YamlNode& node) {
  if (!expect(node, Kind::map, "limits")) return;
  check_keys(node, limits_part, "limits");
  if (const YamlNode* deadline = node.find("deadline"))
    spec_.limits.deadline = duration(*deadline, "deadline").value_or(spec_.limits.deadline);
  if (const YamlNode* turns = node.find("loop_iterations"))
    spec_.limits.loop_iterations =
        number(*turns, "loop_iterations", 1, 65'535).value_or(spec_.limits.loop_iterations);
  if (const YamlNode* frames = node.find("frames"))
    spec_.limits.frames = number(*frames, "frames", 1, 1'000'000'000).value_or(spec_.limits.frames);
}

void Loader::load(const YamlNode& root) {
  if (root.kind != Kind::map) {
    error(root.mark.line == 0 ? Mark{1, 1, 1} : root.mark, "not-a-workflow",
          "a workflow is a map, this is " + std::string(kind_name(root.kind)),
          "begin with `sluice: 1`");
    return;
  }
  check_keys(root, workflow_part, "a workflow");
  if (const YamlNode* version = root.find("sluice"); version == nullptr)
    error({1, 1, 1}, "missing-key", "the file does not say that it is a workflow",
          "begin with `sluice: 1`");
  else if (version->scalar != "1")
    error(version->mark, "unknown-version", "version '" + version->scalar + "' is not known",
          "write `sluice: 1`");
  if (const YamlNode* workflow = root.find("workflow"))
    spec_.name = name(*workflow, "a workflow's name").value_or(Name{});
  else
    error({1, 1, 1}, "missing-key", "the workflow has no name", "workflow: a_name");
  if (const YamlNode* list = root.find("include"); list && expect(*list, Kind::list, "include"))
    for (const YamlNode& item : list->items)
      if (expect(item, Kind::scalar, "an included file"))
        spec_.includes.push_back({item.scalar, item.mark});
  if (const YamlNode* node = root.find("inputs")) load_inputs(*node);
  if (const YamlNode* node = root.find("global_params")) load_global_params(*node);
  if (const YamlNode* node = root.find("roles"); node && expect(*node, Kind::map, "roles"))
    for (const auto& [key, value] : node->entries) load_role(key, value);
  if (const YamlNode* node = root.find("nodes"); node && expect(*node, Kind::map, "nodes"))
    for (const auto& [key, value] : node->entries) load_node(key, value);
  if (const YamlNode* node = root.find("outputs")) load_outputs(*node);
  if (const YamlNode* node = root.find("limits")) load_limits(*node);
  if (const YamlNode* calls = root.find("calls"))
    choice<CallMode>(*calls, "calls",
                     {{"serial", CallMode::serial}, {"overlap", CallMode::overlap}}, spec_.calls);
  if (const YamlNode* on_error = root.find("on_error"))
    choice<bool>(*on_error, "on_error of a workflow", {{"finish", false}, {"cancel", true}},
                 spec_.cancel_on_error);
  constexpr std::size_t nodes_max = 2'000;
  if (spec_.nodes.size() > nodes_max)
    error(spec_.nodes[nodes_max].name.mark, "too-many-nodes",
          "a workflow has at most " + std::to_string(nodes_max) + " nodes");
}

}  // namespace

std::span<const KeyTable> workflow_keys() { return tables; }

LoadedWorkflow load_workflow(std::string file_name, std::string_view text) {
  LoadedWorkflow loaded;
  loaded.spec.file = std::move(file_name);
  loaded.text = text;
  const YamlNode root = read_yaml(text, loaded.diagnostics);
  // A file that is not YAML says nothing about workflows.
  if (is_readable(loaded.diagnostics)) Loader(loaded.spec, loaded.diagnostics).load(root);
  return loaded;
}

namespace {

constexpr std::size_t include_depth_max = 8;

template <typename T>
void import(const std::vector<T>& from, const std::string& file, Mark mark, const char* what,
            std::vector<T>& to, Diagnostics& diagnostics) {
  for (T item : from) {
    const auto same = std::ranges::find(to, item.name.text, [](const T& t) { return t.name.text; });
    if (item.included_from.empty()) item.included_from = file;
    if (same != to.end() && same->included_from == item.included_from) continue;
    if (same != to.end()) {
      diagnostics.push_back(
          {Severity::error, mark, "included-twice",
           std::string(what) + " '" + item.name.text + "' of " + file + " is there already",
           "rename one of them, or remove it here"});
      continue;
    }
    // What is wrong with it is shown where this file names the other.
    item.name.mark = mark;
    to.push_back(std::move(item));
  }
}

/// Makes the roles and global params of the included files known in `loaded`.
void include_files(LoadedWorkflow& loaded, const std::filesystem::path& path,
                   std::vector<std::filesystem::path>& open) {
  std::error_code failed;
  open.push_back(std::filesystem::weakly_canonical(path, failed));
  for (const Name& include : loaded.spec.includes) {
    const auto refuse = [&](const std::string& message, const std::string& suggestion) {
      loaded.diagnostics.push_back(
          {Severity::error, include.mark, "bad-include", message, suggestion});
    };
    const std::filesystem::path file = path.parent_path() / include.text;
    const auto canonical = std::filesystem::weakly_canonical(file, failed);
    if (std::ranges::find(open, canonical) != open.end() || open.size() > include_depth_max) {
      refuse("'" + include.text + "' includes this file again, or includes go deeper than " +
                 std::to_string(include_depth_max),
             "move what both need into a third file");
      continue;
    }
    Result<std::string> text = read_text_file(file.string());
    if (!text.ok()) {
      refuse(text.error().message, "write a path relative to this file");
      continue;
    }
    LoadedWorkflow other = load_workflow(file.string(), *text);
    include_files(other, file, open);
    for (const Diagnostic& d : other.diagnostics)
      if (d.severity == Severity::error)
        refuse(file.string() + ":" + std::to_string(d.mark.line) + ":" +
                   std::to_string(d.mark.column) + ": " + d.message,
               d.suggestion);
    WorkflowSpec& spec = loaded.spec;
    import(other.spec.roles, file.string(), include.mark, "the role", spec.roles,
           loaded.diagnostics);
    import(other.spec.global_params, file.string(), include.mark, "the global parameter",
           spec.global_params, loaded.diagnostics);
  }
  open.pop_back();
}

}  // namespace

Result<LoadedWorkflow> load_workflow_file(const std::string& path) {
  Result<std::string> text = read_text_file(path);
  if (!text.ok()) return text.error();
  LoadedWorkflow loaded = load_workflow(path, *text);
  std::vector<std::filesystem::path> open;
  include_files(loaded, path, open);
  return loaded;
}

}  // namespace sluice
