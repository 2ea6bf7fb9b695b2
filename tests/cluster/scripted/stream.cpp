// A stream between processes whose consumer is slower than its producer, and then stands still.
//
//     stream_machines [FRAMES]
//
// Machine 0 calls, `a` streams on machine 1, `b` counts on machine 2, which is stopped (SIGSTOP) a
// few times for less than its lease. Exit status 0 when every frame came once, nobody was given
// up, and the memory of neither process has grown with the stream.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "graph/check.h"
#include "runtime/node/node.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/load.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t machines = 3;
constexpr int marks = 1000;  // frames between two outputs
constexpr int stops = 3;     // of the consumer
constexpr auto lease = 3000ms, stop = 700ms;
constexpr std::uint64_t grown_most = 48 << 10U;  // KiB; a million frames are some hundred MiB

constexpr const char* yaml = R"(
sluice: 1
workflow: stream
inputs: { x: number }
roles: { first: { plugin: streams }, second: { plugin: streams } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
outputs: { out: b.v }
limits: { deadline: 10m }
)";

PayloadRef number_of(std::int64_t number) {
  auto* const payload = new Payload;
  payload->type = ValueType::number;
  payload->number = number;
  return PayloadRef(payload);
}

/// `a` yields the numbers below its input; `b` sees that each comes once.
class Streams final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    const std::int64_t number = activation.input("x")->number;
    if (activation.node() == "a") {
      for (std::int64_t i = 0; i < number && !activation.cancelled(); ++i)
        activation.yield("v", number_of(i));
      return {};
    }
    const auto at = static_cast<std::size_t>(number);
    if (seen_.size() <= at) seen_.resize(2 * at + 1);
    if (seen_[at]) return Error{ErrorCode::corrupt, "frame " + std::to_string(at) + " came twice"};
    seen_[at] = true;
    if (++came_ % marks == 0) activation.yield("v", number_of(came_));
    return {};
  }

 private:
  std::vector<bool> seen_;
  std::int64_t came_ = 0;
};

/// KiB, at its most so far.
std::uint64_t peak_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; file >> word;)
    if (std::uint64_t peak = 0; word == "VmHWM:" && file >> peak) return peak;
  return 0;
}

struct Watch {
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t came = 0;
  bool ended = false;
  CallOutcome outcome;
  std::string notices;

  template <typename Condition>
  bool wait(Condition is_so, std::chrono::milliseconds patience = 10min) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, is_so);
  }
};

Result<std::unique_ptr<Node>> make_node(std::uint32_t self, const std::string& folder,
                                        const Graph& graph, const Catalog& catalog, Watch& watch) {
  NodeOptions options;
  options.machines = {"home", "maker", "taker"};
  options.self = self;
  options.placed = {{1, 2}};
  options.connect = [self, folder](Origin life) {
    ZmqOptions zmq;
    zmq.self = life;
    zmq.lease = lease;
    zmq.bind = "ipc://" + folder + "/" + std::to_string(self);
    for (std::uint32_t machine = 0; machine < machines; ++machine)
      if (machine != self)
        zmq.peers.push_back({machine, "ipc://" + folder + "/" + std::to_string(machine), ""});
    return make_zmq_transport(std::move(zmq));
  };
  options.incarnation = incarnation_now();
  options.notice = [&watch](const std::string& line) {
    const std::lock_guard lock(watch.mutex);
    watch.notices += line + "\n";
  };
  return Node::create(std::span(&graph, 1), catalog, std::move(options));
}

int fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

/// The home's part: calls, and stops the consumer on the way.
int call(Node& home, std::int64_t frames, pid_t maker, pid_t taker, Watch& watch) {
  if (Result<void> there = home.wait_for_members(30s); !there.ok())
    return fail(there.error().message);
  const std::uint64_t maker_before = peak_of(maker), taker_before = peak_of(taker);
  const auto handle = home.runner(0).start({"s", {{"x", number_of(frames)}}, {}},
                                           {[&](std::string_view, const PayloadRef& value) {
                                              const std::lock_guard lock(watch.mutex);
                                              watch.came = std::max(watch.came, value->number);
                                              watch.changed.notify_all();
                                            },
                                            [&](CallOutcome outcome) {
                                              const std::lock_guard lock(watch.mutex);
                                              watch.outcome = std::move(outcome);
                                              watch.ended = true;
                                              watch.changed.notify_all();
                                            }});
  for (int i = 1; i <= stops; ++i) {
    watch.wait([&] { return watch.ended || watch.came >= frames * i / (stops + 1); });
    ::kill(taker, SIGSTOP);
    watch.wait([&] { return watch.ended; }, stop);
    ::kill(taker, SIGCONT);
  }
  watch.wait([&] { return watch.ended; });
  const std::uint64_t maker_grown = peak_of(maker) - maker_before;
  const std::uint64_t taker_grown = peak_of(taker) - taker_before;
  const std::lock_guard lock(watch.mutex);
  std::printf(
      "%lld of %lld frames, the consumer stopped %d times; the producer has grown by %llu "
      "KiB, the consumer by %llu KiB\n",
      static_cast<long long>(watch.came), static_cast<long long>(frames), stops,
      static_cast<unsigned long long>(maker_grown), static_cast<unsigned long long>(taker_grown));
  if (!watch.outcome.ok) return fail("the call failed: " + watch.outcome.error.message);
  if (watch.came != frames) return fail("frames are missing");
  if (watch.notices.find("lost") != std::string::npos) return fail(watch.notices);
  if (maker_grown > grown_most || taker_grown > grown_most) return fail("memory is not bounded");
  return 0;
}

int main_of(int argc, char** argv) {
  const std::int64_t frames = (argc > 1 ? std::atoll(argv[1]) : 100'000) / marks * marks;
  Catalog catalog;
  Plugin plugin;
  plugin.declaration.name = "streams";
  plugin.declaration.any_ports = true;
  plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<Streams>()));
  };
  catalog.add(std::move(plugin));
  LoadedWorkflow loaded = load_workflow("stream.yaml", yaml);
  const Plan plan = plan_workflow(loaded, catalog.declarations());
  if (has_errors(loaded.diagnostics)) return fail(loaded.diagnostics.front().message);
  const Graph graph{&loaded.spec, &plan};

  std::string folder = (std::filesystem::temp_directory_path() / "sluice.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  std::array<int, 2> end{};
  if (::pipe(end.data()) != 0) return 1;
  Watch watch;
  std::array<pid_t, machines> pids{};
  for (std::uint32_t self = 1; self < machines; ++self) {
    pids[self] = ::fork();
    if (pids[self] != 0) continue;
    ::close(end[1]);
    auto node = make_node(self, folder, graph, catalog, watch);
    if (!node.ok()) ::_exit(fail(node.error().message));
    char nothing = 0;
    while (::read(end[0], &nothing, 1) > 0) continue;
    const bool once = (*node)->lives() == 1;
    node->reset();
    ::_exit(once ? 0 : fail("a machine has begun another life"));
  }
  int status = 1;
  if (auto home = make_node(0, folder, graph, catalog, watch); home.ok())
    status = call(**home, frames, pids[1], pids[2], watch);
  else
    status = fail(home.error().message);
  ::close(end[1]);
  for (std::uint32_t self = 1; self < machines; ++self) {
    int ended = 0;
    ::waitpid(pids[self], &ended, 0);
    if (ended != 0) status = 1;
  }
  std::filesystem::remove_all(folder);
  return status;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::main_of(argc, argv); }
