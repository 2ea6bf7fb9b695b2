#include "workflows/cluster.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/file.h"
#include "graph/together.h"
#include "workflows/cluster_host.h"
#include "workflows/cluster_way.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 6> cluster_part{"cluster", "workflows", "machines",
                                                       "lease",   "keys",      "registry"};
constexpr std::array<std::string_view, 3> registry_part{"address", "user", "password_file"};
constexpr std::array<std::string_view, 6> machine_part{"address", "pages", "home",
                                                       "keeper",  "roles", "hosts"};
constexpr std::size_t machines_max = 256;
constexpr std::size_t workflows_max = 100;
constexpr std::size_t user_bytes_max = 64;
constexpr std::int64_t lease_least = 60;  // milliseconds
constexpr std::chrono::hours lease_most{1};

std::string line_of(Mark mark) { return "line " + std::to_string(mark.line); }

/// Nobody else reaches it: a socket of this machine.
bool is_local(std::string_view address) {
  return address.starts_with("ipc://") || address.starts_with("tcp://127.") ||
         address.starts_with("tcp://[::1]:");
}

class ClusterLoader : public YamlReader {
 public:
  ClusterLoader(ClusterSpec& spec, Diagnostics& diagnostics)
      : YamlReader(diagnostics), spec_(spec), diagnostics_(diagnostics) {}

  void load(const YamlNode& root) {
    if (root.kind != Kind::map)
      return error(root.mark.line == 0 ? Mark{1, 1, 1} : root.mark, "not-a-cluster",
                   "a cluster file is a map, this is " + std::string(kind_name(root.kind)),
                   "begin with `cluster: 1`");
    check_keys(root, cluster_part, "a cluster");
    const YamlNode* version = find(root, "cluster");
    if (version == nullptr)
      error({1, 1, 1}, "missing-key", "the cluster file has no version", "cluster: 1");
    else
      number(*version, "cluster", 1, 1);
    load_workflows(root);
    if (const YamlNode* lease = find(root, "lease")) load_lease(*lease);
    if (const YamlNode* keys = find(root, "keys")) {
      has_keys_ = true;
      if (expect(*keys, Kind::scalar, "the folder of keys"))
        spec_.keys = Name{keys->scalar, keys->mark};
    }
    load_machines(root);
    if (const YamlNode* registry = find(root, "registry"); registry != nullptr) {
      if (registry->kind == Kind::map)
        load_registry_with_login(*registry);
      else if (expect(*registry, Kind::scalar, "the registry"))
        load_registry(*registry);
    }
    // With a mistake in the file, what a machine lacks may be what was meant there.
    if (!has_errors(diagnostics_)) warn_of_idle();
  }
  bool all_workflows() const { return all_workflows_; }
  bool all_machines() const { return all_machines_; }

 private:
  void warn_of_idle() {
    for (const ClusterMachine& machine : spec_.machines)
      if (machine.roles.empty() && !machine.home && !machine.keeper)
        warning(machine.name.mark, "idle-machine",
                "machine '" + machine.name.text + "' has no role to run",
                "give it `roles`, or remove it");
  }

  void load_workflows(const YamlNode& root) {
    const YamlNode* list = find(root, "workflows");
    if (list == nullptr)
      return error({1, 1, 1}, "missing-key", "the cluster names no workflow",
                   "workflows: [ FILE ], relative to this file");
    if (!expect(*list, Kind::list, "workflows")) return;
    if (list->items.empty())
      error(list->mark, "no-workflows", "the cluster names no workflow",
            "workflows: [ FILE ], relative to this file");
    if (list->items.size() > workflows_max)
      return error(list->mark, "too-many",
                   "a cluster runs at most " + std::to_string(workflows_max) + " workflows",
                   "run the others as a cluster of their own");
    all_workflows_ = !list->items.empty();
    for (const YamlNode& item : list->items)
      if (expect(item, Kind::scalar, "a workflow's file"))
        load_workflow(item);
      else
        all_workflows_ = false;
  }

