// `sluice run FILE`: one call, outputs streamed as they are made; or many calls, a line each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "cli/call_check.h"
#include "cli/call_value.h"
#include "cli/cluster_home.h"
#include "cli/commands.h"
#include "cli/compiled.h"
#include "cli/given_inputs.h"
#include "cli/interrupt.h"
#include "cli/isolate.h"
#include "cli/left_out.h"
#include "cli/output_files.h"
#include "cli/printer.h"
#include "cli/progress.h"
#include "cli/run_calls.h"
#include "cli/run_inputs.h"
#include "cli/run_options.h"
#include "cli/trace.h"
#include "graph/replica_split.h"
#include "runtime/call_stream.h"
#include "runtime/runner.h"

namespace sluice::cli {

namespace {

/// The type of what a role yields in a field, or of what a call brings.
ValueType type_of(const Compiled& compiled, const Catalog& catalog, NodeId from,
                  std::size_t field) {
  const Plan& plan = compiled.plan;
  if (from == entry_node) return plan.input_types[field];
  const PlanNode& node = plan.nodes[from];
  const InterfaceDeclaration* interface = catalog.interface_of(compiled.loaded.spec, node);
  const Port* port =
      interface == nullptr ? nullptr : find_port(interface->outputs, node.outputs[field]);
  return port == nullptr ? ValueType::any : port->type;
}

std::vector<OutputType> output_types(const Compiled& compiled, const Catalog& catalog) {
  std::vector<OutputType> types;
  for (const PlanOutput& output : compiled.plan.outputs) {
    std::optional<ValueType> one;
    for (const EdgeId id : output.edges) {
      const Edge& edge = compiled.plan.edges[id];
      for (const FieldMap& map : edge.fields) {
        const ValueType type = type_of(compiled, catalog, edge.from, map.from);
        one = one.value_or(type) == type ? type : ValueType::any;
      }
    }
    types.push_back({output.name, one.value_or(ValueType::any)});
  }
  return types;
}

RunEnd run_one(const RunOptions& options, const Plan& plan, CallInputs inputs, OutputFiles files,
               bool several_texts, Runner& runner, std::optional<Progress>& progress,
               const Interrupts& interrupts) {
  const auto running = [&] { progress->show("running " + plan.workflow); };
  running();
  Printer printer(std::move(files), *progress, several_texts);
  CallStream stream;
  const auto handle =
      runner.start({options.session.empty() ? "default" : options.session, std::move(inputs), {}},
                   stream.observer());
  CallOutcome outcome;
  {
    const StopOnInterrupt interrupt(interrupts, [&] {
      progress->show("cancelling; press Ctrl-C again to end at once");
      handle->cancel();
    });
    outcome = stream.wait([&](std::string_view output, const PayloadRef& value) {
      running();
      printer.show(output, *value);
      if (std::ferror(stdout) != 0) handle->cancel();  // nobody reads it any more
    });
  }
  const std::string problem = printer.finish();
  progress.reset();  // its line is gone before others stand there
  if (const std::string lacks = left_out_text(plan, options.without); !lacks.empty())
    std::fprintf(stderr, "warning: %s\n", lacks.c_str());
  if (printer.cut_off() != 0)
    std::fprintf(stderr, "note: the answer %s and stops here\n", reached(printer.cut_off()));
  for (const std::string& warning : outcome.warnings)
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  if (outcome.ok)
    for (const std::string& words : printer.files().unwritten())
      std::fprintf(stderr, "note: %s\n", words.c_str());
  RunEnd end;
  end.add(outcome);
  if (std::ferror(stdout) != 0)
    end.status = 1;  // the program's end says that it could not be written
  else if (!outcome.ok)
    end.status = fail((outcome.node.empty() ? "" : outcome.node + ": ") + outcome.error.message);
  else if (!problem.empty())
    end.status = fail(problem);
  if (!outcome.ok && interrupts.signal() != 0) end.status = interrupts.status();
  return end;
}

/// Ends the program where a role has not returned from a call that was given up: its thread can be
/// neither waited for nor taken away.
void end_beside_roles(const Runner& runner, const RunEnd& end) {
  const std::size_t left = runner.counts().calls;
  if (left == 0) return;
  std::string nodes;
  for (const std::string& node : end.stops) nodes += (nodes.empty() ? "" : ", ") + node;
  std::fprintf(
      stderr, "note: what %zu %s had begun still runs%s; the program ends without waiting for it\n",
      left, left == 1 ? "call" : "calls", nodes.empty() ? "" : (" (" + nodes + ")").c_str());
  const int status = finished(end.status);
  std::fflush(nullptr);
  std::_Exit(status);
}

/// Where outputs go, and a trace: nothing runs for a file that cannot be written.
Result<OutputFiles> files_of(const RunOptions& options, const Compiled& compiled,
                             const Catalog& catalog, const std::vector<std::string>& plugins) {
  Result<OutputFiles> files = OutputFiles();
  if (options.calls.empty())
    files = OutputFiles::make(options.outs, output_types(compiled, catalog));
  else if (!options.outs.empty())
    files = OutputFiles::in_folder(options.outs[0]);
  if (!files.ok()) return files;
  std::vector<std::string> read = compiled.files();
  read.insert(read.end(), options.images.begin(), options.images.end());
  for (const std::string& given : options.inputs) read.push_back(file_of_input(given));
  read.insert(read.end(), {options.cluster, options.calls, options.request});
  for (const std::string& folder : plugins)
    for (std::string& file : files_below(folder)) read.push_back(std::move(file));
  if (const Result<void> kept = check_not_read(*files, options.trace, read); !kept.ok())
    return kept.error();
  if (options.trace.empty()) return files;
  if (const std::string output = files->name_of(options.trace); !output.empty())
    return invalid_argument("--trace " + options.trace + ": the output '" + output +
                            "' goes to that file");
  if (const Result<void> can = check_can_write(options.trace); !can.ok())
    return Error{can.error().code, "--trace: " + can.error().message};
  return files;
}

/// A workflow that can run: here, or on the machines of a cluster.
struct Prepared {
  std::optional<Cluster> cluster;
  std::optional<Compiled> alone;
  std::size_t workflow = 0;  // of the cluster's
  std::uint32_t self = 0;    // which of its machines

