// What a role costs behind the C interface of plugins, beside the same role built in, in one run.
//
// A source yields a thousand frames of a number to a chain of four nodes on one lane, each of which
// hands its value on; a hop is a node of the chain. The source is built in, in both. copy: the role
// yields a tensor of 1 MiB that it fills; built in, into its own tensor; as a plugin, once into the
// host's (`make_tensor`) and once from a buffer of its own. hosted: the plugin in a process of its
// own (`--isolate`), a hop being a round trip; beside it a byte that goes to a process and back
// through a pair of sockets.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench/usage.h"
#include "plugin/folder.h"
#include "runtime/hosts/hosted_catalog.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

constexpr int frames = 1000;
constexpr int calls = 100;
constexpr int runs = 7;
constexpr std::int64_t floats = 1 << 18;  // 1 MiB

/// As bench/plugin/pass.cpp does.
class Pass final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    if (activation.interface() == "fill") {
      Tensor tensor = std::move(Tensor::zeros(Dtype::f32, {floats})).value();
      std::ranges::fill(tensor.f32(), static_cast<float>(activation.input("v")->number));
      activation.yield("t", make_tensor(std::move(tensor)));
      return {};
    }
    const PayloadRef& value = activation.inputs("v").front();
    const std::int64_t times = activation.interface() == "many" ? value->number : 1;
    for (std::int64_t i = 0; i < times; ++i) activation.yield("v", value);
    return {};
  }
};

Plugin builtin(const PluginDeclaration& as) {
  Plugin plugin;
  plugin.declaration = as;
  plugin.declaration.name = "builtin";
  plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<Pass>()));
  };
  return plugin;
}

class World {
 public:
  /// `host`: a process of its own for these roles, by that command.
  World(const Catalog& catalog, const std::string& workflow, const hosts::HostGroup& host = {},
        const std::vector<std::string>& command = {}) {
    loaded_ = load_workflow("hops.yaml", workflow);
    const WorkflowSpec* const spec = &loaded_.spec;
    hosts::HostOptions options;
    options.command = command;
    hosted_ = hosts::host_roles(catalog, {&spec, 1}, {host}, options);
    const Plan plan = plan_workflow(loaded_, catalog.declarations());
    for (const Diagnostic& d : loaded_.diagnostics) std::fprintf(stderr, "%s\n", d.message.c_str());
    auto made = Runner::create(loaded_.spec, plan, hosted_.catalog, {});
    if (!made.ok()) {
      std::fprintf(stderr, "%s\n", made.error().message.c_str());
      std::exit(1);
    }
    runner_ = std::move(made).value();
  }
  void call(int of_frames) {
    int came = 0;
    const CallOutcome outcome =
        runner_->call({.session = "s", .inputs = {{"v", make_number(of_frames)}}},
                      [&](std::string_view, const PayloadRef&) { ++came; });
    if (outcome.ok && came == of_frames) return;
    std::fprintf(stderr, "%d frames came: %s\n", came, outcome.error.message.c_str());
    std::exit(1);
  }

 private:
  LoadedWorkflow loaded_;
  hosts::HostedCatalog hosted_;
  std::unique_ptr<Runner> runner_;
};

std::string chain(const std::string& plugin) {
  std::string text =
      "sluice: 1\nworkflow: chain\ninputs: { v: number }\nroles:\n  s: { plugin: builtin }\n";
  for (const char* name : {"a", "b", "c", "d"})
    text += std::string("  ") + name + ": { plugin: " + plugin + ", colocate: s }\n";
  return text + R"(nodes:
  source: { run: s.many, inputs: [ { v: inputs.v } ] }
  one: { run: a.once, inputs: [ { v: source.v } ] }
  two: { run: b.once, inputs: [ { v: one.v } ] }
  three: { run: c.once, inputs: [ { v: two.v } ] }
  four: { run: d.once, inputs: [ { v: three.v } ] }
outputs: { out: four.v }
)";
}

