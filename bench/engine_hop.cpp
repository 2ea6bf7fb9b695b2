// What one hop of the control flow costs, beside oneTBB's flow graph in the same run.
//
// chain: a source and four nodes; each frame goes through all of them. diamond: each frame splits
// to two nodes, is joined again, and leaves in order; oneTBB does it with a key-matching join and a
// sequencer. Ours: one loop, roles answer inline; with two threads two loops share the sessions, as
// two processes would. Both do the same work per node: hand on a number. No thread sleeps while
// work is left.
//
// count: calls of four frames, a prompt and three pictures that go through a node of their own; a
// count group waits for all of them. oneTBB has none: a serial node keeps them by call. skipped: a
// diamond in which every second frame takes one arm only; at the end a million such frames, and
// what memory they leave behind: a key-matching join keeps the half that found no partner.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "bench/usage.h"
#include "graph/check.h"
#include "runtime/inproc/loop.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

constexpr std::int64_t frames = 100'000;
constexpr int runs = 7;

const char* const chain_yaml = R"(
sluice: 1
workflow: chain
inputs: { x: json }
roles: { any: { plugin: scripted } }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  a: { run: any.run, inputs: [ { v: source.v } ] }
  b: { run: any.run, inputs: [ { v: a.v } ] }
  c: { run: any.run, inputs: [ { v: b.v } ] }
  d: { run: any.run, inputs: [ { v: c.v } ] }
outputs: { out: d.v }
limits: { frames: 1000000000, deadline: 10m }
)";

const char* const diamond_yaml = R"(
sluice: 1
workflow: diamond
inputs: { x: json }
roles: { any: { plugin: scripted }, ordered: { plugin: scripted, balance: session } }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ] }
  a: { run: any.run, inputs: [ { v: source.v } ] }
  b: { run: any.run, inputs: [ { v: source.v } ] }
  j: { run: ordered.run, inputs: [ { l: a.v, r: b.v } ] }
outputs: { out: j.v }
limits: { frames: 1000000000, deadline: 10m }
)";

const char* const skipped_yaml = R"(
sluice: 1
workflow: skipped
inputs: { x: json }
roles: { any: { plugin: scripted }, ordered: { plugin: scripted, balance: session } }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [l, r] }
  a: { run: any.run, inputs: [ { v: source.l } ] }
  b: { run: any.run, inputs: [ { v: source.r } ] }
  j: { run: ordered.run, inputs: [ { l: a.v, r: b.v } ] }
outputs: { out: j.v }
limits: { frames: 1000000000, deadline: 10m }
)";

const char* const count_yaml = R"(
sluice: 1
workflow: count
inputs: { x: json }
roles: { any: { plugin: scripted } }
nodes:
  source: { run: any.run, inputs: [ { x: inputs.x } ], outputs: [prompt, picture] }
  a: { run: any.run, inputs: [ { v: source.picture } ] }
  j: { run: any.run, inputs: [ { p: source.prompt, c: a.v } ], count: { p: 1, c: 3 } }
outputs: { out: j.v }
limits: { frames: 1000000000, deadline: 10m }
)";

/// Answers every activation at once with its first input; the source streams `frames` of them, a
/// few at a time, so that the queue stays as short as a real driver's back-pressure would keep it.
class Inline final : public LoopHost {
 public:
  /// `skip`: every second frame of the source goes along its first edge only.
  Inline(const Plan& plan, std::int64_t count, bool skip = false)
      : plan_(plan), left_(count), skip_(skip), loop_(plan, *this) {}

  std::int64_t run() {
    PayloadRef input = make_number(0);
    loop_.call(1, {&input, 1}, Instant{0});
    loop_.run();
    while (left_ > 0) {
      constexpr std::int64_t burst = 64;
      for (std::int64_t i = std::min(left_, burst); i > 0; --i) {
        Frame* frame = loop_.new_frame(source_.node);
        frame->mask = skip_ && (left_ & 1) == 0 ? 3 : 1;
        frame->values[0] = value_;
        if (frame->mask == 3) frame->values[1] = value_;
        const bool last = --left_ == 0;
        loop_.yielded(source_.node, source_.activation, frame, last);
      }
      loop_.run();
    }
    return ended_ ? delivered_ : -1;
  }

 private:
  void start(const StartActivation& start) override {
    if (plan_.nodes[start.node].edges.size() == 0) return;
    if (start.node == 1) {
      source_ = start;
      return;
    }
    Frame* frame = loop_.new_frame(start.node);
    frame->mask = 1;
    frame->values[0] = std::move(start.inputs[0].value);
    loop_.yielded(start.node, start.activation, frame, true);
  }
  void cancel(const CancelActivation&) override {}
  void deliver(const DeliverOutput&) override { ++delivered_; }
  void end(EndCall& end) override { ended_ = end.failure == nullptr; }

