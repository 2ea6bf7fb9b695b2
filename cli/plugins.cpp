// `--plugins DIR`: roles of others, for every command that reads workflows.
#include <cstdio>

#include "cli/commands.h"
#include "plugin/folder.h"

namespace sluice::cli {

void accept_plugins(Command app, std::vector<std::string>& folders) {
  for (const char* name :
       {"validate", "plan", "test", "simulate", "run", "node", "up", "role-host", "roles"})
    app.subcommand(name).add_option("--plugins", folders,
                                    "A folder of plugins (NAME.role.yaml beside NAME.so)");
}

int add_plugin_folders(Catalog& catalog, const std::vector<std::string>& folders) {
  std::string problems;
  for (const std::string& folder : folders) problems += add_plugins(catalog, folder);
  std::fputs(problems.c_str(), stderr);
  return problems.empty() ? 0 : 1;
}

}  // namespace sluice::cli
