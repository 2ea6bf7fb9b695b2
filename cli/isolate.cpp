#include "cli/isolate.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/byte_size.h"
#include "cli/interrupt.h"
#include "cli/supervisor.h"
#include "engine/checkpoint/loaded_parts.h"
#include "runtime/hosts/cores.h"
#include "runtime/hosts/host_child.h"

namespace sluice::cli {

namespace {

using Notice = std::function<void(const std::string&)>;

/// With `socket` this process shares the weights of checkpoints with others.
std::shared_ptr<const PartClient> take_part(OwnedFile socket, Notice notice) {
  auto client = std::make_shared<const PartClient>(std::move(socket));
  LoadedParts::here().share(client, std::move(notice));
  return client;
}

/// `by`: an exchange, or who takes part in one.
template <typename By>
void let_hosts_join(const std::shared_ptr<By>& by, hosts::HostOptions& options) {
  options.parts = [by, notice = options.notice](const std::string& who) {
    Result<OwnedFile> socket = by->join(who);
    if (!socket.ok()) notice(who + " does not share weights: " + socket.error().message);
    return socket.ok() ? std::move(socket).value() : OwnedFile();
  };
}

/// Hosts that are started with `options`, and this process, have weights in memory once.
std::shared_ptr<PartExchange> share_parts(hosts::HostOptions& options) {
  auto exchange = std::make_shared<PartExchange>();
  let_hosts_join(exchange, options);
  if (OwnedFile own = options.parts("the process that starts the hosts"); own.get() >= 0)
    take_part(std::move(own), options.notice);
  return exchange;
}

/// Which processes have roles of a model: those of a machine by "machine/host".
using ProcessesByModel = std::map<std::string, std::set<std::string>>;

void add_processes(std::span<const WorkflowSpec* const> workflows,
                   const std::vector<hosts::HostGroup>& groups, const std::string& machine,
                   ProcessesByModel& processes) {
  const bool are_all_here =
      std::ranges::find(groups, std::string(), &hosts::HostGroup::name) == groups.end();
  for (const WorkflowSpec* const workflow : workflows)
    for (const RoleSpec& role : workflow->roles) {
      const auto group = std::ranges::find_if(groups, [&](const hosts::HostGroup& one) {
        return std::ranges::find(one.roles, role.name.text) != one.roles.end();
      });
      if (!role.model || (group == groups.end() && !are_all_here)) continue;
      processes[role.model->text].insert(machine + "/" +
                                         (group == groups.end() ? "" : group->name));
    }
}

/// Roles of one checkpoint are in several processes of this machine. Elsewhere nobody would have
/// anything of it, and whoever loads first would pay for it.
bool have_models_in_common(std::span<const WorkflowSpec* const> workflows,
                           const std::vector<hosts::HostGroup>& groups) {
  ProcessesByModel processes;
  add_processes(workflows, groups, "", processes);
  return std::ranges::any_of(processes, [](const auto& one) { return one.second.size() > 1; });
}

std::vector<const WorkflowSpec*> workflows_of(const Cluster& cluster) {
  std::vector<const WorkflowSpec*> specs;
  for (const Compiled& compiled : cluster.workflows) specs.push_back(&compiled.loaded.spec);
  return specs;
}

/// The hosts of the machine, and what is in its own process.
std::vector<hosts::HostGroup> groups_of(const ClusterMachine& machine) {
  std::vector<hosts::HostGroup> groups;
  for (const ClusterHost& host : machine.hosts) {
    hosts::HostGroup& group = groups.emplace_back(
        hosts::HostGroup{host.name.text, {}, {host.memory, host.hang_after, host.cores}});
    for (const Name& role : host.roles) group.roles.push_back(role.text);
  }
  hosts::HostGroup& rest = groups.emplace_back();
  for (const Name& role : machine.roles)
    if (std::ranges::none_of(groups, [&](const hosts::HostGroup& group) {
          return std::ranges::find(group.roles, role.text) != group.roles.end();
        }))
      rest.roles.push_back(role.text);
  return groups;
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::string roles_of(const WorkflowSpec& workflow) {
  std::vector<std::string> names;
  for (const RoleSpec& role : workflow.roles) names.push_back(role.name.text);
  return listed(names);
}

}  // namespace

Hosted with_hosts(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                  const std::vector<hosts::HostGroup>& groups,
                  const std::vector<std::string>& plugins, const std::string& machine,
                  OwnedFile launcher) {
  hosts::HostOptions options;
  options.command = {own_program(), "role-host"};
  for (const std::string& folder : plugins)
    options.command.insert(options.command.end(), {"--plugins", folder});
  options.notice = [begin = machine.empty() ? "" : machine + ": "](const std::string& line) {
    std::fprintf(stderr, "%snote: %s\n", begin.c_str(), line.c_str());
  };
  Hosted made;
  if (launcher.get() >= 0)
    let_hosts_join(take_part(std::move(launcher), options.notice), options);
  else if (have_models_in_common(workflows, groups))
    made.weights = [exchange = share_parts(options)] { return exchange->report(); };
  static_cast<hosts::HostedCatalog&>(made) = hosts::host_roles(catalog, workflows, groups, options);
  return made;
}

void add_isolate_options(Command command, IsolateOptions& options) {
  command
      .add_option("--isolate", options.roles,
                  "Roles to run in processes of their own, or `all`: one that crashes or hangs "
                  "costs its own calls (with --cluster the file says it, as `hosts` of a machine)")
      .type_name("ROLE[,ROLE]")
      .separated_by(',');
  command
      .add_option(
          "--host-memory",
          [&options](const std::string& given) {
            options.memory = parse_byte_size(given).value_or(0);
          },
          "Of --isolate: the most memory that each of the processes may take")
      .type_name("SIZE")
      .needs("--isolate")
      .check([](const std::string& given) {
        const std::optional<std::uint64_t> size = parse_byte_size(given);
        if (size.value_or(0) >= host_memory_least) return std::string();
        return "'" + given + "' is no size for a process: it " +
               std::string(size ? "is less than 256MiB" : byte_size_fault(given)) + "; as in 4GiB";
      });
}

Result<Hosted> isolated(const IsolateOptions& options, const Catalog& catalog,
                        const WorkflowSpec& workflow, const std::vector<std::string>& plugins) {
  const WorkflowSpec* const spec = &workflow;
  auto groups = hosts::isolate({&spec, 1}, options.roles, [&](const GlobalParamSpec& param) {
    return catalog.why_in_one_process(param);
  });
  if (!groups.ok()) {
    std::string message = "--isolate: " + groups.error().message;
    // Unless one is near, which it names.
    if (groups.error().code == ErrorCode::not_found && !message.ends_with('?'))
      message += "; there are " + roles_of(workflow);
    return Error{groups.error().code, std::move(message)};
  }
  for (hosts::HostGroup& group : *groups) {
    group.limits.memory = options.memory;
    if (!group.together.empty())
      std::fprintf(stderr, "note: --isolate: %s run in one process: %s\n",
                   listed(group.roles).c_str(), group.together.c_str());
  }
  return with_hosts(catalog, {&spec, 1}, *groups, plugins, "");
}

Hosted with_hosts_of(const Cluster& cluster, std::uint32_t machine, const Catalog& catalog,
                     const std::vector<std::string>& plugins, OwnedFile launcher) {
  const ClusterMachine& here = cluster.spec().machines[machine];
  return with_hosts(catalog, workflows_of(cluster), groups_of(here), plugins,
                    here.home ? "" : here.name.text, std::move(launcher));
}

SharedWeights shared_weights_of(const Cluster& cluster, std::optional<std::uint32_t> self) {
  const std::vector<const WorkflowSpec*> specs = workflows_of(cluster);
  const std::vector<ClusterMachine>& machines = cluster.spec().machines;
  ProcessesByModel all;
  std::vector<ProcessesByModel> of_each(machines.size());
  for (std::uint32_t i = 0; i < machines.size(); ++i) {
    if (machines[i].home && i != self) continue;
    add_processes(specs, groups_of(machines[i]), machines[i].name.text, of_each[i]);
    for (const auto& [model, processes] : of_each[i])
      all[model].insert(processes.begin(), processes.end());
  }
  SharedWeights made;
  for (std::uint32_t i = 0; i < machines.size(); ++i)
    if (std::ranges::any_of(of_each[i], [&](const auto& one) { return all[one.first].size() > 1; }))
      made.machines.insert(i);
  if (!made.machines.empty()) made.exchange = std::make_shared<PartExchange>();
  return made;
}

Result<OwnedFile> join(const SharedWeights& weights, const Cluster& cluster,
                       std::uint32_t machine) {
  if (!weights.machines.contains(machine)) return OwnedFile();
  return weights.exchange->join("machine '" + cluster.spec().machines[machine].name.text + "'");
}

std::shared_ptr<hosts::Cgroups> cgroups_of(const Cluster& cluster) {
  const auto limits = [](const ClusterHost& host) { return host.memory != 0; };
  if (std::ranges::none_of(cluster.spec().machines, [&](const ClusterMachine& machine) {
        return std::ranges::any_of(machine.hosts, limits);
      }))
    return nullptr;
  auto opened = hosts::Cgroups::open();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

Result<void> check_cores_of(const Cluster& cluster, std::uint32_t machine) {
  const ClusterMachine& here = cluster.spec().machines[machine];
  for (const ClusterHost& host : here.hosts)
    if (Result<void> usable = hosts::check_cores(host.cores); !usable.ok())
      return Error{usable.error().code, cluster.spec().file + ":" +
                                            std::to_string(host.name.mark.line) + ": machine '" +
                                            here.name.text + "': host '" + host.name.text +
                                            "': " + usable.error().message};
  return {};
}

void add_role_host(Command app, const Catalog& catalog, Chosen& chosen) {
  Command command = app.add_subcommand(
      "role-host", "Be a host of roles: started by `sluice run` and `sluice node`, by nobody else");
  command.hide();
  command.callback([&catalog, &chosen] {
    chosen = [&catalog] {
      int type = 0;
      socklen_t size = sizeof type;
      if (::getsockopt(hosts::control_socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
          type != SOCK_SEQPACKET)
        return fail(
            "role-host is started by `sluice run --isolate` and `sluice node`, not by hand");
      survive_broken_pipes();  // what a role says may have no reader any more
      return hosts::serve_host(catalog, hosts::control_socket, [](OwnedFile parts) {
        take_part(std::move(parts), [](const std::string& line) {
          std::fprintf(stderr, "note: %s\n", line.c_str());
        });
      });
    };
  });
}

}  // namespace sluice::cli