  void load_workflow(const YamlNode& item) {
    const auto path_of = [](const std::string& text) {
      return std::filesystem::path(text).lexically_normal();
    };
    for (const Name& known : spec_.workflows)
      if (path_of(known.text) == path_of(item.scalar))
        return error(item.mark, "same-workflow",
                     "workflow " + in_quotes(item.scalar) + " is named already (" +
                         line_of(known.mark) + ")",
                     "name each workflow once: any number of calls run in it");
    spec_.workflows.push_back({item.scalar, item.mark});
  }

  void load_lease(const YamlNode& node) {
    const auto lease = duration(node, "lease", 0, "60m");
    if (!lease) return;
    if (lease->count() < lease_least || *lease > lease_most)
      return error(node.mark, "bad-lease",
                   "lease is " + in_quotes(node.scalar) + ", it must be from 60ms to 60m",
                   "3s is what stands for most networks");
    spec_.lease = *lease;
  }

  void load_registry_with_login(const YamlNode& map) {
    check_keys(map, registry_part, "a registry");
    std::array<const YamlNode*, registry_part.size()> parts{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = find(map, registry_part[i]);
      if (parts[i] == nullptr)
        error(
            map.mark, "missing-key", "the registry has no " + std::string(registry_part[i]),
            "registry: { address: unix:///PATH, user: NAME, password_file: FILE }, or the address "
            "alone where the server asks for no password");
      else if (!expect(*parts[i], Kind::scalar, "the registry's " + std::string(registry_part[i])))
        parts[i] = nullptr;
    }
    const auto [address, user, file] = parts;
    if (address != nullptr) load_registry(*address);
    if (address != nullptr && (address->scalar == "none" || address->scalar == "private"))
      error(address->mark, "bad-registry",
            "a registry that is " + address->scalar + " has no user and no password",
            "registry: " + address->scalar);
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    if (user != nullptr && (user->scalar.empty() || user->scalar.size() > user_bytes_max ||
                            !std::ranges::all_of(user->scalar, is_plain)))
      error(user->mark, "bad-registry",
            "the registry's user is " + in_quotes(user->scalar) +
                ", it must be 1 to 64 printable characters without spaces",
            "the name behind `ACL SETUSER` on the server");
    else if (user != nullptr)
      spec_.registry_user = Name{user->scalar, user->mark};
    if (file != nullptr) spec_.registry_password = Name{file->scalar, file->mark};
  }

  void load_registry(const YamlNode& node) {
    const std::string& text = node.scalar;
    if (text == "none") return;
    spec_.registry = Name{text, node.mark};
    const bool is_address = text.starts_with("unix:///") || text.starts_with("tcp://127.") ||
                            text.starts_with("tcp://[::1]:");
    if (text != "private" && !is_address)
      return error(node.mark, "bad-registry",
                   "registry is " + in_quotes(text) +
                       ", it must be none, private or a Redis "
                       "server's address on each machine itself",
                   "unix:///PATH, tcp://127.0.0.1:PORT or tcp://[::1]:PORT; a network between is "
                   "crossed by a tunnel of yours");
    for (const ClusterMachine& machine : spec_.machines)
      if (text == "private" && machine.address && !is_local(machine.address->text))
        return error(node.mark, "bad-registry",
                     "a private registry is reached on one computer only, and machine '" +
                         machine.name.text + "' is elsewhere",
                     "write the address at which each machine reaches a shared Redis server");
  }

  void load_machines(const YamlNode& root) {
    const YamlNode* map = find(root, "machines");
    if (map == nullptr)
      return error({1, 1, 1}, "missing-key", "the cluster has no machines",
                   "machines: { front: { home: true, roles: [ ROLE ] } }");
    spec_.machines_mark = map->mark;
    if (!expect(*map, Kind::map, "machines")) return;
    if (map->entries.size() > machines_max)
      return error(map->mark, "too-many",
                   "a cluster has at most " + std::to_string(machines_max) + " machines",
                   "make two clusters of it");
    const std::size_t before = diagnostics_.size();
    for (const auto& [key, value] : map->entries) load_machine(key, value);
    all_machines_ = diagnostics_.size() == before;
    check_home(map->mark);
    check_addresses();
  }

