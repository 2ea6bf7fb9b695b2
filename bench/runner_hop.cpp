// What a frame costs as users run it: through `Runner`, roles on threads, beside oneTBB's flow
// graph with the same bodies in the same run.
//
// A source yields a thousand frames to a chain of four nodes, each of which hands its value on; a
// hop is a node of the chain. colocated: all roles on one lane; lanes: each role on its own.
// oneTBB: function nodes with its usual and its lightweight policy, as many threads as the machine
// has. call: one frame through the four nodes, from asking to the outcome, one call at a time, as
// soon as the one before has ended; rested: the same, each after a millisecond of nothing, so that
// the threads sleep. at once: 8 of them are under way at any time, the time for one.
// CPU: of all threads of the process, the part of a figure that neighbours change least.
// allocations: calls of operator new a hop, of all threads, in the last run's streams; a call's own
// are in it. `bench_runner_hop NAME` runs the cases whose name begins so, for a profiler.
#include <oneapi/tbb/flow_graph.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <semaphore>
#include <string>
#include <string_view>
#include <vector>

#include "bench/allocations.h"
#include "bench/usage.h"
#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

constexpr int frames = 1000;
constexpr int calls = 100;  // of the streams, in one run
constexpr int runs = 7;
constexpr int at_once = 8;
constexpr int calls_at_once = 2000;  // in one run

/// Hands its value on; the source makes as many frames of it as it says.
class Pass final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    const PayloadRef& value = activation.inputs("v").front();
    const std::int64_t times = activation.interface() == "many" ? value->number : 1;
    for (std::int64_t i = 0; i < times; ++i) activation.yield("v", value);
    return {};
  }
};

std::string workflow(bool colocated) {
  const std::string together = colocated ? ", colocate: s" : "";
  std::string text = R"(
sluice: 1
workflow: chain
inputs: { v: number }
roles:
  s: { plugin: pass }
)";
  for (const char* name : {"a", "b", "c", "d"})
    text += std::string("  ") + name + ": { plugin: pass" + together + " }\n";
  text += R"(nodes:
  source: { run: s.many, inputs: [ { v: inputs.v } ], outputs: [v] }
  one: { run: a.once, inputs: [ { v: source.v } ], outputs: [v] }
  two: { run: b.once, inputs: [ { v: one.v } ], outputs: [v] }
  three: { run: c.once, inputs: [ { v: two.v } ], outputs: [v] }
  four: { run: d.once, inputs: [ { v: three.v } ], outputs: [v] }
outputs: { out: four.v }
)";
  return text;
}

class Ours {
 public:
  explicit Ours(bool colocated) {
    Plugin plugin;
    plugin.declaration.name = "pass";
    plugin.declaration.any_ports = true;
    plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
      return RoleInstance(std::unique_ptr<Role>(std::make_unique<Pass>()));
    };
    catalog_.add(std::move(plugin));
    loaded_ = load_workflow("chain.yaml", workflow(colocated));
    check(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    const Plan plan = compile(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    for (const Diagnostic& d : loaded_.diagnostics) std::puts(d.message.c_str());
    runner_ = std::move(Runner::create(loaded_.spec, plan, catalog_, {})).value();
  }
  void call(int of_frames) {
    int came = 0;
    const CallOutcome outcome =
        runner_->call({.session = "s", .inputs = {{"v", make_number(of_frames)}}},
                      [&](std::string_view, const PayloadRef&) { ++came; });
    if (outcome.ok && came == of_frames) return;
    std::fprintf(stderr, "%d of %d frames came: %s\n", came, of_frames,
                 outcome.ok ? "" : outcome.error.message.c_str());
    std::exit(1);
  }
  /// Calls of one frame, of as many sessions as are under way at once.
  void overlapping() {
    std::counting_semaphore<at_once> free(at_once);
    for (int i = 0; i < calls_at_once; ++i) {
      free.acquire();
      const CallObserver observer{nullptr, [&free](const CallOutcome& outcome) {
                                    if (!outcome.ok) std::exit(1);
                                    free.release();
                                  }};
      runner_->start({.session = std::to_string(i % at_once), .inputs = {{"v", make_number(1)}}},
                     observer);
    }
    for (int i = 0; i < at_once; ++i) free.acquire();
  }

 private:
  Catalog catalog_;
  LoadedWorkflow loaded_;
  std::unique_ptr<Runner> runner_;
};

namespace flow = oneapi::tbb::flow;

template <typename Policy>
class Theirs {
 public:
  Theirs() {
    for (int i = 0; i < 4; ++i)
      nodes_.push_back(
          std::make_unique<Node>(graph_, flow::unlimited, [](PayloadRef v) { return v; }));
    for (std::size_t i = 0; i + 1 < nodes_.size(); ++i) flow::make_edge(*nodes_[i], *nodes_[i + 1]);
    flow::make_edge(*nodes_.back(), out_);
  }
  void call(int of_frames) {
    came_ = 0;
    const PayloadRef value = make_number(1);
    for (int i = 0; i < of_frames; ++i) nodes_.front()->try_put(value);
    graph_.wait_for_all();
    if (came_ != of_frames) std::exit(1);
  }

