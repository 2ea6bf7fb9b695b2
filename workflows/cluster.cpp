#include "workflows/cluster.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include "base/count_text.h"
#include "base/file.h"
#include "graph/together.h"
#include "workflows/cluster_address.h"
#include "workflows/cluster_host.h"
#include "workflows/cluster_reader.h"
#include "workflows/cluster_registry.h"
#include "workflows/cluster_way.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

constexpr std::array<std::string_view, 6> cluster_part{"cluster", "workflows", "machines",
                                                       "lease",   "keys",      "registry"};
constexpr std::array<std::string_view, 6> machine_part{"address", "pages", "home",
                                                       "keeper",  "roles", "hosts"};
constexpr std::size_t machines_max = 256;
constexpr std::size_t workflows_max = 100;
constexpr std::int64_t lease_least = 60;  // milliseconds
constexpr std::chrono::hours lease_most{1};

class ClusterLoader : public ClusterReader {
 public:
  ClusterLoader(ClusterSpec& spec, Diagnostics& diagnostics)
      : ClusterReader(diagnostics), spec_(spec), diagnostics_(diagnostics) {}

  void load(const YamlNode& root) {
    if (root.kind != Kind::map)
      return error(root.mark.line == 0 ? Mark{1, 1, 1} : root.mark, "not-a-cluster",
                   "a cluster file is a map, this is " + std::string(kind_name(root.kind)),
                   "begin with `cluster: 1`");
    check_keys(root, cluster_part, "a cluster");
    const YamlNode* version = find(root, "cluster");
    if (version == nullptr)
      error({1, 1, 1}, "missing-key", "the file does not say that it is a cluster file",
            "begin with `cluster: 1`");
    else
      number(*version, "cluster", 1, 1);
    load_workflows(root);
    if (const YamlNode* lease = find(root, "lease")) load_lease(*lease);
    if (const YamlNode* keys = find(root, "keys")) {
      has_keys_ = true;
      spec_.keys = text(*keys, "the folder of keys");
    }
    load_machines(root);
    if (const YamlNode* registry = find(root, "registry"))
      load_registry(*registry, all_machines_, spec_, diagnostics_);
    check_addresses(spec_, {has_keys_, address_unread_}, diagnostics_);
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
      if (const auto path = text(item, "a workflow's path"))
        load_workflow(*path);
      else
        all_workflows_ = false;
  }

