#include "roles/check_wiring.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/family/architecture.h"
#include "roles/check_model.h"
#include "roles/contents.h"
#include "roles/policy_role.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

/// A node whose role computes with a model that it can play.
struct Runs {
  const NodeSpec* node = nullptr;
  const RoleSpec* role = nullptr;
  const InterfaceDeclaration* interface = nullptr;

  const std::string& model() const { return role->model->text; }
};

/// Of latents, or of rows: what tells those of two models apart. Empty: nothing is known.
std::string shape_of(std::string_view content, const Architecture& model) {
  if (content == contents::picture_rows || content == contents::text_rows) {
    const std::size_t width = model.text.has_value()     ? model.text->block.width
                              : model.vision.has_value() ? model.vision->block.width
                                                         : 0;
    return width == 0 ? "" : "rows of " + std::to_string(width) + " values";
  }
  if (content != contents::latents) return "";
  if (model.vae.has_value())
    return "latents of " + std::to_string(model.vae->latent_channels) + " channels";
  if (model.diffusion.has_value())
    return "latents of " + std::to_string(model.diffusion->channels) + " channels";
  if (model.flow.has_value())
    return "latents of " + std::to_string(model.flow->tokens) + " x " +
           std::to_string(model.flow->token_values) + " values";
  return "";
}

bool is_camera(const std::string& field) {
  return std::ranges::find(camera_ports, field) != std::end(camera_ports);
}

class Wiring {
 public:
  Wiring(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics)
      : spec_(spec), catalog_(catalog), diagnostics_(diagnostics) {}

  void check() {
    for (const NodeSpec& node : spec_.nodes) {
      const std::optional<Runs>& runs = runs_of(node.name.text);
      if (!runs) continue;
      std::set<std::string> said;
      for (const GroupSpec& group : node.groups) {
        check_cameras(*runs, group);
        for (const FieldSpec& field : group.fields)
          check_field(*runs, field, said.insert(field.field.text).second);
      }
    }
  }

 private:
  void error(Mark mark, std::string code, std::string message, std::string hint = "",
             Severity severity = Severity::error) {
    report(diagnostics_, {severity, mark, std::move(code), std::move(message), std::move(hint)});
  }

  /// Once for each node: configurations are read for it.
  const std::optional<Runs>& runs_of(const std::string& name) {
    const auto [it, fresh] = runs_.try_emplace(name);
    if (fresh) it->second = look_up(name);
    return it->second;
  }

  std::optional<Runs> look_up(const std::string& name) const {
    const auto node = std::ranges::find(
        spec_.nodes, name, [](const NodeSpec& n) -> const auto& { return n.name.text; });
    if (node == spec_.nodes.end()) return {};
    const auto role = std::ranges::find(
        spec_.roles, node->role.text, [](const RoleSpec& r) -> const auto& { return r.name.text; });
    if (role == spec_.roles.end() || !role->model.has_value()) return {};
    const Plugin* plugin = catalog_.find(role->plugin.text);
    if (plugin == nullptr || !plugin->check_model || !plugin->check_model(role->model->text).ok())
      return {};
    const std::string& run = node->interface.text;
    const InterfaceDeclaration* interface = find_interface(plugin->declaration, run);
    if (interface == nullptr ||
        (plugin->check_interface && !plugin->check_interface(role->model->text, run).ok()))
      return {};
    return Runs{&*node, &*role, interface};
  }

  /// Whether the role reads the field; if not, that is told.
  bool check_read(const Runs& to, const FieldSpec& field) {
    const std::string& name = field.field.text;
    const Result<void> read =
        check_input(to.model(), to.role->plugin.text, to.interface->name, name);
    if (!read.ok()) {
      error(field.field.mark, "unread-input", read.error().message);
      return false;
    }
    if (const Result<void> sees = check_sees(to.model(), to.role->plugin.text, name); !sees.ok()) {
      error(field.field.mark, "unread-input", sees.error().message,
            "a call with one is refused; take the input out, or take a model that sees",
            Severity::warning);
      return false;
    }
    if (name == "state" && asks_subtask(*to.role)) {
      error(field.field.mark, "unread-input",
            "the prompt of a sub-task holds no `state`, and role '" + to.role->name.text +
                "' has the option `prompt: subtask`",
            "leave the input out, or the option");
      return false;
    }
    return true;
  }