 private:
  using Node = flow::function_node<PayloadRef, PayloadRef, Policy>;
  flow::graph graph_;
  std::vector<std::unique_ptr<Node>> nodes_;
  int came_ = 0;
  flow::function_node<PayloadRef, flow::continue_msg> out_{graph_, flow::serial,
                                                           [this](const PayloadRef&) {
                                                             ++came_;
                                                             return flow::continue_msg();
                                                           }};
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Of all threads.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Case {
  const char* name;
  std::function<void(int)> call;
  std::function<void()> overlapping;  // empty: not measured
  std::vector<double> hop_us = {}, hop_cpu_us = {}, call_us = {}, call_cpu_us = {},
                      rested_us = {}, overlapping_us = {};
  double hop_allocations = 0;
};

void rest() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  while (std::chrono::steady_clock::now() < until) {
  }
}

void measure(Case& one, bool warm_up) {
  const std::uint64_t before = allocations();
  const double cpu_before = cpu_seconds();
  const double stream = seconds_of([&] {
    for (int i = 0; i < calls; ++i) one.call(frames);
  });
  const double cpu = cpu_seconds() - cpu_before;
  one.hop_allocations = static_cast<double>(allocations() - before) / calls / frames / 4;
  std::vector<double> each, rested;
  const double cpu_between = cpu_seconds();
  for (int i = 0; i < 1000; ++i) each.push_back(seconds_of([&] { one.call(1); }) * 1e6);
  const double call_cpu = cpu_seconds() - cpu_between;
  for (int i = 0; i < 200; ++i) {
    rest();
    rested.push_back(seconds_of([&] { one.call(1); }) * 1e6);
  }
  const double overlapping = one.overlapping ? seconds_of(one.overlapping) : 0;
  if (warm_up) return;
  one.call_cpu_us.push_back(call_cpu * 1e6 / 1000);
  one.rested_us.push_back(median(rested));
  one.overlapping_us.push_back(overlapping * 1e6 / calls_at_once);
  one.hop_us.push_back(stream * 1e6 / calls / frames / 4);
  one.hop_cpu_us.push_back(cpu * 1e6 / calls / frames / 4);
  one.call_us.push_back(median(each));
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_runner_hop [CASE]"))
    return *status;
  Ours together(true), apart(false);
  Theirs<flow::queueing> usual;
  Theirs<flow::queueing_lightweight> light;
  std::vector<Case> cases{
      {"colocated", [&](int n) { together.call(n); }, [&] { together.overlapping(); }},
      {"lanes", [&](int n) { apart.call(n); }, [&] { apart.overlapping(); }},
      {"oneTBB", [&](int n) { usual.call(n); }, {}},
      {"oneTBB, lightweight", [&](int n) { light.call(n); }, {}}};
  if (argc > 1)
    std::erase_if(
        cases, [&](const Case& one) { return !std::string_view(one.name).starts_with(argv[1]); });
  for (int run = 0; run <= runs; ++run)
    for (Case& one : cases) measure(one, run == 0);
  std::printf("%d calls of %d frames through 4 nodes, median of %d runs, cases in turn\n", calls,
              frames, runs);
  std::printf("%-20s %10s %10s %14s %14s %10s %10s %10s\n", "", "us a hop", "CPU us", "allocations",
              "us a call", "CPU us", "rested", "at once");
  for (const Case& one : cases)
    std::printf("%-20s %10.2f %10.2f %14.3f %14.1f %10.1f %10.1f %10.1f\n", one.name,
                median(one.hop_us), median(one.hop_cpu_us), one.hop_allocations,
                median(one.call_us), median(one.call_cpu_us), median(one.rested_us),
                median(one.overlapping_us));
  return 0;
}
