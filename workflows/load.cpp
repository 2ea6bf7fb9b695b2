#include "workflows/load.h"

#include <algorithm>
#include <array>
#include <utility>

#include "graph/check.h"
#include "graph/print.h"
#include "workflows/load_global_param.h"
#include "workflows/load_node.h"
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
constexpr std::array<std::string_view, 5> limits_part{"deadline", "loop_iterations", "frames",
                                                      "calls", "session_idle"};
constexpr std::array<KnownKeys, 5> tables{{{"workflow", workflow_part},
                                           {"global_param", GlobalParamReader::keys},
                                           {"role", role_part},
                                           {"node", NodeReader::keys},
                                           {"limits", limits_part}}};

/// Stands for what was refused, so that nothing is said to lack it.
const Name refused_name{};

class Loader : public NodeReader {
 public:
  Loader(WorkflowSpec& spec, Diagnostics& diagnostics)
      : NodeReader(spec, diagnostics), params_(diagnostics) {}

  /// False: it is no workflow, or too large to be one.
  bool load(const YamlNode& root);

 private:
  void load_sections(const YamlNode& root);
  void find_misplaced(const YamlNode& root);
  void load_version(const YamlNode& root);
  void load_call_mode(const YamlNode& node);
  void load_includes(const YamlNode& node);
  void load_inputs(const YamlNode& node);
  void load_global_params(const YamlNode& node);
  void load_role(const YamlNode& key, const YamlNode& node);
  void load_role_extras(RoleSpec& role, const YamlNode& node);
  void load_outputs(const YamlNode& node);
  void load_limits(const YamlNode& node);

  GlobalParamReader params_;
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
    for (const YamlNode& item : list->items) {
      auto param = name(item, "a global parameter's name");
      if (!param) continue;
      const auto same = std::ranges::find(role.global_params, param->text, &Name::text);
      if (same == role.global_params.end() || !is_name(param->text))
        role.global_params.push_back(std::move(*param));
      else
        error(item.mark, "duplicate-global-param",
              "the global parameter " + in_quotes(param->text) + " stands twice",
              "remove one of them");
    }
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
  std::optional<std::int64_t> count = 1;
  if (const YamlNode* replicas = find(node, "replicas"))
    count = number(*replicas, "replicas", 1, 256);
  role.replicas = static_cast<std::uint32_t>(count.value_or(1));
  if (const YamlNode* balance = find(node, "balance")) {
    if (!choice<Balance>(*balance, "balance",
                         {{"round_robin", Balance::round_robin},
                          {"session", Balance::session},
                          {"cache", Balance::session},
                          {"broadcast", Balance::broadcast}},
                         role.balance))
      role.balance = Balance::session;  // which of them it is, nothing depends on
    // Of replicas whose number is wrong it is not known that there is one alone.
    if (!count && role.balance == Balance::broadcast) role.balance = Balance::session;
    role.by_cache = balance->kind == Kind::scalar && balance->scalar == "cache";
  }
  if (const YamlNode* idempotent = find(node, "idempotent")) {
    choice<bool>(*idempotent, "idempotent", {{"true", true}, {"false", false}}, role.idempotent);
    role.idempotent_mark = idempotent->mark;
  }
  if (const YamlNode* colocate = find(node, "colocate"))
    role.colocate = name(*colocate, "a role's name");
  load_role_extras(role, node);
  spec_.roles.push_back(std::move(role));
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
  if (const YamlNode* idle = find(node, "session_idle"))
    spec_.limits.session_idle = duration(*idle, "session_idle").value_or(spec_.limits.session_idle);
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
    note_misplaced(*one.value);
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
  const bool gathers = has("include") && !has("workflow");  // what others have, for others
  spec_.is_library = (has("roles") || has("global_params") || gathers) && !has("nodes") &&
                     !has("inputs") && !has("outputs");
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
  return !is_too_large();
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
