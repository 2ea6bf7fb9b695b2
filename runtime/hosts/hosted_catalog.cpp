#include "runtime/hosts/hosted_catalog.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/nearest.h"
#include "graph/together.h"
#include "runtime/hosts/common_param.h"
#include "runtime/hosts/hosted_param.h"
#include "runtime/hosts/hosted_role.h"

namespace sluice::hosts {

namespace {

/// Hosts by name, as long as somebody uses them.
class Hosts {
 public:
  Hosts(const std::vector<HostGroup>& groups, HostOptions options, CgroupSystem system)
      : groups_(groups), options_(std::move(options)), system_(std::move(system)) {}

  /// Empty: the role is in this process.
  std::string of_role(const std::string& role) const {
    for (const HostGroup& group : groups_)
      if (std::ranges::find(group.roles, role) != group.roles.end()) return group.name;
    return {};
  }
  /// On another machine.
  bool is_elsewhere(const std::string& role) const {
    return std::ranges::find(groups_, std::string(), &HostGroup::name) != groups_.end() &&
           std::ranges::none_of(groups_, [&](const HostGroup& group) {
             return std::ranges::find(group.roles, role) != group.roles.end();
           });
  }
  /// By name; an empty one is this process.
  std::set<std::string> of_param(const std::string& param) const {
    const auto it = of_params_.find(param);
    return it == of_params_.end() ? std::set<std::string>() : it->second;
  }
  void learn(const WorkflowSpec& spec) {
    for (const RoleSpec& role : spec.roles)
      for (const Name& param : role.global_params)
        if (!is_elsewhere(role.name.text)) of_params_[param.text].insert(of_role(role.name.text));
    for (const NodeSpec& node : spec.nodes)
      for (const GroupSpec& group : node.groups)
        for (const FieldSpec& field : group.fields)
          fields_[{node.role.text, node.name.text}].insert(field.field.text);
  }
  /// That a node's groups read, whatever its role declares.
  std::set<std::string> fields(const std::string& role, std::string_view node) const {
    const auto it = fields_.find({role, std::string(node)});
    return it == fields_.end() ? std::set<std::string>() : it->second;
  }
  std::shared_ptr<HostProcess> get(const std::string& name) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<HostProcess> host = running_[name].lock();
    if (host == nullptr) {
      HostOptions options = options_of(name);
      if (options.memory != 0 && options.cgroups == nullptr) options.cgroups = cgroups();
      running_[name] = host = std::make_shared<HostProcess>(name, std::move(options));
    }
    return host;
  }
  std::vector<HostReport> report() {
    std::vector<HostReport> all;
    for (const HostGroup& group : groups_) {
      std::shared_ptr<HostProcess> host;
      {
        const std::lock_guard lock(mutex_);
        const auto it = running_.find(group.name);
        if (it != running_.end()) host = it->second.lock();
      }
      if (host != nullptr) all.push_back({host->status(), group.roles});
    }
    return all;
  }

 private:
  /// Under the lock. Null: there is no place for any, which is said once.
  std::shared_ptr<Cgroups> cgroups() {
    if (std::exchange(looked_for_cgroups_, true)) return cgroups_;
    auto opened = Cgroups::open(system_);
    if (opened.ok())
      cgroups_ = std::move(opened).value();
    else if (options_.notice)
      options_.notice("`memory` of hosts is limited as address space, for there is no cgroup: " +
                      opened.error().message);
    return cgroups_;
  }
  HostOptions options_of(const std::string& host) const {
    HostOptions options = options_;
    const auto group = std::ranges::find(groups_, host, &HostGroup::name);
    if (group == groups_.end()) return options;
    const HostLimits& limits = group->limits;
    if (limits.memory != 0) options.memory = limits.memory;
    if (limits.hang_after) options.hang_after = *limits.hang_after;
    if (!limits.cores.empty()) options.cores = limits.cores;
    return options;
  }

