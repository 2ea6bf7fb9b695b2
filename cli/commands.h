// The commands of the program; each adds itself to the command line and runs what it parsed.
//
// Exit status: 0 well, 1 the author's input is wrong or a call failed, 2 the command line is wrong,
// 130 Ctrl-C ended it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "roles/catalog.h"

namespace sluice::cli {

/// Set by the command that was chosen.
using Chosen = std::function<int()>;

void add_validate(Command app, const Catalog& catalog, Chosen& chosen);
void add_plan(Command app, const Catalog& catalog, Chosen& chosen);
/// `plugins`: folders that were given; the machines of a cluster get them too.
void add_run(Command app, const Catalog& catalog, Chosen& chosen,
             const std::vector<std::string>& plugins);
void add_node(Command app, const Catalog& catalog, Chosen& chosen);
void add_up(Command app, const Catalog& catalog, Chosen& chosen,
            const std::vector<std::string>& plugins);
void add_status(Command app, Chosen& chosen);
void add_down(Command app, Chosen& chosen);
void add_test(Command app, const Catalog& catalog, Chosen& chosen);
void add_simulate(Command app, const Catalog& catalog, Chosen& chosen,
                  const std::vector<std::string>& plugins);
void add_why(Command app, Chosen& chosen);
void add_model(Command app, Chosen& chosen);
/// Under `model`.
void add_model_ask(Command model, Chosen& chosen);
void add_model_bench(Command model, Chosen& chosen);
void add_pool(Command app, Chosen& chosen);
void add_chat(Command app, Chosen& chosen);
/// Not shown to people.
void add_role_host(Command app, const Catalog& catalog, Chosen& chosen);
void add_roles(Command app, const Catalog& catalog, Chosen& chosen);

void add_new(Command app, const Catalog& catalog, Chosen& chosen);

/// Gives `validate`, `plan`, `test`, `simulate`, `run` and `roles` the option `--plugins DIR`.
void accept_plugins(Command app, std::vector<std::string>& folders);
/// Adds the folders' plugins to the catalog. Returns 0, or 1 when it has said what is wrong.
int add_plugin_folders(Catalog& catalog, const std::vector<std::string>& folders);
/// What stands under each command's --help; all commands are there.
void add_examples(CLI::App& app);

/// One line on standard error: `error: ...`. Returns 1.
int fail(const std::string& message);
/// The program's status, or 1 when what was printed went nowhere: a full disk shows when the last
/// bytes are written.
int finished(int status);
/// The same as `fail` for a command line that is wrong. Returns 2.
int fail_usage(const std::string& message);

}  // namespace sluice::cli