  void load_workflow(const Name& path) {
    const auto normal = [](const std::string& written) {
      return std::filesystem::path(written).lexically_normal();
    };
    for (const Name& known : spec_.workflows)
      if (normal(known.text) == normal(path.text))
        return error(
            path.mark, "same-workflow",
            "workflow " + in_quotes(path.text) + " is named already (" + line_of(known.mark) + ")",
            "name each workflow once: any number of calls run in it");
    spec_.workflows.push_back(path);
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

  void load_machines(const YamlNode& root) {
    const YamlNode* map = find(root, "machines");
    if (map == nullptr)
      return error({1, 1, 1}, "missing-key", "the cluster has no machines",
                   "machines: { front: { home: true, roles: [ ROLE ] } }");
    spec_.machines_mark = map->mark;
    if (!expect(*map, Kind::map, "machines")) return;
    if (map->entries.empty())
      return error(map->mark, "no-machines", "the cluster has no machines",
                   "machines: { front: { home: true, roles: [ ROLE ] } }");
    if (map->entries.size() > machines_max)
      return error(map->mark, "too-many",
                   "a cluster has at most " + std::to_string(machines_max) + " machines",
                   "make two clusters of it");
    const std::size_t before = diagnostics_.size();
    for (const auto& [key, value] : map->entries) load_machine(key, value);
    all_machines_ = diagnostics_.size() == before;
    check_home(map->mark);
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
      machine.address = text(*address, "an address");
      if (!machine.address) address_unread_ = true;
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

  ClusterSpec& spec_;
  Diagnostics& diagnostics_;
  bool all_workflows_ = false;
  bool all_machines_ = false;
  bool has_keys_ = false;
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
         const WhyNotShared& why_not_shared, const WhyNotRun& why_not_run,
         const WhyInOneProcess& why_in_one)
      : cluster_(cluster),
        workflows_(workflows),
        why_not_shared_(why_not_shared),
        why_not_run_(why_not_run),
        why_in_one_(why_in_one) {}

  Placement place() {
    require_own_names();
    for (std::uint32_t i = 0; i < cluster_.spec.machines.size(); ++i)
      for (const Name& role : cluster_.spec.machines[i].roles) place_role(i, role);
    Placement placement;
    for (const WorkflowSpec* workflow : workflows_) {
      RoleMachines& of_roles = placement.emplace_back();
      for (const RoleSpec& role : workflow->roles) {
        of_roles.push_back(machines_of(*workflow, role));
        require_runs(*workflow, role);
        check_spread(*workflow, role);
      }
      require_all_together(*workflow);
      if (choices_of(*workflow, of_roles) > choices_max)
        error(cluster_.spec.machines_mark, "too-many",
              "the roles of " + workflow->file + " can be spread in more than " +
                  std::to_string(choices_max) + " ways over their machines",
              "put fewer roles on several machines, or each on fewer");
    }
    require_to_preload();
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

  /// By its name people say which workflow they mean.
  void require_own_names() {
    const std::vector<Name>& files = cluster_.spec.workflows;
    const std::size_t count = std::min(files.size(), workflows_.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& name = workflows_[i]->name.text;
      const auto is_same = [&](const WorkflowSpec* other) { return other->name.text == name; };
      const auto first = std::ranges::find_if(workflows_, is_same) - workflows_.begin();
      const Name& other = files[static_cast<std::size_t>(first)];
      if (!name.empty() && static_cast<std::size_t>(first) < i)
        error(files[i].mark, "same-name",
              "the workflow of " + in_quotes(files[i].text) + " is called '" + name +
                  "', as that of " + in_quotes(other.text) + " is (" + line_of(other.mark) + ")",
              "give one of them another name, behind `workflow:` in its file");
    }
  }

  /// At the first machine that it is on.
  void require_runs(const WorkflowSpec& workflow, const RoleSpec& role) {
    const PlacedOn* placed = find(role.name.text);
    if (placed == nullptr || !why_not_run_) return;
    if (const std::string why_not = why_not_run_(role); !why_not.empty())
      error(placed->front().at->mark, "cannot-run",
            "role '" + role.name.text + "' of " + workflow.file + ": " + why_not);
  }

  /// What was said of this name when it was read: that it can be none. Null: nothing.
  Diagnostic* said_of_name(const Name& role) {
    const auto it = std::ranges::find_if(cluster_.diagnostics, [&](const Diagnostic& d) {
      return d.code == "bad-name" && d.mark.line == role.mark.line &&
             d.mark.column == role.mark.column;
    });
    return it == cluster_.diagnostics.end() ? nullptr : &*it;
  }

  static std::string all_roles(std::span<const std::string_view> names) {
    constexpr std::size_t told_most = 12;
    std::string all;
    for (const std::string_view name : names.first(std::min(names.size(), told_most)))
      all.append(all.empty() ? "their roles: " : ", ").append(name);
    return all + (names.size() > told_most ? ", ..." : "");
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
      std::string help = near.empty() ? "" : "did you mean '" + near + "'?";
      if (Diagnostic* const said = said_of_name(role)) {
        if (!help.empty()) said->suggestion = help;
        return;
      }
      if (near.empty()) help = all_roles(names);
      return error(role.mark, "unknown-role", "no workflow has a role " + in_quotes(role.text),
                   help);
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
    if (role.balance == Balance::broadcast) return check_split(workflow, role, *placed);
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

  /// Its replicas are divided among the machines.
  void check_split(const WorkflowSpec& workflow, const RoleSpec& role, const PlacedOn& placed) {
    const auto refuse = [&](const Placed& at, std::string code, const std::string& but,
                            const std::string& help) {
      error(at.at->mark, std::move(code), "role '" + role.name.text + "' " + but, help);
    };
    const std::string divided = "and its replicas are divided among them (`balance: broadcast`)";
    if (role.replicas < placed.size())
      refuse(placed[role.replicas], "too-few-replicas",
             "is on " + std::to_string(placed.size()) + " machines, " + divided + ", but it has " +
                 count_text(role.replicas, "replica") + ": none is left for '" +
                 machine(placed[role.replicas].machine) + "'",
             "`replicas: " + std::to_string(placed.size()) +
                 "` of the role, or more; or name it on fewer machines");
    const std::string several = "is on '" + machine(placed[1].machine) + "' and on '" +
                                machine(placed[0].machine) + "' (" + line_of(placed[0].at->mark) +
                                "), " + divided + ", but ";
    for (const TogetherRoles& pair : roles_together(workflow))
      if (pair.param.empty() && (pair.first == &role || pair.second == &role))
        refuse(placed[1], "must-be-on-one-machine", several + pair.why,
               "put it on one machine, or remove `colocate`");
    if (!role.global_params.empty())
      refuse(placed[1], "must-be-on-one-machine",
             several + "they share '" + role.global_params.front().text + "' in memory",
             "put it on one machine");
  }

  static const GlobalParamSpec* param_of(const WorkflowSpec& workflow, const std::string& name) {
    for (const GlobalParamSpec& one : workflow.global_params)
      if (one.name.text == name) return &one;
    return nullptr;
  }

  /// Of two roles that are apart, one reason why they may not be is told.
  void require_all_together(const WorkflowSpec& workflow) {
    std::set<std::set<const RoleSpec*>> told;
    for (const TogetherRoles& pair : roles_together(workflow)) {
      const std::set<const RoleSpec*> both{pair.first, pair.second};
      if (told.contains(both)) continue;
      const std::size_t before = cluster_.diagnostics.size();
      require_together(workflow, pair);
      if (cluster_.diagnostics.size() != before &&
          cluster_.diagnostics.back().code == "must-be-together")
        told.insert(both);
    }
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
        require_one_host(workflow, (*first)[i], (*second)[i], pair);
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

  /// Where nothing else is wrong: who says so has others to preload from.
  void require_to_preload() {
    const auto is_error = [](const Diagnostic& d) { return d.severity == Severity::error; };
    if (workflows_.size() != cluster_.spec.workflows.size() || !cluster_.all_machines ||
        std::ranges::any_of(cluster_.diagnostics, is_error))
      return;
    for (std::uint32_t i = 0; i < cluster_.spec.machines.size(); ++i)
      if (const auto& preload = cluster_.spec.machines[i].preload; preload && !sharing_.contains(i))
        error(*preload, "nothing-to-preload",
              "machine '" + machine(i) + "' preloads pages, and shares none with another machine",
              "leave `preload` out, or put a role over the same `paged_kv` on another machine too");
  }

  /// Each machine pulls pages from the others.
  void require_pages(const PlacedOn& placed, const std::string& param) {
    for (const Placed& one : placed) {
      sharing_.insert(one.machine);
      const ClusterMachine& here = cluster_.spec.machines[one.machine];
      if (const ClusterHost* host = host_of(one); host && in_host_.insert(one.at).second)
        error(host->name.mark, "must-be-in-no-host",
              "role '" + one.at->text + "' is in host '" + host->name.text + "', but it shares '" +
                  param + "' with another machine",
              "leave it out of the hosts");
      // Where the file could not be read, it may have one.
      if (here.address && here.address->text.starts_with("tcp://") && !here.pages &&
          cluster_.all_machines && without_pages_.insert(one.machine).second)
        error(here.name.mark, "missing-pages",
              "machine '" + here.name.text + "' shares '" + param +
                  "' with another machine, which has no way to its pages",
              "pages: tcp://HOST:PORT, with another port than its address");
    }
  }

  void require_one_host(const WorkflowSpec& workflow, const Placed& first, const Placed& second,
                        const TogetherRoles& pair) {
    if (!cluster_.all_machines) return;  // nor may its hosts be
    const ClusterHost* a = host_of(first);
    const ClusterHost* b = host_of(second);
    if (a == b) return;
    std::string why_one;
    if (const GlobalParamSpec* const param = param_of(workflow, pair.param);
        why_in_one_ && param != nullptr) {
      why_one = why_in_one_(*param);
      if (why_one.empty()) return;
    }
    const auto where = [](const ClusterHost* host) {
      return host == nullptr ? std::string("in no host") : "in host '" + host->name.text + "'";
    };
    error((b != nullptr ? b : a)->name.mark, "must-be-together",
          "role '" + first.at->text + "' is " + where(a) + " and '" + second.at->text + "' " +
              where(b) + ", but " + pair.why,
          "put both in one host, or neither" + (why_one.empty() ? "" : ": " + why_one));
  }

  LoadedCluster& cluster_;
  std::span<const WorkflowSpec* const> workflows_;
  const WhyNotShared& why_not_shared_;
  const WhyNotRun& why_not_run_;
  const WhyInOneProcess& why_in_one_;
  std::set<std::uint32_t> without_pages_;  // of which this was said
  std::set<std::uint32_t> sharing_;        // that have pages which others pull
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
                      const WhyNotShared& why_not_shared, const WhyNotRun& why_not_run,
                      const WhyInOneProcess& why_in_one) {
  return Placer(cluster, workflows, why_not_shared, why_not_run, why_in_one).place();
}

bool is_cluster(std::string_view text) {
  Diagnostics ignored;
  const YamlNode root = read_yaml(text, ignored);
  return root.kind == Kind::map && root.find("cluster") != nullptr;
}

}  // namespace sluice