  const Plan& plan_;
  std::int64_t left_;
  bool skip_;
  Loop loop_;
  StartActivation source_;
  PayloadRef value_ = make_number(1);
  std::int64_t delivered_ = 0;
  bool ended_ = false;
};

/// Calls of four frames each, 16 under way at a time.
class Counting final : public LoopHost {
 public:
  explicit Counting(const Plan& plan) : loop_(plan, *this) {}

  std::int64_t run(std::int64_t calls) {
    for (std::int64_t i = 0; i < calls; ++i) {
      PayloadRef input = value_;
      loop_.call(static_cast<std::uint64_t>(i % 16), {&input, 1}, Instant{0});
      if (i % 16 == 15) loop_.run();
    }
    loop_.run();
    return 4 * delivered_;
  }

 private:
  void start(const StartActivation& start) override {
    if (start.node != 1) return yield(start, 1, true);
    yield(start, 1, false);
    for (int i = 0; i < 3; ++i) yield(start, 2, i == 2);
  }
  void yield(const StartActivation& start, std::uint64_t mask, bool last) {
    Frame* frame = loop_.new_frame(start.node);
    frame->mask = mask;
    PayloadRef& value = start.inputs[0].value;
    frame->values[mask >> 1U] = last ? std::move(value) : value;
    loop_.yielded(start.node, start.activation, frame, last);
  }
  void cancel(const CancelActivation&) override {}
  void deliver(const DeliverOutput&) override { ++delivered_; }
  void end(EndCall& end) override {
    if (end.failure != nullptr) std::exit(1);
  }

  Loop loop_;
  PayloadRef value_ = make_number(1);
  std::int64_t delivered_ = 0;
};

Plan plan_of(const char* yaml) {
  LoadedWorkflow loaded = load_workflow("bench", yaml);
  PluginDeclaration scripted;
  scripted.name = "scripted";
  scripted.any_ports = true;
  check(loaded.spec, {scripted}, loaded.diagnostics);
  Plan plan = compile(loaded.spec, {scripted}, loaded.diagnostics);
  for (const Diagnostic& d : loaded.diagnostics) std::fprintf(stderr, "%s\n", d.message.c_str());
  return plan;
}

double seconds_of(const std::function<std::int64_t()>& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t delivered = work();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (delivered != frames) {
    std::fprintf(stderr, "%lld of %lld frames came through\n", static_cast<long long>(delivered),
                 static_cast<long long>(frames));
    std::exit(1);
  }
  return seconds;
}

/// `work(n)` on one thread, or half of it on each of two.
std::int64_t on_threads(int threads, std::int64_t n,
                        const std::function<std::int64_t(std::int64_t)>& work) {
  if (threads == 1) return work(n);
  std::int64_t done[2] = {};
  std::thread other([&] { done[1] = work(n / 2); });
  done[0] = work(n / 2);
  other.join();
  return done[0] + done[1];
}

std::int64_t ours(const Plan& plan, int threads) {
  return on_threads(threads, frames, [&](std::int64_t n) { return Inline(plan, n).run(); });
}

/// Of every two frames one comes out; counted as both.
std::int64_t ours_skipped(const Plan& plan, int threads, std::int64_t n) {
  return on_threads(threads, n, [&](std::int64_t k) { return 2 * Inline(plan, k, true).run(); });
}

std::int64_t ours_count(const Plan& plan, int threads) {
  return on_threads(threads, frames, [&](std::int64_t n) { return Counting(plan).run(n / 4); });
}

namespace flow = oneapi::tbb::flow;

/// oneTBB's input node streams as fast as the graph takes; `limiter` bounds what is under way, as
/// its documentation advises.
std::int64_t tbb_chain(int threads) {
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(threads));
  flow::graph graph;
  std::int64_t sent = 0;
  std::int64_t delivered = 0;
  const auto pass = [](std::int64_t v) { return v; };
  flow::input_node<std::int64_t> source(graph, [&](oneapi::tbb::flow_control& stop) {
    if (sent == frames) stop.stop();
    return sent++;
  });
  flow::limiter_node<std::int64_t> limiter(graph, 64);
  flow::function_node<std::int64_t, std::int64_t> a(graph, flow::unlimited, pass);
  flow::function_node<std::int64_t, std::int64_t> b(graph, flow::unlimited, pass);
  flow::function_node<std::int64_t, std::int64_t> c(graph, flow::unlimited, pass);
  flow::function_node<std::int64_t, std::int64_t> d(graph, flow::unlimited, pass);
  flow::sequencer_node<std::int64_t> order(
      graph, [](std::int64_t v) { return static_cast<std::size_t>(v); });
  flow::function_node<std::int64_t, flow::continue_msg> out(graph, flow::serial, [&](std::int64_t) {
    ++delivered;
    return flow::continue_msg();
  });
  flow::make_edge(source, limiter);
  flow::make_edge(limiter, a);
  flow::make_edge(a, b);
  flow::make_edge(b, c);
  flow::make_edge(c, d);
  flow::make_edge(d, order);
  flow::make_edge(order, out);
  flow::make_edge(out, limiter.decrementer());
  source.activate();
  graph.wait_for_all();
  return delivered;
}

