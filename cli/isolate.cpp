#include "cli/isolate.h"

#include <sys/socket.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/supervisor.h"
#include "runtime/hosts/host_child.h"

namespace sluice::cli {

Catalog with_hosts(const Catalog& catalog, std::span<const WorkflowSpec* const> workflows,
                   const std::vector<hosts::HostGroup>& groups,
                   const std::vector<std::string>& plugins) {
  hosts::HostOptions options;
  options.command = {own_program(), "role-host"};
  for (const std::string& folder : plugins)
    options.command.insert(options.command.end(), {"--plugins", folder});
  options.notice = [](const std::string& line) {
    std::fprintf(stderr, "note: %s\n", line.c_str());
  };
  return hosts::host_roles(catalog, workflows, groups, options);
}

Catalog with_hosts_of(const Cluster& cluster, std::uint32_t machine, const Catalog& catalog,
                      const std::vector<std::string>& plugins) {
  std::vector<hosts::HostGroup> groups;
  for (const ClusterHost& host : cluster.spec().machines[machine].hosts) {
    hosts::HostGroup& group = groups.emplace_back(hosts::HostGroup{host.name.text, {}});
    for (const Name& role : host.roles) group.roles.push_back(role.text);
  }
  std::vector<const WorkflowSpec*> specs;
  for (const Compiled& compiled : cluster.workflows) specs.push_back(&compiled.loaded.spec);
  return with_hosts(catalog, specs, groups, plugins);
}

void add_role_host(CLI::App& app, const Catalog& catalog, Chosen& chosen) {
  CLI::App* command = app.add_subcommand(
      "role-host", "Be a host of roles: started by `sluice run` and `sluice node`, by nobody else");
  command->group("");  // --help does not show it
  command->callback([&catalog, &chosen] {
    chosen = [&catalog] {
      int type = 0;
      socklen_t size = sizeof type;
      if (::getsockopt(hosts::control_socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
          type != SOCK_SEQPACKET)
        return fail(
            "role-host is started by `sluice run --isolate` and `sluice node`, not by hand");
      return hosts::serve_host(catalog, hosts::control_socket);
    };
  });
}

}  // namespace sluice::cli