  void load_machine(const YamlNode& key, const YamlNode& node) {
    // What is in a machine whose name is none is read all the same.
    const auto machine_name = name(key, "a machine's name");
    if (key.scalar.empty() || !expect(node, Kind::map, "machine '" + key.scalar + "'")) {
      home_unread_ = address_unread_ = true;
      return;
    }
    check_keys(node, machine_part, "machine '" + key.scalar + "'");
    ClusterMachine& machine = spec_.machines.emplace_back();
    machine.name = machine_name.value_or(Name{key.scalar, key.mark});
    if (const YamlNode* address = find(node, "address")) {
      if (expect(*address, Kind::scalar, "an address"))
        machine.address = Name{address->scalar, address->mark};
      else
        address_unread_ = true;
    }
    if (const YamlNode* pages = find(node, "pages")) load_pages(*pages, machine, diagnostics_);
    if (const YamlNode* home = find(node, "home")) {
      const std::size_t before = diagnostics_.size();
      choice<bool>(*home, "home", {{"true", true}, {"false", false}}, machine.home);
      if (diagnostics_.size() != before) home_unread_ = true;
    }
    if (const YamlNode* keeper = find(node, "keeper"))
      choice<bool>(*keeper, "keeper", {{"true", true}, {"false", false}}, machine.keeper);
    if (const YamlNode* roles = find(node, "roles"); roles && expect(*roles, Kind::list, "roles"))
      for (const YamlNode& role : roles->items)
        if (auto known = name(role, "a role's name")) machine.roles.push_back(std::move(*known));
    if (const YamlNode* hosts = find(node, "hosts")) load_hosts(*hosts, machine, diagnostics_);
  }

  void check_home(Mark mark) {
    const ClusterMachine* keeper = nullptr;
    for (const ClusterMachine& machine : spec_.machines) {
      if (!machine.keeper) continue;
      if (keeper != nullptr)
        error(machine.name.mark, "two-keepers",
              "'" + machine.name.text + "' and '" + keeper->name.text + "' (" +
                  line_of(keeper->name.mark) + ") both keep the list of who is there",
              "one machine keeps it: remove `keeper: true` from the others");
      else
        keeper = &machine;
    }
    if (std::ranges::none_of(spec_.machines, &ClusterMachine::home) && !home_unread_)
      error(mark, "no-home", "no machine is a home, where calls begin",
            "write `home: true` in one of the machines");
  }

  void check_addresses() {
    const ClusterMachine* with = nullptr;
    const ClusterMachine* without = nullptr;
    for (const ClusterMachine& machine : spec_.machines) {
      (machine.address ? with : without) = &machine;
      if (machine.pages && !machine.address && !address_unread_)
        error(machine.pages->mark, "bad-address",
              "'" + machine.name.text + "' has an address for its pages, and no `address`",
              "without addresses all machines are processes of this one, and meet by themselves");
      if (!machine.address) continue;
      const bool is_far =
          !is_local(machine.address->text) || (machine.pages && !is_local(machine.pages->text));
      if (machine.ucx && !machine.ucx->devices && is_far)
        error(machine.ucx->mark, "untrusted-fabric",
              "the pages of '" + machine.name.text +
                  "' come by ucx, which proves nobody and encrypts nothing, and the machine is "
                  "reached over a network",
              "fabric: trusted and devices: NAME, where whoever reaches that device may read and "
              "write this machine's memory; or leave `by` out");
      for (const Name* address : {&*machine.address, machine.pages ? &*machine.pages : nullptr}) {
        if (address == nullptr) continue;
        check_address(*address);
      }
    }
    check_each_has_its_own();
    if (with != nullptr && without != nullptr && !address_unread_)
      error(without->name.mark, "missing-address",
            "'" + without->name.text + "' has no address, and '" + with->name.text + "' (" +
                line_of(with->name.mark) + ") has one",
            "give each machine an address, or none: then all are processes of this machine");
  }

  struct Address {
    const ClusterMachine* machine = nullptr;
    const Name* text = nullptr;
  };

  /// One error for each address that several machines have, at the second of them.
  void check_each_has_its_own() {
    std::map<std::string_view, std::vector<Address>> at;
    for (const ClusterMachine& machine : spec_.machines) {
      if (machine.address) at[machine.address->text].push_back({&machine, &*machine.address});
      if (machine.pages) at[machine.pages->text].push_back({&machine, &*machine.pages});
    }
    for (const auto& [text, uses] : at) {
      if (uses.size() < 2) continue;
      std::string names;
      for (const Address& use : uses)
        names += (names.empty()          ? "'"
                  : &use == &uses.back() ? " and '"
                                         : ", '") +
                 use.machine->name.text + "' (" + line_of(use.machine->name.mark) + ")";
      error(uses[1].text->mark, "same-address", names + " have the same address",
            "each machine listens at one of its own");
    }
  }

