#include "roles/check_models.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include "engine/family/architecture.h"
#include "engine/storage/store_folder.h"
#include "roles/check_model.h"
#include "roles/check_wiring.h"
#include "roles/engine_options.h"
#include "roles/kv_pages.h"

namespace sluice {

namespace {

namespace fs = std::filesystem;

class Models {
 public:
  Models(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics)
      : spec_(spec), catalog_(catalog), diagnostics_(diagnostics) {}

  void check() {
    for (const RoleSpec& role : spec_.roles)
      if (const Plugin* plugin = catalog_.find(role.plugin.text)) check_role(role, *plugin);
    for (const GlobalParamSpec& param : spec_.global_params) {
      const bool plays = can_play(param.model, catalog_.model_check_of_kind(param.kind.text));
      if (plays && param.device == EngineDevice::cuda) check_device(param);
      if (plays && param.ssd.has_value()) check_folder(param);
      check_same_use(param);
    }
  }

 private:
  void error(Mark mark, std::string code, std::string message, std::string hint = "") {
    report(diagnostics_,
           {Severity::error, mark, std::move(code), std::move(message), std::move(hint)});
  }

  /// Another file in its place was reported where the path was looked for.
  static bool is_there(const std::optional<Name>& model) {
    std::error_code failed;
    return model.has_value() && (fs::is_directory(model->text, failed) ||
                                 (fs::path(model->text).extension() == ".gguf" &&
                                  fs::is_regular_file(model->text, failed)));
  }

  /// False: it cannot, or nobody can know.
  bool can_play(const std::optional<Name>& model, const ModelCheck& check) {
    if (!is_there(model) || !check) return is_there(model);
    const Result<void> fits = check(model->text);
    // What is wrong with the checkpoint itself is wrong for all that name it: it is said once.
    if (!fits.ok() && said_.insert(fits.error().message).second)
      error(model->mark, "wrong-model", fits.error().message);
    return fits.ok();
  }

  void check_role(const RoleSpec& role, const Plugin& plugin) {
    if (!plugin.declaration.needs_model) return;
    const bool plays = can_play(role.model, plugin.check_model);
    if (plays && plugin.check_interface) {
      for (const NodeSpec& node : spec_.nodes) check_node(node, role, plugin);
      for (const OptionSpec& option : role.options) check_option_of(role, option, plugin);
      if (std::ranges::find(plugin.declaration.options, statistics, &OptionDeclaration::name) !=
          plugin.declaration.options.end())
        check_statistics_of(role);
    }
    check_params(role, plugin, plays);
  }

  void check_option_of(const RoleSpec& role, const OptionSpec& option, const Plugin& plugin) {
    Result<void> read = check_option(role.model->text, role.plugin.text, option.key.text);
    // One that keeps sessions cannot do without the pages.
    if (read.ok() && role.global_params.empty() && !plugin.declaration.session_state)
      read = check_option_alone(role, option.key.text);
    if (!read.ok()) error(option.key.mark, "idle-option", read.error().message);
  }

  void check_statistics_of(const RoleSpec& role) {
    const auto said = std::ranges::find_if(
        role.options, [](const OptionSpec& option) { return option.key.text == statistics; });
    const bool is_said = said != role.options.end();
    const Result<void> found =
        check_statistics(role.model->text, is_said ? said->value.text : std::string());
    if (!found.ok())
      error(is_said ? said->value.mark : role.model->mark, "missing-statistics",
            found.error().message);
  }

  /// With the type of its keys and values, which on a GPU is that of the weights.
  GlobalParamSpec as_kept(GlobalParamSpec param) const {
    if (param.device != EngineDevice::cuda) return param;
    param.kv_dtype = Dtype::bf16;
    for (const RoleSpec& role : spec_.roles)
      if (std::ranges::find(role.global_params, param.name.text, &Name::text) !=
          role.global_params.end())
        for (const OptionSpec& option : role.options)
          if (option.key.text == "precision" && option.value.text == "exact")
            param.kv_dtype = Dtype::f32;
    return param;
  }

  void check_device(const GlobalParamSpec& param) {
    if (const Result<void> runs = check_cuda(param.model->text); !runs.ok())
      error(param.device_mark, "wrong-device", runs.error().message);
    for (const RoleSpec& role : spec_.roles) {
      if (std::ranges::find(role.global_params, param.name.text, &Name::text) ==
          role.global_params.end())
        continue;
      for (const OptionSpec& option : role.options)
        if (option.key.text == "precision" && option.value.text == "int8")
          error(option.value.mark, "wrong-device",
                "role '" + role.name.text + "' computes on '" + param.name.text +
                    "' on a GPU (device: cuda), which runs the precisions exact and bf16",
                "precision: bf16");
    }
    const Result<Architecture> model = Architecture::load(param.model->text);
    if (param.host_bytes.has_value() && model.ok() && model->text.has_value())
      if (const Result<void> fits = check_host_bytes(*model->text, as_kept(param)); !fits.ok())
        error(param.host_bytes_mark, "small-host", fits.error().message, "a greater host_bytes");
  }

