#include "runtime/inproc/role_host.h"

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/count_text.h"
#include "base/worker_pool.h"

namespace sluice {

std::string identity_of(std::size_t workflow, const std::string& name,
                        const std::string& included_from) {
  if (included_from.empty()) return std::to_string(workflow) + "/" + name;
  std::error_code ignored;
  return std::filesystem::weakly_canonical(included_from, ignored).string() + "/" + name;
}

void RoleHost::expect(const WorkflowSpec& spec, const std::vector<bool>& here,
                      const std::vector<bool>& elsewhere) {
  ++expected_;
  for (const GlobalParamSpec& param : spec.global_params) {
    const std::string id = identity_of(expected_, param.name.text, param.included_from);
    shared_names_.emplace(id, std::to_string(expected_) + "/" + param.name.text);
    bool is_here = false, is_elsewhere = false;
    for (std::size_t i = 0; i < spec.roles.size(); ++i)
      for (const Name& name : spec.roles[i].global_params) {
        if (name.text != param.name.text) continue;
        is_here = is_here || here[i];
        is_elsewhere = is_elsewhere || elsewhere[i];
      }
    if (is_here && is_elsewhere) shared_.insert(id);
  }
}

Result<void> RoleHost::add_global_param(const GlobalParamSpec& param) {
  const std::string id = identity(param.name.text, param.included_from);
  auto& kept = global_params_[id];
  if (kept != nullptr) return {};
  if (options_.progress) options_.progress("preparing " + param.name.text);
  GlobalParamMaking making{&param, path_of(param.model)};
  if (shared_.contains(id)) {
    making.peers = options_.peers.get();
    making.shared_name = shared_names_.at(id);
  }
  auto made = catalog_.make_global_param(making);
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
  if (lane == nullptr) lane = &lanes_.make();
  return *lane;
}

Result<RoleMaking> RoleHost::making_of(const WorkflowSpec& spec, const RoleSpec& role) const {
  RoleMaking making;
  making.model_directory = path_of(role.model);
  making.threads = options_.threads != 0
                       ? options_.threads
                       : static_cast<std::uint32_t>(WorkerPool::shared().threads());
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

Result<RoleHost::Places> RoleHost::add_role(const WorkflowSpec& spec, const RoleSpec& role,
                                            const SplitRole& split) {
  const std::string id = identity(role.name.text, role.included_from);
  if (const auto kept = places_.find(id); kept != places_.end()) return kept->second;
  Result<RoleMaking> making = making_of(spec, role);
  if (!making.ok()) return making.error();
  specs_.push_back(std::make_unique<RoleSpec>(role));
  making->role = specs_.back().get();
  Places places;
  for (making->replica = 0; making->replica < role.replicas; ++making->replica) {
    Result<RolePlace> place = add_replica(spec, *making, split);
    if (!place.ok())
      return Error{place.error().code, "role '" + role.name.text + "': " + place.error().message};
    places.push_back(*place);
  }
  return places_[id] = std::move(places);
}

Result<RolePlace> RoleHost::add_replica(const WorkflowSpec& spec, const RoleMaking& making,
                                        const SplitRole& split) {
  const bool elsewhere = !split.here.empty() && !split.here[making.replica];
  if (elsewhere && !split.stand_in) return RolePlace{};
  const RoleSpec& role = *making.role;
  const Plugin* plugin = catalog_.find(role.plugin.text);
  if (plugin == nullptr) return Error{ErrorCode::not_found, "no plugin '" + role.plugin.text + "'"};
  if (options_.progress && !elsewhere) options_.progress("preparing " + role.name.text);
  Result<RoleInstance> made = elsewhere ? split.stand_in(making.replica) : plugin->make(making);
  if (!made.ok()) return made.error();
  Lane& lane = lane_for(spec, role, making.replica);
  const bool stepped = std::holds_alternative<std::unique_ptr<SteppedRole>>(*made);
  return RolePlace{&lane, lane.add(std::move(made).value()), stepped};
}

/// That of the first of its parameters here which keeps what sessions say.
SessionKeeper* RoleHost::keeper_of(const WorkflowSpec& spec, const RoleSpec& role) const {
  for (const Name& name : role.global_params)
    for (const GlobalParamSpec& param : spec.global_params) {
      if (param.name.text != name.text) continue;
      const auto made = global_params_.find(identity(param.name.text, param.included_from));
      if (made == global_params_.end()) continue;
      if (auto* keeper = dynamic_cast<SessionKeeper*>(made->second.get())) return keeper;
    }
  return nullptr;
}

NodePlace RoleHost::place_of(const WorkflowSpec& spec, const PlanNode& node,
                             const std::vector<Places>& of_roles) const {
  NodePlace place;
  place.node = &node;
  const RoleSpec& role = spec.roles[node.role];
  place.role = role.name.text;
  place.replicas = of_roles[node.role];
  place.keeper = keeper_of(spec, role);
  const InterfaceDeclaration* interface = catalog_.interface_of(spec, node);
  for (const std::string& name : node.outputs) {
    const Port* port = interface != nullptr ? find_port(interface->outputs, name) : nullptr;
    place.outputs.push_back(port != nullptr ? *port : Port{name, ValueType::any, ""});
  }
  if (interface != nullptr)
    for (const Port& port : interface->inputs) place.inputs.push_back(port.name);
  for (const PlanGroup& group : node.groups)
    place.inputs.insert(place.inputs.end(), group.fields.begin(), group.fields.end());
  return place;
}

namespace {

/// Everything that reads the node's frames runs where it runs.
bool stays_on_lane(const Plan& plan, const std::vector<NodePlace>& places, const NodePlace& place) {
  const auto single = [](const NodePlace& one) { return one.replicas.size() == 1; };
  if (!single(place) || place.replicas[0].stepped) return false;
  return std::ranges::all_of(place.node->edges, [&](EdgeId id) {
    const Edge& edge = plan.edges[id];
    return !edge.is_output() && single(places[edge.to]) &&
           places[edge.to].replicas[0].lane == place.replicas[0].lane;
  });
}

}  // namespace

Result<std::vector<RoleHost::Places>> RoleHost::add_roles(const WorkflowSpec& spec,
                                                          const std::vector<bool>& here,
                                                          const SplitRoles& split) {
  const auto is_here = [&](std::size_t role) { return here.empty() || here[role]; };
  for (const GlobalParamSpec& param : spec.global_params) {
    bool used = here.empty();
    for (std::size_t i = 0; i < spec.roles.size(); ++i)
      for (const Name& name : spec.roles[i].global_params)
        used = used || (name.text == param.name.text && is_here(i));
    if (!used) continue;
    if (Result<void> made = add_global_param(param); !made.ok()) return made.error();
  }
  std::vector<Places> of_roles;
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    Result<Places> made =
        is_here(i) ? add_role(spec, spec.roles[i], split.empty() ? SplitRole{} : split[i])
                   : Places{};
    if (!made.ok()) return made.error();
    of_roles.push_back(std::move(made).value());
  }
  return of_roles;
}

Result<std::vector<NodePlace>> RoleHost::add(const WorkflowSpec& spec, const Plan& plan,
                                             const std::vector<bool>& here,
                                             const SplitRoles& split) {
  ++workflows_;
  Result<std::vector<Places>> added = add_roles(spec, here, split);
  if (!added.ok()) return added.error();
  const std::vector<Places>& of_roles = *added;
  std::vector<NodePlace> places;
  std::vector<Lane*> lanes;
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node) {
      places.emplace_back();
      continue;
    }
    NodePlace& place = places.emplace_back(place_of(spec, node, of_roles));
    for (const RolePlace& replica : place.replicas) {
      if (replica.lane == nullptr) continue;
      const auto it = std::ranges::find(lanes, replica.lane);
      place.lanes.push_back(static_cast<std::uint16_t>(it - lanes.begin()));
      if (it == lanes.end()) lanes.push_back(replica.lane);
    }
  }
  for (NodePlace& place : places)
    if (place.node != nullptr) place.hold_last = stays_on_lane(plan, places, place);
  return places;
}