  void check_address(const Name& address) {
    if (!address.text.starts_with("ipc://") && !address.text.starts_with("tcp://"))
      return error(address.mark, "bad-address", in_quotes(address.text) + " is no address",
                   "tcp://HOST:PORT with the host as a number, or ipc:///FOLDER/NAME");
    if (address.text.find('*') != std::string::npos)
      return error(address.mark, "bad-address",
                   in_quotes(address.text) + " would be open to every network",
                   "write the one address at which the others reach this machine");
    // Said once: one folder is for all, however many machines have such an address.
    if (!is_local(address.text) && !has_keys_ && !std::exchange(keys_missed_, true))
      error(address.mark, "missing-keys",
            in_quotes(address.text) + " can be reached from elsewhere, and there are no keys",
            "keys: FOLDER; `sluice keys FOLDER --machine NAME` makes them");
  }

  ClusterSpec& spec_;
  Diagnostics& diagnostics_;
  bool all_workflows_ = false;
  bool all_machines_ = false;
  bool has_keys_ = false;
  bool keys_missed_ = false;
  // Somebody's: nothing is said to lack it.
  bool home_unread_ = false;
  bool address_unread_ = false;
};

struct Placed {
  std::uint32_t machine = 0;
  const Name* at = nullptr;
};
/// Of one role, in the order of the machines.
using PlacedOn = std::vector<Placed>;

bool is_on(const PlacedOn& role, std::uint32_t machine) {
  return std::ranges::find(role, machine, &Placed::machine) != role.end();
}
/// The first that the other is not on; null: there is none.
const Placed* not_of(const PlacedOn& role, const PlacedOn& other) {
  const auto it =
      std::ranges::find_if(role, [&](const Placed& one) { return !is_on(other, one.machine); });
  return it == role.end() ? nullptr : &*it;
}

class Placer {
 public:
  Placer(LoadedCluster& cluster, std::span<const WorkflowSpec* const> workflows,
         const WhyNotShared& why_not_shared)
      : cluster_(cluster), workflows_(workflows), why_not_shared_(why_not_shared) {}

  Placement place() {
    for (std::uint32_t i = 0; i < cluster_.spec.machines.size(); ++i)
      for (const Name& role : cluster_.spec.machines[i].roles) place_role(i, role);
    Placement placement;
    for (const WorkflowSpec* workflow : workflows_) {
      RoleMachines& of_roles = placement.emplace_back();
      for (const RoleSpec& role : workflow->roles) {
        of_roles.push_back(machines_of(*workflow, role));
        check_spread(*workflow, role);
      }
      for (const TogetherRoles& pair : roles_together(*workflow)) require_together(*workflow, pair);
      if (choices_of(*workflow, of_roles) > choices_max)
        error(cluster_.spec.machines_mark, "too-many",
              "the roles of " + workflow->file + " can be spread in more than " +
                  std::to_string(choices_max) + " ways over their machines",
              "put fewer roles on several machines, or each on fewer");
    }
    return placement;
  }