  const std::vector<HostGroup> groups_;
  const HostOptions options_;
  std::map<std::string, std::set<std::string>> of_params_;
  std::map<std::pair<std::string, std::string>, std::set<std::string>> fields_;
  const CgroupSystem system_;
  std::mutex mutex_;
  bool looked_for_cgroups_ = false;
  std::shared_ptr<Cgroups> cgroups_;
  std::map<std::string, std::weak_ptr<HostProcess>> running_;
};

using HostsRef = std::shared_ptr<Hosts>;

FieldsOf fields_of(const HostsRef& hosts, const std::string& role,
                   const PluginDeclaration& declared) {
  return [hosts, role, declared](std::string_view node, std::string_view interface) {
    std::set<std::string> fields = hosts->fields(role, node);
    if (const auto* known = find_interface(declared, interface))
      for (const Port& port : known->inputs) fields.insert(port.name);
    return std::vector<std::string>(fields.begin(), fields.end());
  };
}

Result<RoleInstance> make(const HostsRef& hosts, const std::string& name,
                          const PluginDeclaration& declared, const RoleMaking& making) {
  MakeRole request{*making.role, making.replica, making.model_directory, {}, making.threads};
  const std::shared_ptr<HostProcess> host = hosts->get(name);
  for (GlobalParam* param : making.global_params) {
    const auto* const common = dynamic_cast<const CommonParam*>(param);
    const auto* const hosted =
        common != nullptr ? common->in(*host) : dynamic_cast<const HostedParam*>(param);
    if (hosted == nullptr || hosted->host() != host)
      return invalid_argument("host '" + name + "' does not have what the role shares with others");
    request.params.push_back(hosted->member());
  }
  return make_hosted_role(
      host, std::move(request), fields_of(hosts, making.role->name.text, declared),
      [declared](std::string_view interface) {
        const auto* const known = find_interface(declared, interface);
        return declared.session_state && (known == nullptr || !known->keeps_nothing);
      });
}

void add_plugin(Catalog& to, const Plugin& plugin, const HostsRef& hosts) {
  Plugin wrapped = plugin;
  wrapped.make = [hosts, inner = plugin.make,
                  declared = plugin.declaration](const RoleMaking& making) -> Result<RoleInstance> {
    const std::string host = hosts->of_role(making.role->name.text);
    if (!host.empty()) return make(hosts, host, declared, making);
    RoleMaking here = making;
    for (GlobalParam*& param : here.global_params)
      if (const auto* const common = dynamic_cast<const CommonParam*>(param))
        param = common->here();
    return inner(here);
  };
  to.add(std::move(wrapped));
}

/// `names`: of the processes that have roles over it.
Result<std::unique_ptr<GlobalParam>> make_common(const Catalog& from, const HostsRef& hosts,
                                                 const GlobalParamMaking& making,
                                                 const std::set<std::string>& names) {
  if (const std::string why = from.why_in_one_process(*making.spec); !why.empty())
    return invalid_argument("roles over '" + making.spec->name.text +
                            "' are in several processes: " + why);
  if (making.peers != nullptr)
    return invalid_argument("roles over '" + making.spec->name.text +
                            "', which other machines have too, are in several processes");
  auto made = from.sharing_of_kind(making.spec->kind.text)->make(making);
  if (!made.ok()) return made.error();
  const std::shared_ptr<SharedParam> shared = std::move(made).value();
  auto common = std::make_unique<CommonParam>(shared);
  for (const std::string& name : names) {
    if (name.empty()) {
      GlobalParamMaking here = making;
      Result<int> socket = shared->connect("this process");
      if (!socket.ok()) return socket.error();
      here.shared = *socket;
      auto param = from.make_global_param(here);
      if (!param.ok()) return param.error();
      common->set_here(std::move(param).value());
      continue;
    }
    const auto connect = [shared, name]() -> Result<OwnedFile> {
      const Result<int> socket = shared->connect("host '" + name + "'");
      if (!socket.ok()) return socket.error();
      return OwnedFile(*socket);
    };
    auto hosted =
        make_hosted_param(hosts->get(name), {*making.spec, making.model_directory}, connect);
    if (!hosted.ok()) return hosted.error();
    common->add(std::move(hosted).value());
  }
  return std::unique_ptr<GlobalParam>(std::move(common));
}

void add_kind(Catalog& to, const Catalog& from, const std::string& kind, const HostsRef& hosts) {
  if (to.has_kind(kind)) return;
  to.add_global_param(
      kind,
      [hosts, &from](const GlobalParamMaking& making) -> Result<std::unique_ptr<GlobalParam>> {
        const std::set<std::string> names = hosts->of_param(making.spec->name.text);
        if (names.size() > 1) return make_common(from, hosts, making, names);
        if (names.empty() || names.begin()->empty()) return from.make_global_param(making);
        auto made =
            make_hosted_param(hosts->get(*names.begin()), {*making.spec, making.model_directory});
        if (!made.ok()) return made.error();
        return std::unique_ptr<GlobalParam>(std::move(made).value());
      },
      from.model_check_of_kind(kind));
}

using Roles = std::map<std::string, std::string>;  // a role to the name of its group

void join(Roles& groups, const std::string& a, const std::string& b) {
  const std::string from = groups[a], to = groups[b];
  for (auto& [role, group] : groups)
    if (group == from) group = to;
}

}  // namespace