namespace {

/// Those of parameters of the same name, each of its own workflow, are counted together.
void add_counts(const std::string& name,
                const std::vector<std::pair<std::string, std::uint64_t>>& counts,
                std::vector<ParamCounts>& all) {
  auto same = std::ranges::find(all, name, &ParamCounts::name);
  if (same == all.end()) same = all.insert(all.end(), {name, {}});
  for (const auto& [what, count] : counts) {
    const auto at =
        std::ranges::find(same->counts, what, [](const auto& one) { return one.first; });
    if (at == same->counts.end())
      same->counts.emplace_back(what, count);
    else
      at->second += count;
  }
}

}  // namespace

std::vector<ParamCounts> RoleHost::param_counts() const {
  std::vector<ParamCounts> all;
  for (const auto& [name, param] : global_params_)
    if (auto counts = param->counts(); !counts.empty())
      add_counts(name.substr(name.rfind('/') + 1), counts, all);
  return all;
}

std::vector<PoolReport> RoleHost::pools(std::chrono::milliseconds patience) const {
  using std::chrono::steady_clock;
  const auto until = steady_clock::now() + patience;
  std::vector<PoolReport> all;
  for (const auto& [name, param] : global_params_) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - steady_clock::now());
    if (auto pool = param->pool_report(std::max(left, std::chrono::milliseconds(0))))
      all.push_back(*std::move(pool));
  }
  return all;
}

Result<void> RoleHost::run() { return lanes_.run(options_.threads); }

Result<void> RoleHost::end_session(const std::string& session) {
  const std::size_t calls = sessions_->end(session, [&] {
    for (auto& [name, param] : global_params_) param->end_session(session);
  });
  if (calls == 0) return {};
  return Error{ErrorCode::unavailable, "session '" + session + "' has " +
                                           count_text(calls, "call") + " under way; end it when " +
                                           (calls == 1 ? "it has" : "they have") + " ended"};
}

}  // namespace sluice