std::int64_t tbb_diamond(int threads) {
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(threads));
  flow::graph graph;
  std::int64_t sent = 0;
  std::int64_t delivered = 0;
  using Pair = std::tuple<std::int64_t, std::int64_t>;
  const auto pass = [](std::int64_t v) { return v; };
  const auto key = [](std::int64_t v) { return static_cast<std::size_t>(v); };
  flow::input_node<std::int64_t> source(graph, [&](oneapi::tbb::flow_control& stop) {
    if (sent == frames) stop.stop();
    return sent++;
  });
  flow::limiter_node<std::int64_t> limiter(graph, 64);
  flow::broadcast_node<std::int64_t> split(graph);
  flow::function_node<std::int64_t, std::int64_t> a(graph, flow::unlimited, pass);
  flow::function_node<std::int64_t, std::int64_t> b(graph, flow::unlimited, pass);
  flow::join_node<Pair, flow::key_matching<std::size_t>> join(graph, key, key);
  flow::sequencer_node<Pair> order(
      graph, [](const Pair& v) { return static_cast<std::size_t>(std::get<0>(v)); });
  flow::function_node<Pair, std::int64_t> j(graph, flow::serial,
                                            [](const Pair& v) { return std::get<0>(v); });
  flow::function_node<std::int64_t, flow::continue_msg> out(graph, flow::serial, [&](std::int64_t) {
    ++delivered;
    return flow::continue_msg();
  });
  flow::make_edge(source, limiter);
  flow::make_edge(limiter, split);
  flow::make_edge(split, a);
  flow::make_edge(split, b);
  flow::make_edge(a, flow::input_port<0>(join));
  flow::make_edge(b, flow::input_port<1>(join));
  flow::make_edge(join, order);
  flow::make_edge(order, j);
  flow::make_edge(j, out);
  flow::make_edge(out, limiter.decrementer());
  source.activate();
  graph.wait_for_all();
  return delivered;
}

/// In bursts, as ours: a limiter would wait for the frames that never come out.
std::int64_t tbb_skipped(int threads, std::int64_t n, const std::function<void()>& at_end = {}) {
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(threads));
  flow::graph graph;
  std::int64_t delivered = 0;
  using Pair = std::tuple<std::int64_t, std::int64_t>;
  const auto pass = [](std::int64_t v) { return v; };
  const auto key = [](std::int64_t v) { return static_cast<std::size_t>(v); };
  flow::function_node<std::int64_t, std::int64_t> a(graph, flow::unlimited, pass);
  flow::function_node<std::int64_t, std::int64_t> b(graph, flow::unlimited, pass);
  flow::join_node<Pair, flow::key_matching<std::size_t>> join(graph, key, key);
  flow::sequencer_node<Pair> order(
      graph, [](const Pair& v) { return static_cast<std::size_t>(std::get<0>(v)) / 2; });
  flow::function_node<Pair, flow::continue_msg> out(graph, flow::serial, [&](const Pair&) {
    ++delivered;
    return flow::continue_msg();
  });
  flow::make_edge(a, flow::input_port<0>(join));
  flow::make_edge(b, flow::input_port<1>(join));
  flow::make_edge(join, order);
  flow::make_edge(order, out);
  for (std::int64_t i = 0; i < n; ++i) {
    a.try_put(i);
    if (i % 2 == 0) b.try_put(i);
    if (i % 64 == 63) graph.wait_for_all();
  }
  graph.wait_for_all();
  if (at_end) at_end();
  return 2 * delivered;
}

