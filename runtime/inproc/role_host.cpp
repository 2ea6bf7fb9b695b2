#include "runtime/inproc/role_host.h"

#include <algorithm>
#include <filesystem>

namespace sluice {

std::string RoleHost::identity(const std::string& name, const std::string& included_from) const {
  if (included_from.empty()) return std::to_string(workflows_) + "/" + name;
  std::error_code ignored;
  return std::filesystem::weakly_canonical(included_from, ignored).string() + "/" + name;
}

Result<void> RoleHost::add_global_param(const GlobalParamSpec& param) {
  auto& kept = global_params_[identity(param.name.text, param.included_from)];
  if (kept != nullptr) return {};
  if (options_.progress) options_.progress("preparing " + param.name.text);
  auto made = catalog_.make_global_param({&param, path_of(param.model)});
  if (!made.ok())
    return Error{made.error().code,
                 "global parameter '" + param.name.text + "': " + made.error().message};
  kept = std::move(made).value();
  return {};
}

Lane& RoleHost::lane_for(const WorkflowSpec& spec, const RoleSpec& role, std::uint32_t replica) {
  const RoleSpec* at = &role;
  for (std::size_t hops = 0; at->colocate.has_value() && hops < spec.roles.size(); ++hops) {
    const auto it = std::ranges::find_if(
        spec.roles, [&](const RoleSpec& r) { return r.name.text == at->colocate->text; });
    if (it == spec.roles.end()) break;
    at = &*it;
  }
  Lane*& lane = lane_of_[{identity(at->name.text, at->included_from), replica % at->replicas}];
  if (lane == nullptr) {
    lanes_.push_back(std::make_unique<Lane>());
    lane = lanes_.back().get();
  }
  return *lane;
}

Result<RoleMaking> RoleHost::making_of(const WorkflowSpec& spec, const RoleSpec& role) const {
  RoleMaking making;
  making.model_directory = path_of(role.model);
  making.threads = options_.threads;
  for (const Name& name : role.global_params) {
    const auto param = std::ranges::find_if(
        spec.global_params, [&](const GlobalParamSpec& p) { return p.name.text == name.text; });
    if (param == spec.global_params.end())
      return Error{ErrorCode::not_found,
                   "role '" + role.name.text + "': no global parameter '" + name.text + "'"};
    making.global_params.push_back(
        global_params_.at(identity(param->name.text, param->included_from)).get());
  }
  return making;
}

Result<std::vector<RolePlace>> RoleHost::add_role(const WorkflowSpec& spec, const RoleSpec& role) {
  const std::string id = identity(role.name.text, role.included_from);
  if (const auto kept = places_.find(id); kept != places_.end()) return kept->second;
  const Plugin* plugin = catalog_.find(role.plugin.text);
  if (plugin == nullptr)
    return Error{ErrorCode::not_found,
                 "role '" + role.name.text + "': no plugin '" + role.plugin.text + "'"};
  Result<RoleMaking> making = making_of(spec, role);
  if (!making.ok()) return making.error();
  specs_.push_back(std::make_unique<RoleSpec>(role));
  making->role = specs_.back().get();
  std::vector<RolePlace> places;
  for (making->replica = 0; making->replica < role.replicas; ++making->replica) {
    if (options_.progress) options_.progress("preparing " + role.name.text);
    Result<RoleInstance> made = plugin->make(*making);
    if (!made.ok())
      return Error{made.error().code, "role '" + role.name.text + "': " + made.error().message};
    Lane& lane = lane_for(spec, role, making->replica);
    places.push_back({&lane, lane.add(std::move(made).value())});
  }
  return places_[id] = std::move(places);
}

Result<std::vector<std::vector<RolePlace>>> RoleHost::add(const WorkflowSpec& spec) {
  ++workflows_;
  for (const GlobalParamSpec& param : spec.global_params)
    if (Result<void> made = add_global_param(param); !made.ok()) return made.error();
  std::vector<std::vector<RolePlace>> places;
  for (const RoleSpec& role : spec.roles) {
    Result<std::vector<RolePlace>> made = add_role(spec, role);
    if (!made.ok()) return made.error();
    places.push_back(std::move(made).value());
  }
  return places;
}

void RoleHost::run() {
  for (auto& lane : lanes_) lane->run();
}

void RoleHost::call_begins(const std::string& session) {
  const std::lock_guard held(sessions_mutex_);
  ++under_way_[session];
}

void RoleHost::call_ended(const std::string& session) {
  const std::lock_guard held(sessions_mutex_);
  const auto it = under_way_.find(session);
  if (--it->second == 0) under_way_.erase(it);
}

Result<void> RoleHost::end_session(const std::string& session) {
  const std::lock_guard held(sessions_mutex_);
  if (const auto it = under_way_.find(session); it != under_way_.end())
    return Error{ErrorCode::unavailable, "session '" + session + "' has " +
                                             std::to_string(it->second) +
                                             " calls under way; end it when they have ended"};
  for (auto& [name, param] : global_params_) param->end_session(session);
  return {};
}

}  // namespace sluice