  /// Whether the folder can keep this model's pages, and is no other global parameter's. Whether it
  /// can be made is not looked at: it may be another machine's (`check_page_folders`).
  void check_folder(const GlobalParamSpec& param) {
    const Result<ModelKind> kind = kind_of_model(param.model->text);
    if (kind.ok() && *kind != ModelKind::chat && *kind != ModelKind::drawing)
      return error(param.ssd->mark, "idle-ssd",
                   "'" + param.name.text +
                       "' has ssd, where only a model that answers with words keeps pages",
                   "leave ssd out");
    const Result<Architecture> model = Architecture::load(param.model->text);
    if (model.ok() && model->text.has_value())
      if (const Result<void> fits = check_page_folder(*model->text, as_kept(param)); !fits.ok())
        error(param.ssd_bytes_mark.value_or(param.ssd->mark), "small-folder", fits.error().message,
              "a greater ssd_bytes");
    std::error_code failed;
    const auto place = [&](const GlobalParamSpec& one) {
      return fs::weakly_canonical(fs::absolute(one.ssd->text, failed), failed) / "";
    };
    for (const GlobalParamSpec& other : spec_.global_params) {
      if (&other == &param) return;
      if (!other.ssd.has_value() || place(other) != place(param)) continue;
      return error(param.ssd->mark, "same-folder",
                   "'" + other.name.text + "' and '" + param.name.text +
                       "' keep pages in one folder, " + param.ssd->text +
                       "; a folder is of one of them",
                   "another folder for '" + param.name.text + "'");
    }
  }

  /// Roles over the same keys share an engine, and so its precision and the rows of its forwards.
  void check_same_use(const GlobalParamSpec& param) {
    const RoleSpec* first = nullptr;
    EngineOptions agreed;
    for (const RoleSpec& role : spec_.roles) {
      const Plugin* plugin = catalog_.find(role.plugin.text);
      const auto listed = std::ranges::find(role.global_params, param.name.text, &Name::text);
      if (plugin == nullptr || !plugin->declaration.needs_model || !is_there(role.model) ||
          listed == role.global_params.end())
        continue;
      const Result<EngineOptions> said =
          read_engine_options(role, role.model->text, plugin->declaration.options);
      if (!said.ok()) continue;  // that is said elsewhere
      if (first == nullptr) {
        first = &role;
        agreed = *said;
      }
      const bool same_precision = said->format_on(param.device) == agreed.format_on(param.device);
      if (same_precision && said->planner.budget == agreed.planner.budget) continue;
      error(listed->mark, "other-use",
            "roles '" + first->name.text + "' and '" + role.name.text + "' compute on '" +
                param.name.text + "' with different " +
                (same_precision ? "step_tokens" : "precision"),
            "write the same option at both");
    }
  }

  void check_node(const NodeSpec& node, const RoleSpec& role, const Plugin& plugin) {
    if (node.role.text != role.name.text ||
        find_interface(plugin.declaration, node.interface.text) == nullptr)
      return;
    const Result<void> fits = plugin.check_interface(role.model->text, node.interface.text);
    if (!fits.ok()) return error(node.interface.mark, "wrong-interface", fits.error().message);
  }

  /// A role that needs a model computes on the keys of that model, which are in one place.
  void check_params(const RoleSpec& role, const Plugin& plugin, bool plays) {
    for (const std::string& kind : plugin.declaration.global_param_kinds) {
      const GlobalParamSpec* first = nullptr;
      for (const Name& name : role.global_params) {
        const auto param = std::ranges::find_if(
            spec_.global_params, [&](const auto& one) { return one.name.text == name.text; });
        if (param == spec_.global_params.end() || param->kind.text != kind) continue;
        if (first != nullptr) {
          error(name.mark, "second-global-param",
                "role '" + role.name.text + "' lists '" + first->name.text + "' and '" + name.text +
                    "', both of kind " + kind + "; it computes on one",
                "take one of them out of global_params");
          continue;
        }
        first = &*param;
        check_param(role, name, *param, plays);
      }
    }
  }

  void check_param(const RoleSpec& role, const Name& name, const GlobalParamSpec& param,
                   bool plays) {
    if (!param.model.has_value())
      return error(name.mark, "missing-model",
                   "role '" + role.name.text + "' computes on '" + param.name.text +
                       "', which says no model",
                   "write `model:` at the global parameter '" + param.name.text +
                       "', the same as the role's");
    std::error_code failed;
    if (!is_there(role.model) || !is_there(param.model) ||
        fs::equivalent(role.model->text, param.model->text, failed) || failed)
      return;
    // Where one of the two is wrong by itself, that it differs follows from it.
    const ModelCheck& check = catalog_.model_check_of_kind(param.kind.text);
    if (!plays || (check && !check(param.model->text).ok())) return;
    error(name.mark, "other-model",
          "the model of role '" + role.name.text + "' is " + role.model->text + ", that of its '" +
              param.name.text + "' is " + param.model->text,
          "write the same `model:` at both");
  }

  static constexpr std::string_view statistics = "statistics";

  const WorkflowSpec& spec_;
  std::set<std::string> said_;  // of checkpoints
  const Catalog& catalog_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_models(const WorkflowSpec& spec, const Catalog& catalog, Diagnostics& diagnostics) {
  Models(spec, catalog, diagnostics).check();
  check_wiring(spec, catalog, diagnostics);
}

void check_page_folders(const WorkflowSpec& spec, Diagnostics& diagnostics) {
  for (const GlobalParamSpec& param : spec.global_params) {
    if (!param.ssd.has_value()) continue;
    const Mark& mark = param.ssd->mark;
    if (std::ranges::any_of(diagnostics, [&](const Diagnostic& d) {
          return d.mark.line == mark.line && d.mark.column == mark.column;
        }))
      continue;
    if (const Result<void> can = StoreFolder::check(param.ssd->text); !can.ok())
      report(diagnostics,
             {Severity::error, mark, "wrong-folder", can.error().message,
              "a folder of your own, or one that can be made in a folder that is there"});
  }
}

Result<void> check_pages_travel(const GlobalParamSpec& param) {
  const Result<Architecture> model = Architecture::load(param.model->text);
  if (!model.ok() || !model->text.has_value()) return {};
  return check_pages_travel(*model->text, param);
}

}  // namespace sluice