  /// `first`: of the node's groups that have the field.
  void check_field(const Runs& to, const FieldSpec& field, bool first) {
    const std::string& name = field.field.text;
    const Port* port = find_port(to.interface->inputs, name);
    if (port == nullptr) return;  // that is said elsewhere
    if (first && !check_read(to, field)) return;
    for (const FieldRef& source : field.sources) check_source(to, *port, source);
  }

  static bool asks_subtask(const RoleSpec& role) {
    return std::ranges::any_of(role.options, [](const OptionSpec& option) {
      return option.key.text == "prompt" && option.value.text == "subtask";
    });
  }

  void check_cameras(const Runs& to, const GroupSpec& group) {
    const Result<ModelKind> kind = kind_of_model(to.model());
    if (to.role->plugin.text != "robot_policy" || !kind.ok() || *kind != ModelKind::chat) return;
    const FieldSpec* first = nullptr;
    for (const FieldSpec& field : group.fields) {
      if (!is_camera(field.field.text)) continue;
      if (first != nullptr)
        return error(field.field.mark, "unread-input",
                     "a policy whose actions are words (" + to.model() +
                         ") sees one camera, and this group has `" + first->field.text + "` and `" +
                         field.field.text + "`",
                     "take one of them out");
      first = &field;
    }
  }

  void check_source(const Runs& to, const Port& port, const FieldRef& source) {
    const std::optional<Runs>& from = runs_of(source.node);
    const Port* out = from ? find_port(from->interface->outputs, source.field) : nullptr;
    if (out == nullptr || port.content.empty() || out->content != port.content) return;
    if (port.content == contents::prefix || port.content == contents::drawing_start) {
      check_pools(*from, to, source);
      return check_overlap(*from, to, source);
    }
    std::error_code failed;
    if (fs::equivalent(from->model(), to.model(), failed)) return;
    const Result<Architecture> makes = Architecture::load(from->model());
    const Result<Architecture> reads = Architecture::load(to.model());
    if (!makes.ok() || !reads.ok()) return;
    const std::string made = shape_of(port.content, *makes);
    const std::string read = shape_of(port.content, *reads);
    if (made.empty() || read.empty() || made == read) return;
    error(source.mark, "other-model",
          "node '" + source.node + "' makes " + made + " (" + from->model() + "), and node '" +
              to.node->name.text + "' reads " + read + " (" + to.model() + ")",
          "give both roles the same `model:`");
  }

  /// What stands in a session's pages is its last call's.
  void check_overlap(const Runs& from, const Runs& to, const FieldRef& source) {
    if (spec_.calls != CallMode::overlap) return;
    error(source.mark, "overlapping-calls",
          "with `calls: overlap` a session's next call may take away what node '" +
              from.node->name.text + "' has read before node '" + to.node->name.text +
              "' goes on with it, which then fails",
          "`calls: serial`, or a session of its own for each call", Severity::warning);
  }

  /// The pages that a role lists; null: none.
  const Name* pool_of(const RoleSpec& role) const {
    for (const Name& name : role.global_params)
      for (const GlobalParamSpec& param : spec_.global_params)
        if (param.name.text == name.text && param.kind.text == "paged_kv") return &name;
    return nullptr;
  }

  void check_pools(const Runs& from, const Runs& to, const FieldRef& source) {
    const Name* const left = pool_of(*from.role);
    const Name* const looked = pool_of(*to.role);
    if (left == nullptr || looked == nullptr || left->text == looked->text) return;
    error(source.mark, "other-pool",
          "what node '" + source.node + "' has read stands in '" + left->text + "', and node '" +
              to.node->name.text + "' goes on in '" + looked->text + "'",
          "list the same paged_kv in the global_params of the roles '" + from.role->name.text +
              "' and '" + to.role->name.text + "'");
  }

  const WorkflowSpec& spec_;
  const Catalog& catalog_;
  Diagnostics& diagnostics_;
  std::map<std::string, std::optional<Runs>, std::less<>> runs_;  // by node
};

}  // namespace

void check_wiring(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics) {
  Wiring(spec, catalog, diagnostics).check();
}

}  // namespace sluice