  const Compiled& compiled() const { return cluster ? cluster->workflows[workflow] : *alone; }
};

/// The nodes whose roles other machines run, and of those that several do, none that this machine
/// asks the others for.
std::vector<std::string> elsewhere(const Prepared& prepared) {
  std::vector<std::string> names;
  if (!prepared.cluster) return names;
  const RoleMachines& machines = prepared.cluster->placed[prepared.workflow];
  const std::vector<std::uint32_t> home{prepared.self};
  const std::vector<RoleSpec>& roles = prepared.compiled().loaded.spec.roles;
  for (const PlanNode& node : prepared.compiled().plan.nodes) {
    if (node.id == entry_node || machines[node.role] == home) continue;
    const bool asks = is_split(roles[node.role], machines[node.role]) &&
                      machines[node.role].front() == prepared.self;
    if (!asks) names.push_back(node.name);
  }
  return names;
}

/// Which workflow of the cluster is to run.
Result<std::size_t> workflow_of(const RunOptions& options, const Cluster& cluster) {
  const auto& names = cluster.spec().workflows;
  if (options.file.empty() && names.size() == 1) return std::size_t{0};
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const WorkflowSpec& spec = cluster.workflows[i].loaded.spec;
    std::error_code failed;
    if (spec.name.text == options.file ||
        (!options.file.empty() && std::filesystem::equivalent(spec.file, options.file, failed)))
      return i;
    list += (i == 0 ? "" : ", ") + cluster.workflows[i].loaded.spec.name.text;
  }
  return invalid_argument(options.cluster +
                          (options.file.empty()
                               ? " has several workflows; name one: " + list
                               : " has no workflow '" + options.file + "'; there are " + list));
}

/// Which of its homes this is: the first, where nobody says.
Result<std::uint32_t> home_of(const RunOptions& options, const Cluster& cluster) {
  const std::vector<std::uint32_t> homes = cluster.spec().homes();
  if (options.name.empty()) return homes.front();
  std::string list;
  for (const std::uint32_t home : homes) {
    const std::string& name = cluster.spec().machines[home].name.text;
    if (name == options.name) return home;
    list += (list.empty() ? "" : ", ") + name;
  }
  return invalid_argument("--name " + options.name +
                          ": calls begin at no machine of that name in " + options.cluster +
                          "; they do at " + list);
}

/// Nothing: everything that is wrong was said.
std::optional<Prepared> prepare(const RunOptions& options, const Catalog& catalog) {
  Prepared prepared;
  const auto refuse = [](const std::string& message) {
    fail(message);
    return std::optional<Prepared>();
  };
  if (!options.cluster.empty()) {
    Result<Cluster> cluster =
        load_cluster_with_workflows(options.cluster, options.workflow, catalog);
    if (!cluster.ok()) return refuse(cluster.error().message);
    if (!cluster->ok()) {
      print_diagnostics(*cluster);
      return {};
    }
    prepared.cluster = std::move(cluster).value();
    const Result<std::size_t> workflow = workflow_of(options, *prepared.cluster);
    if (!workflow.ok()) return refuse(workflow.error().message);
    prepared.workflow = *workflow;
    const Result<std::uint32_t> self = home_of(options, *prepared.cluster);
    if (!self.ok()) return refuse(self.error().message);
    prepared.self = *self;
    return prepared;
  }
  Result<Compiled> compiled = compile_file(options.file, options.workflow, catalog);
  if (!compiled.ok()) return refuse(compiled.error().message);
  find_models(*compiled, catalog, Runs::here);
  if (!compiled->ok()) {
    print_diagnostics(*compiled);
    return {};
  }
  if (compiled->loaded.spec.is_library)
    return refuse(options.file + " has roles for other workflows to include, and nothing to run");
  prepared.alone = std::move(compiled).value();
  return prepared;
}

/// What runs it.
struct Running {
  std::optional<Hosted> hosted;  // where roles are in hosts
  std::unique_ptr<Runner> alone;
  std::unique_ptr<ClusterHome> home;
  Runner* runner = nullptr;
};

/// The machines are told to end, which takes a while where one stands still: who asks for the end
/// meanwhile, of which nothing is to be stopped any more, hears what another Ctrl-C does. What
/// roles that are `stuck` use stays.
void end_home(Running& running, bool stuck, const Interrupts& interrupts) {
  std::optional<StopOnInterrupt> told;
  if (interrupts.signal() == 0)
    told.emplace(interrupts, [] {
      std::fputs("note: the machines are ending; press Ctrl-C again to end at once\n", stderr);
    });
  if (stuck)
    running.home->end_processes();
  else
    running.home.reset();
}

Result<Running> begin(const Prepared& prepared, const RunOptions& options, const Catalog& catalog,
                      const std::vector<std::string>& plugins, RunnerOptions runner_options,
                      const Interrupts* interrupts) {
  Running running;
  if (prepared.cluster) {
    const StopOnInterrupt told(*interrupts, [show = runner_options.progress] {
      show("ending; press Ctrl-C again to end at once");
    });
    auto home =
        ClusterHome::begin(*prepared.cluster, prepared.self, catalog, options.workflow, plugins,
                           std::move(runner_options), std::chrono::seconds(options.join_seconds),
                           [interrupts] { return interrupts->signal() != 0; });
    if (!home.ok()) return home.error();
    running.home = std::move(home).value();
    running.runner = &running.home->runner(prepared.workflow);
    return running;
  }
  const Compiled& compiled = prepared.compiled();
  const WorkflowSpec& spec = compiled.loaded.spec;
  if (!options.isolate.roles.empty()) {
    auto hosted = isolated(options.isolate, catalog, spec, plugins);
    if (!hosted.ok()) return hosted.error();
    running.hosted = std::move(hosted).value();
  }
  auto runner = Runner::create(spec, compiled.plan,
                               running.hosted ? running.hosted->catalog : catalog, runner_options);
  if (!runner.ok()) return runner.error();
  running.alone = std::move(runner).value();
  running.runner = running.alone.get();
  return running;
}

int run(const RunOptions& options, const Catalog& catalog,
        const std::vector<std::string>& plugins) {
  const std::optional<Prepared> prepared = prepare(options, catalog);
  if (!prepared) return 1;
  const Compiled& compiled = prepared->compiled();
  const Plan& plan = compiled.plan;
  const bool many = !options.calls.empty();
  Result<OutputFiles> files = files_of(options, compiled, catalog, plugins);
  if (!files.ok()) return fail(files.error().message);
  const Result<int> lines = many ? open_calls(options.calls) : -1;
  if (!lines.ok()) return fail(lines.error().message);
  Result<CallInputs> inputs = many ? CallInputs() : inputs_of(options, plan);
  if (!inputs.ok()) return fail(inputs.error().message);
  const CallCheck check(compiled.loaded.spec, plan, many ? GivenBy::lines : GivenBy::options);
  if (Result<void> fits = check.check(*inputs); !fits.ok()) return fail(fits.error().message);
  const auto texts =
      std::ranges::count_if(output_types(compiled, catalog), [&](const OutputType& output) {
        return !is_file_type(output.type) && !files->is_named(output.name);
      });

  std::optional<Progress> progress(std::in_place);
  RunnerOptions runner_options;
  runner_options.progress = [&](std::string_view what) { progress->show(std::string(what)); };
  if (!options.trace.empty()) runner_options.trace = trace_activations_max;
  // One process leaves nothing behind when it ends while it loads; a cluster has files by then.
  std::optional<Interrupts> interrupts;
  if (prepared->cluster) interrupts.emplace(Interrupts::Of::end);
  Result<Running> running = begin(*prepared, options, catalog, plugins, runner_options,
                                  interrupts ? &*interrupts : nullptr);
  if (!running.ok()) {
    progress.reset();
    if (!interrupts || interrupts->signal() == 0) return fail(running.error().message);
    std::fprintf(stderr, "note: ended by %s before a call began\n", interrupts->words().c_str());
    return interrupts->status();
  }
  if (!interrupts) interrupts.emplace(Interrupts::Of::end);
  Runner& runner = *running->runner;
  CallsOptions calls{options.calls,
                     options.session,
                     options.concurrency.value_or(usual_concurrency(plan)),
                     &check,
                     {},
                     &*interrupts};
  if (running->home) calls.waits_for = [home = running->home.get()] { return home->waits_for(); };
  RunEnd end = many ? run_calls(calls, *lines, plan, runner, std::move(files).value(), *progress)
                    : run_one(options, plan, std::move(inputs).value(), std::move(files).value(),
                              texts > 1, runner, progress, *interrupts);
  progress.reset();
  if (!options.trace.empty())
    if (const Result<void> written =
            write_run_trace(options.trace, plan, runner.trace(), elsewhere(*prepared));
        !written.ok())
      end.status = fail(written.error().message);
  const bool stuck = runner.counts().activations != 0;
  if (running->home) end_home(*running, stuck, *interrupts);
  if (!prepared->cluster || stuck) end_beside_roles(runner, end);
  return end.status;
}

}  // namespace

void add_run(Command app, const Catalog& catalog, Chosen& chosen,
             const std::vector<std::string>& plugins) {
  auto options = std::make_shared<RunOptions>();
  Command command = app.add_subcommand("run", "Run a workflow: one call, or many");
  add_run_options(command, *options);
  command.callback([&catalog, &chosen, &plugins, options] {
    chosen = [&catalog, &plugins, options] {
      const Result<void> fits = check_run_options(*options);
      return fits.ok() ? run(*options, catalog, plugins) : fail_usage(fits.error().message);
    };
  });
}

}  // namespace sluice::cli