 private:
  void error(Mark mark, std::string code, std::string message, std::string suggestion = "") {
    report(cluster_.diagnostics,
           {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  const std::string& machine(std::uint32_t index) const {
    return cluster_.spec.machines[index].name.text;
  }
  const PlacedOn* find(const std::string& role) const {
    for (const auto& [name, placed] : placed_)
      if (name == role) return &placed;
    return nullptr;
  }

  void place_role(std::uint32_t at, const Name& role) {
    std::vector<std::string_view> names;
    for (const WorkflowSpec* workflow : workflows_)
      for (const RoleSpec& known : workflow->roles) names.push_back(known.name.text);
    if (std::ranges::find(names, role.text) == names.end()) {
      const std::string near = nearest_name(role.text, names);
      if (near.empty())
        unknown_ = true;
      else
        meant_.insert(near);
      return error(role.mark, "unknown-role", "no workflow has a role " + in_quotes(role.text),
                   near.empty() ? "" : "did you mean '" + near + "'?");
    }
    auto on = std::ranges::find(placed_, role.text, &std::pair<std::string, PlacedOn>::first);
    if (on == placed_.end()) on = placed_.insert(on, {role.text, {}});
    if (!on->second.empty() && on->second.back().machine == at)
      return error(role.mark, "placed-twice",
                   "role '" + role.text + "' is on '" + machine(at) + "' already (" +
                       line_of(on->second.back().at->mark) + ")",
                   "name it once on each machine; how many run there is `replicas` of the role");
    on->second.push_back({at, &role});
  }

  std::vector<std::uint32_t> machines_of(const WorkflowSpec& workflow, const RoleSpec& role) {
    if (const PlacedOn* placed = find(role.name.text)) {
      std::vector<std::uint32_t> machines;
      for (const Placed& one : *placed) machines.push_back(one.machine);
      return machines;
    }
    // It may be the one whose name is misspelt, or stand where the file could not be read.
    if (unknown_ || meant_.contains(role.name.text) || !cluster_.all_machines) return {0};
    error(cluster_.spec.machines_mark, "placed-nowhere",
          "role '" + role.name.text + "' of " + workflow.file + " is on no machine",
          "add it to the `roles` of a machine");
    return {0};
  }

  /// The host of a role that is placed; null: it runs in the machine's own process.
  const ClusterHost* host_of(const Placed& placed) const {
    for (const ClusterHost& host : cluster_.spec.machines[placed.machine].hosts)
      if (std::ranges::find(host.roles, placed.at->text, &Name::text) != host.roles.end())
        return &host;
    return nullptr;
  }

  /// A role on several machines.
  void check_spread(const WorkflowSpec& workflow, const RoleSpec& role) {
    const PlacedOn* placed = find(role.name.text);
    if (placed == nullptr || placed->size() < 2) return;
    const Placed& first = placed->front();
    const Placed& second = (*placed)[1];
    const auto refuse = [&](const std::string& but, const std::string& help) {
      error(second.at->mark, "must-be-on-one-machine",
            "role '" + role.name.text + "' is on '" + machine(second.machine) + "' and on '" +
                machine(first.machine) + "' (" + line_of(first.at->mark) + "), but " + but,
            help);
    };
    if (role.balance == Balance::broadcast)
      refuse("each of its replicas gets every frame (`balance: broadcast`)",
             "put it on one machine; `replicas` of it run there together");
    for (const Name& param : role.global_params) {
      const GlobalParamSpec* const spec = param_of(workflow, param.text);
      if (spec == nullptr) continue;
      const std::string why_not =
          why_not_shared_ ? why_not_shared_(role, role, *spec) : "its pages do not travel";
      if (why_not.empty())
        require_pages(*placed, param.text);
      else
        refuse("its '" + param.text + "' is in the memory of one",
               "put it on one machine: " + why_not);
    }
  }

  static const GlobalParamSpec* param_of(const WorkflowSpec& workflow, const std::string& name) {
    for (const GlobalParamSpec& one : workflow.global_params)
      if (one.name.text == name) return &one;
    return nullptr;
  }

  void require_together(const WorkflowSpec& workflow, const TogetherRoles& pair) {
    const RoleSpec &a = *pair.first, &b = *pair.second;
    const PlacedOn* first = find(a.name.text);
    const PlacedOn* second = find(b.name.text);
    if (first == nullptr || second == nullptr) return;
    const Placed* apart = not_of(*second, *first);  // from what `other` says
    const Placed* other = not_of(*first, *second);
    if (apart == nullptr && other == nullptr) {
      for (std::size_t i = 0; i < first->size(); ++i)
        require_one_host((*first)[i], (*second)[i], pair.why);
      return;
    }
    std::string why_not;
    if (const GlobalParamSpec* const param = param_of(workflow, pair.param);
        why_not_shared_ && param != nullptr) {
      why_not = why_not_shared_(a, b, *param);
      if (why_not.empty()) {
        require_pages(*first, pair.param);
        return require_pages(*second, pair.param);
      }
    }
    // At the name that is one too many, where there is one.
    const bool turned = apart == nullptr;
    if (turned) std::swap(apart, other);
    if (other == nullptr) other = &(turned ? second : first)->front();
    const bool several = first->size() > 1 || second->size() > 1;
    error(apart->at->mark, "must-be-together",
          "role '" + (turned ? a : b).name.text + "' is on '" + machine(apart->machine) +
              "' and '" + (turned ? b : a).name.text + "' on '" + machine(other->machine) + "' (" +
              line_of(other->at->mark) + "), but " + pair.why,
          (several ? "put both on the same machines" : "put both on one machine") +
              (why_not.empty() ? "" : ": " + why_not));
  }

  /// Each machine pulls pages from the others.
  void require_pages(const PlacedOn& placed, const std::string& param) {
    for (const Placed& one : placed) {
      const ClusterMachine& here = cluster_.spec.machines[one.machine];
      if (const ClusterHost* host = host_of(one); host && in_host_.insert(one.at).second)
        error(host->name.mark, "must-be-in-no-host",
              "role '" + one.at->text + "' is in host '" + host->name.text + "', but it shares '" +
                  param + "' with another machine",
              "leave it out of the hosts");
      if (here.address && here.address->text.starts_with("tcp://") && !here.pages &&
          without_pages_.insert(one.machine).second)
        error(here.name.mark, "missing-pages",
              "machine '" + here.name.text + "' shares '" + param +
                  "' with another machine, which has no way to its pages",
              "pages: tcp://HOST:PORT, with another port than its address");
    }
  }

  void require_one_host(const Placed& first, const Placed& second, const std::string& why) {
    if (!cluster_.all_machines) return;  // nor may its hosts be
    const ClusterHost* a = host_of(first);
    const ClusterHost* b = host_of(second);
    if (a == b) return;
    const auto where = [](const ClusterHost* host) {
      return host == nullptr ? std::string("in no host") : "in host '" + host->name.text + "'";
    };
    error((b != nullptr ? b : a)->name.mark, "must-be-together",
          "role '" + first.at->text + "' is " + where(a) + " and '" + second.at->text + "' " +
              where(b) + ", but " + why,
          "put both in one host, or neither");
  }

  LoadedCluster& cluster_;
  std::span<const WorkflowSpec* const> workflows_;
  const WhyNotShared& why_not_shared_;
  std::set<std::uint32_t> without_pages_;  // of which this was said
  std::set<const Name*> in_host_;          // likewise
  std::vector<std::pair<std::string, PlacedOn>> placed_;
  bool unknown_ = false;         // a name that is like no role's
  std::set<std::string> meant_;  // roles whose names are misspelt
};

}  // namespace

std::vector<std::uint32_t> ClusterSpec::homes() const {
  std::vector<std::uint32_t> homes;
  for (std::uint32_t i = 0; i < machines.size(); ++i)
    if (machines[i].home) homes.push_back(i);
  return homes;
}

std::uint32_t ClusterSpec::keeper() const {
  for (std::uint32_t i = 0; i < machines.size(); ++i)
    if (machines[i].keeper) return i;
  return homes().front();
}

LoadedCluster load_cluster(std::string file_name, std::string_view text) {
  LoadedCluster loaded;
  loaded.spec.file = std::move(file_name);
  loaded.text = text;
  const YamlNode root = read_yaml(text, loaded.diagnostics);
  if (!is_readable(loaded.diagnostics)) return loaded;
  const bool whole = loaded.diagnostics.empty();
  ClusterLoader loader(loaded.spec, loaded.diagnostics);
  loader.load(root);
  loaded.all_workflows = whole && loader.all_workflows();
  loaded.all_machines = whole && loader.all_machines();
  return loaded;
}

Result<LoadedCluster> load_cluster_file(const std::string& path) {
  Result<std::string> text = read_whole_file(path, yaml_bytes_max);
  if (!text.ok()) return text.error();
  return load_cluster(path, *text);
}

Placement place_roles(LoadedCluster& cluster, std::span<const WorkflowSpec* const> workflows,
                      const WhyNotShared& why_not_shared) {
  return Placer(cluster, workflows, why_not_shared).place();
}

bool is_cluster(std::string_view text) {
  Diagnostics ignored;
  const YamlNode root = read_yaml(text, ignored);
  return root.kind == Kind::map && root.find("cluster") != nullptr;
}

}  // namespace sluice