std::int64_t tbb_count(int threads) {
  const oneapi::tbb::global_control control(oneapi::tbb::global_control::max_allowed_parallelism,
                                            static_cast<std::size_t>(threads));
  flow::graph graph;
  std::int64_t sent = 0;
  std::int64_t delivered = 0;
  struct Item {
    std::int64_t call = 0;
    bool picture = false;
  };
  using Out = std::tuple<Item, Item>;
  flow::input_node<std::int64_t> source(graph, [&](oneapi::tbb::flow_control& stop) {
    if (sent == frames / 4) stop.stop();
    return sent++;
  });
  flow::limiter_node<std::int64_t> limiter(graph, 16);
  flow::multifunction_node<std::int64_t, Out> expand(graph, flow::unlimited,
                                                     [](std::int64_t call, auto& ports) {
                                                       std::get<0>(ports).try_put({call, false});
                                                       for (int i = 0; i < 3; ++i)
                                                         std::get<1>(ports).try_put({call, true});
                                                     });
  flow::function_node<Item, Item> a(graph, flow::unlimited, [](const Item& item) { return item; });
  struct Bucket {
    int prompts = 0;
    int pictures = 0;
  };
  std::unordered_map<std::int64_t, Bucket> buckets;
  flow::multifunction_node<Item, std::tuple<std::int64_t>> gather(
      graph, flow::serial, [&](const Item& item, auto& ports) {
        Bucket& bucket = buckets[item.call];
        ++(item.picture ? bucket.pictures : bucket.prompts);
        if (bucket.prompts < 1 || bucket.pictures < 3) return;
        buckets.erase(item.call);
        std::get<0>(ports).try_put(item.call);
      });
  flow::function_node<std::int64_t, std::int64_t> j(graph, flow::unlimited,
                                                    [](std::int64_t call) { return call; });
  flow::function_node<std::int64_t, flow::continue_msg> out(graph, flow::serial, [&](std::int64_t) {
    ++delivered;
    return flow::continue_msg();
  });
  flow::make_edge(source, limiter);
  flow::make_edge(limiter, expand);
  flow::make_edge(flow::output_port<0>(expand), gather);
  flow::make_edge(flow::output_port<1>(expand), a);
  flow::make_edge(a, gather);
  flow::make_edge(flow::output_port<0>(gather), j);
  flow::make_edge(j, out);
  flow::make_edge(out, limiter.decrementer());
  source.activate();
  graph.wait_for_all();
  return 4 * delivered;
}

/// Resident memory of this process in KiB.
long resident() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "VmRSS:") {
      long kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

void compare_memory(const Plan& plan) {
  constexpr std::int64_t million = 1'000'000;
  (void)ours_skipped(plan, 1, million / 10);
  long before = resident();
  (void)ours_skipped(plan, 1, 2 * million);
  const long mine = resident() - before;
  before = resident();
  long theirs = 0;
  (void)tbb_skipped(1, 2 * million, [&] { theirs = resident() - before; });
  std::printf("memory after a million skipped arms: ours %+ld KiB, oneTBB %+ld KiB\n", mine,
              theirs);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const char* name, int threads, const std::function<std::int64_t()>& mine,
             const std::function<std::int64_t()>& theirs) {
  std::vector<double> ours_ns;
  std::vector<double> tbb_ns;
  std::vector<double> ratios;
  for (int run = 0; run <= runs; ++run) {
    const double a = seconds_of(mine) * 1e9 / frames;
    const double b = seconds_of(theirs) * 1e9 / frames;
    if (run == 0) continue;  // warm-up
    ours_ns.push_back(a);
    tbb_ns.push_back(b);
    ratios.push_back(b / a);
  }
  std::printf("%-8s %d thread%s  ours %7.0f ns/frame  oneTBB %7.0f ns/frame  oneTBB/ours %.2f\n",
              name, threads, threads == 1 ? " " : "s", median(ours_ns), median(tbb_ns),
              median(ratios));
  std::fflush(stdout);
}

}  // namespace

/// Without arguments every case, and memory at the end; with one, that case alone.
int main(int argc, char** argv) {
  if (const auto status = usage_status(argc, argv, "usage: bench_engine_hop [CASE]"))
    return *status;
  const Plan chain = plan_of(chain_yaml);
  const Plan diamond = plan_of(diamond_yaml);
  const Plan count = plan_of(count_yaml);
  const Plan skipped = plan_of(skipped_yaml);
  struct Case {
    const char* name;
    std::function<std::int64_t(int)> ours;  // on so many threads
    std::function<std::int64_t(int)> tbb;
  };
  const Case cases[] = {
      {"chain", [&](int threads) { return ours(chain, threads); }, tbb_chain},
      {"diamond", [&](int threads) { return ours(diamond, threads); }, tbb_diamond},
      {"count", [&](int threads) { return ours_count(count, threads); }, tbb_count},
      {"skipped", [&](int threads) { return ours_skipped(skipped, threads, frames); },
       [](int threads) { return tbb_skipped(threads, frames); }},
  };
  std::printf("%lld frames, median of %d runs, pairs in turn; both spin while work is left\n",
              static_cast<long long>(frames), runs);
  for (const int threads : {1, 2})
    for (const Case& c : cases)
      if (argc < 2 || std::string_view(argv[1]) == c.name)
        compare(
            c.name, threads, [&] { return c.ours(threads); }, [&] { return c.tbb(threads); });
  if (argc < 2) compare_memory(skipped);
  return 0;
}
