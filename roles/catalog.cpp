#include "roles/catalog.h"

#include <algorithm>
#include <utility>

#include "graph/plan.h"

namespace sluice {

void Catalog::add(Plugin plugin) {
  SLUICE_CHECK(find(plugin.declaration.name) == nullptr, "a plugin of this name is there already");
  plugins_.push_back(std::move(plugin));
}

void Catalog::add_global_param(
    std::string kind,
    std::function<Result<std::unique_ptr<GlobalParam>>(const GlobalParamMaking&)> make,
    ModelCheck check_model, ModelCheck check_shared) {
  shared_checks_.emplace(kind, std::move(check_shared));
  model_checks_.emplace(kind, std::move(check_model));
  global_params_.emplace(std::move(kind), std::move(make));
}

void Catalog::add_sharing(std::string kind, ParamSharing sharing) {
  sharing_.emplace(std::move(kind), std::move(sharing));
}

const Plugin* Catalog::find(std::string_view name) const {
  const auto it =
      std::ranges::find_if(plugins_, [&](const Plugin& p) { return p.declaration.name == name; });
  return it == plugins_.end() ? nullptr : &*it;
}

const InterfaceDeclaration* Catalog::interface_of(const WorkflowSpec& spec,
                                                  const PlanNode& node) const {
  const Plugin* plugin = find(spec.roles[node.role].plugin.text);
  return plugin == nullptr ? nullptr : find_interface(plugin->declaration, node.interface);
}

ModelCheck Catalog::model_check_of_kind(std::string_view kind) const {
  const auto it = model_checks_.find(kind);
  return it == model_checks_.end() ? ModelCheck() : it->second;
}

ModelCheck Catalog::shared_check_of_kind(std::string_view kind) const {
  const auto it = shared_checks_.find(kind);
  return it == shared_checks_.end() ? ModelCheck() : it->second;
}

const ParamSharing* Catalog::sharing_of_kind(std::string_view kind) const {
  const auto it = sharing_.find(kind);
  return it == sharing_.end() ? nullptr : &it->second;
}

std::string Catalog::why_in_one_process(const GlobalParamSpec& param) const {
  if (param.device == EngineDevice::cuda) return "its pages are on a GPU (`device: cuda`)";
  if (param.ssd) return "its pages are kept in one folder (`ssd`)";
  if (param.tenant_pages > 0) return "one process counts what tenants have (`tenant_pages`)";
  const ParamSharing* const sharing = sharing_of_kind(param.kind.text);
  if (sharing == nullptr || !param.model)
    return "a " + param.kind.text + (param.model ? "" : " without a model") + " is of one process";
  const Result<void> can = sharing->check_model(param.model->text);
  return can.ok() ? "" : can.error().message;
}

Declarations Catalog::declarations() const {
  Declarations all;
  for (const Plugin& plugin : plugins_) all.push_back(plugin.declaration);
  return all;
}

Result<std::unique_ptr<GlobalParam>> Catalog::make_global_param(
    const GlobalParamMaking& making) const {
  const auto it = global_params_.find(making.spec->kind.text);
  if (it == global_params_.end())
    return Error{ErrorCode::not_found, "no global parameter of kind '" + making.spec->kind.text +
                                           "' is known (" + making.spec->name.text + ")"};
  return it->second(making);
}

}  // namespace sluice