Result<std::vector<HostGroup>> isolate(std::span<const WorkflowSpec* const> workflows,
                                       std::span<const std::string> roles,
                                       const WhyInOneProcess& why_in_one) {
  Roles groups, together;  // the latter: why, by a role
  std::vector<std::string> known;
  for (const WorkflowSpec* spec : workflows)
    for (const RoleSpec& role : spec->roles) known.push_back(role.name.text);
  const bool all = roles.size() == 1 && roles[0] == "all";
  if (!all && std::ranges::find(roles, "all") != roles.end() &&
      std::ranges::find(known, "all") == known.end())
    return invalid_argument("`all` is every role: name no other beside it");
  for (const std::string& role : all ? known : std::vector(roles.begin(), roles.end())) {
    if (std::ranges::find(known, role) == known.end()) {
      const std::string near = nearest_name(role, {known.begin(), known.end()});
      return Error{ErrorCode::not_found,
                   "no role '" + role + "' to isolate" +
                       (near.empty() ? std::string() : "; did you mean '" + near + "'?")};
    }
    groups[role] = role;
  }
  for (const WorkflowSpec* spec : workflows)
    for (const TogetherRoles& pair : roles_together(*spec)) {
      const auto param = std::ranges::find_if(spec->global_params, [&](const GlobalParamSpec& one) {
        return one.name.text == pair.param;
      });
      std::string why = pair.why;
      if (!all && why_in_one && param != spec->global_params.end()) {
        const std::string why_not = why_in_one(*param);
        if (why_not.empty()) continue;
        why += ", and " + why_not;
      }
      const std::string& first = pair.first->name.text;
      const std::string& second = pair.second->name.text;
      if (groups.contains(first) != groups.contains(second))
        return invalid_argument("'" + first + "' and '" + second +
                                "' can only be isolated together: " + why);
      // They take the name of the first.
      if (!groups.contains(first)) continue;
      join(groups, second, first);
      if (!all) together.emplace(first, why);
    }
  std::vector<HostGroup> made;
  for (const auto& [role, name] : groups) {
    auto it = std::ranges::find(made, name, &HostGroup::name);
    if (it == made.end()) it = made.insert(made.end(), {name, {}});
    it->roles.push_back(role);
    if (const auto why = together.find(role); why != together.end()) it->together = why->second;
  }
  return made;
}

HostedCatalog host_roles(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                         const std::vector<HostGroup>& groups, const HostOptions& options,
                         const CgroupSystem& system) {
  const auto hosts = std::make_shared<Hosts>(groups, options, system);
  for (const WorkflowSpec* spec : workflows) hosts->learn(*spec);
  HostedCatalog made{{}, [hosts] { return hosts->report(); }};
  for (const PluginDeclaration& declared : catalog.declarations()) {
    add_plugin(made.catalog, *catalog.find(declared.name), hosts);
    for (const std::string& kind : declared.global_param_kinds)
      add_kind(made.catalog, catalog, kind, hosts);
  }
  return made;
}

}  // namespace sluice::hosts