std::string fill(const std::string& plugin, const std::string& interface) {
  return "sluice: 1\nworkflow: fill\ninputs: { v: number }\nroles: { s: { plugin: builtin }, f: { "
         "plugin: " +
         plugin +
         ", colocate: s } }\nnodes:\n  source: { run: s.many, inputs: [ { v: inputs.v } ] }\n" +
         "  fill: { run: f." + interface +
         ", inputs: [ { v: source.v } ] }\noutputs: { out: fill.t }\n";
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// A process that sends back each byte.
class Echo {
 public:
  Echo() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) != 0) std::exit(1);
    pid_ = ::fork();
    ::close(ends_[pid_ != 0 ? 1 : 0]);
    if (pid_ != 0) return;
    char byte = 0;
    while (::read(ends_[1], &byte, 1) == 1 && ::write(ends_[1], &byte, 1) == 1) continue;
    ::_exit(0);
  }
  ~Echo() {
    ::close(ends_[0]);
    ::waitpid(pid_, nullptr, 0);
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;
  double us_per_round(int rounds) const {
    char byte = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i)
      if (::write(ends_[0], &byte, 1) != 1 || ::read(ends_[0], &byte, 1) != 1) std::exit(1);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    return took.count() / rounds;
  }

 private:
  std::array<int, 2> ends_{};
  pid_t pid_ = -1;
};

struct Case {
  const char* name;
  std::unique_ptr<World> world;
  int frames;
  int calls;
  int hops;
  std::vector<double> us;
};

double us_per_hop(Case& one) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < one.calls; ++i) one.world->call(one.frames);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  return took.count() / one.calls / one.frames / one.hops;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_plugin_hop [PLUGINS]"))
    return *status;
  const Echo echo;  // before there are threads
  const auto here = std::filesystem::canonical("/proc/self/exe").parent_path();
  const std::string beside = argc > 1 ? argv[1] : (here / "plugin").string();
  Catalog catalog;
  const std::string problems = add_plugins(catalog, beside);
  const Plugin* pass = catalog.find("pass");
  if (!problems.empty() || pass == nullptr) return std::fputs(problems.c_str(), stderr), 1;
  catalog.add(builtin(PluginDeclaration(pass->declaration)));
  std::vector<Case> cases;
  const std::vector<std::string> host{(here.parent_path() / "sluice").string(), "role-host",
                                      "--plugins", beside};
  const auto add = [&](const char* name, const std::string& workflow, int of, int times, int hops,
                       const hosts::HostGroup& hosted = {}) {
    cases.push_back(
        {name, std::make_unique<World>(catalog, workflow, hosted, host), of, times, hops, {}});
  };
  add("a hop, built in", chain("builtin"), frames, calls, 4);
  add("a hop, plugin", chain("pass"), frames, calls, 4);
  add("1 MiB, built in", fill("builtin", "fill"), 50, 4, 1);
  add("1 MiB, plugin, host's tensor", fill("pass", "fill"), 50, 4, 1);
  add("1 MiB, plugin, copied", fill("pass", "fill_own"), 50, 4, 1);
  add("a hop, plugin, hosted", chain("pass"), 250, 4, 4, {"h", {"a", "b", "c", "d"}});
  add("1 MiB, plugin, hosted", fill("pass", "fill"), 50, 4, 1, {"h", {"f"}});
  std::vector<double> echoes;
  for (int run = 0; run <= runs; ++run) {
    for (Case& one : cases) {
      const double us = us_per_hop(one);
      if (run != 0) one.us.push_back(us);
    }
    echoes.push_back(echo.us_per_round(4000));
  }
  std::printf("median of %d runs, cases in turn; the ratio is to the same role built in\n", runs);
  for (std::size_t i = 0; i < cases.size(); ++i)
    std::printf("%-30s %9.3f us  %5.2f x\n", cases[i].name, median(cases[i].us),
                median(cases[i].us) / median(cases[i < 2 || i == 5 ? 0 : 2].us));
  std::printf("%-30s %9.3f us\n", "a byte to a process and back", median(echoes));
  return 0;
}
