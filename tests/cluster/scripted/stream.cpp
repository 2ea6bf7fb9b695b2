// A stream between processes whose consumer is slower than its producer, stands still, and dies.
//
//     stream_machines [FRAMES]
//
// Machine 0 calls, `a` streams on machine 1, `b` counts on machine 2. First the consumer is stopped
// (SIGSTOP) a few times for less than its lease: every frame comes once, and nobody is given up.
// Then it is killed amid streams, and started again: each of these calls ends in time with an error
// that names it, nothing comes twice, and the next call works. Exit status 0 when all
// of that is so, and the memory of no process has grown with the streams.
#include <fcntl.h>
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
#include <memory>
#include <mutex>
#include <string>
#include <utility>
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
constexpr int kills = 3;     // likewise
constexpr auto lease = 3000ms, stop = 700ms;
constexpr auto patience_most = 60s;              // with a short stream: sanitizers are slow
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
limits: { deadline: 60m }
)";

PayloadRef number_of(std::int64_t number) {
  auto* const payload = new Payload;
  payload->type = ValueType::number;
  payload->number = number;
  return PayloadRef(payload);
}

/// `a` yields the numbers below its input; `b` sees that each of a call comes once.
class Streams final : public Role {
 public:
  Result<void> run(Activation& activation) override {
    const std::int64_t number = activation.input("x")->number;
    if (activation.node() == "a") {
      for (std::int64_t i = 0; i < number && !activation.cancelled(); ++i)
        activation.yield("v", number_of(i));
      return {};
    }
    if (std::exchange(call_, activation.call()) != activation.call()) {
      seen_.clear();
      came_ = 0;
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
  std::uint64_t call_ = 0;
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
  std::int64_t told = 0;  // outputs; frames are taken in any order, so these come in any
  bool ended = false;
  CallOutcome outcome;
  std::string notices;

  bool is_whole(std::int64_t frames) const { return came == frames && told == frames / marks; }
  template <typename Condition>
  bool wait(Condition is_so, std::chrono::milliseconds patience = 60min) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, is_so);
  }
};

Result<std::unique_ptr<Node>> make_node(std::uint32_t self, const std::string& folder,
                                        const Graph& graph, const Catalog& catalog, Watch& watch) {
  NodeOptions options;
  options.machines = {"home", "maker", "taker"};
  options.self = self;
  options.placed = {{{1}, {2}}};
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
  options.incarnation = new_incarnation();
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

/// The machines that are processes of their own: this program again, so that one can be started
/// beside the home's threads.
class Machines {
 public:
  explicit Machines(std::string folder) : folder_(std::move(folder)) {
    if (::pipe(end_.data()) != 0) std::abort();
    ::fcntl(end_[1], F_SETFD, FD_CLOEXEC);
  }
  void start(std::uint32_t self) {
    const std::string number = std::to_string(self), end = std::to_string(end_[0]);
    pids_[self] = ::fork();
    if (pids_[self] != 0) return;
    ::execl("/proc/self/exe", "stream_machines", "--serve", number.c_str(), folder_.c_str(),
            end.c_str(), nullptr);
    ::_exit(127);
  }
  void kill_and_start(std::uint32_t self) {
    ::kill(pids_[self], SIGKILL);
    ::waitpid(pids_[self], nullptr, 0);
    start(self);
  }
  /// False when one of them says that something was wrong.
  bool stop() {
    bool well = true;
    ::close(end_[1]);
    for (std::uint32_t self = 1; self < machines; ++self) {
      int ended = 0;
      ::waitpid(pids_[self], &ended, 0);
      well = well && ended == 0;
    }
    return well;
  }
  pid_t pid(std::uint32_t self) const { return pids_[self]; }

 private:
  std::string folder_;
  std::array<int, 2> end_{};
  std::array<pid_t, machines> pids_{};
};

constexpr std::uint32_t maker = 1, taker = 2;

/// Of all that is kept between the streams.
struct Sizes {
  explicit Sizes(const Machines& all) : made(peak_of(all.pid(maker))), home(peak_of(::getpid())) {}
  std::uint64_t made = 0, home = 0;
};

std::shared_ptr<CallHandle> begin(Node& home, std::int64_t frames, Watch& watch) {
  {
    const std::lock_guard lock(watch.mutex);
    watch.came = watch.told = 0;
    watch.ended = false;
  }
  return home.runner(0).start({"s", {{"x", number_of(frames)}}, {}},
                              {[&](std::string_view, const PayloadRef& value) {
                                 const std::lock_guard lock(watch.mutex);
                                 ++watch.told;
                                 watch.came = std::max(watch.came, value->number);
                                 watch.changed.notify_all();
                               },
                               [&](CallOutcome outcome) {
                                 const std::lock_guard lock(watch.mutex);
                                 watch.outcome = std::move(outcome);
                                 watch.ended = true;
                                 watch.changed.notify_all();
                               }});
}

/// One stream to its end; nothing is missing.
int whole(Node& home, std::int64_t frames, Watch& watch) {
  const auto handle = begin(home, frames, watch);
  if (!watch.wait([&] { return watch.ended; }, patience_most))
    return fail("the call after a consumer's death has no outcome");
  if (!watch.outcome.ok) return fail("the call failed: " + watch.outcome.error.message);
  return watch.is_whole(frames) ? 0 : fail("frames are missing");
}

/// The consumer is slow, and stopped on the way.
int paused(Node& home, std::int64_t frames, const Machines& all, Watch& watch) {
  const Sizes before(all);
  const std::uint64_t taker_before = peak_of(all.pid(taker));
  const auto handle = begin(home, frames, watch);
  for (int i = 1; i <= stops; ++i) {
    watch.wait([&] { return watch.ended || watch.came >= frames * i / (stops + 1); });
    ::kill(all.pid(taker), SIGSTOP);
    watch.wait([&] { return watch.ended; }, stop);
    ::kill(all.pid(taker), SIGCONT);
  }
  watch.wait([&] { return watch.ended; });
  const std::uint64_t made = peak_of(all.pid(maker)) - before.made;
  const std::uint64_t taken = peak_of(all.pid(taker)) - taker_before;
  const std::lock_guard lock(watch.mutex);
  std::printf(
      "%lld of %lld frames, the consumer stopped %d times; the producer has grown by %llu "
      "KiB, the consumer by %llu KiB\n",
      static_cast<long long>(watch.came), static_cast<long long>(frames), stops,
      static_cast<unsigned long long>(made), static_cast<unsigned long long>(taken));
  if (!watch.outcome.ok) return fail("the call failed: " + watch.outcome.error.message);
  if (!watch.is_whole(frames)) return fail("frames are missing");
  if (watch.notices.find("lost") != std::string::npos) return fail(watch.notices);
  // The consumer remembers in a bit what has come, and the bits are copied when they are more.
  const std::uint64_t bits = static_cast<std::uint64_t>(frames) >> 10U;
  if (made > grown_most || taken > grown_most + bits) return fail("memory is not bounded");
  return 0;
}

/// The consumer dies amid a stream.
int killed(Node& home, std::int64_t frames, Machines& all, Watch& watch) {
  const Sizes before(all);
  std::chrono::milliseconds slowest{};
  std::int64_t lost = 0;
  for (int i = 0; i < kills; ++i) {
    const auto handle = begin(home, frames, watch);
    watch.wait([&] { return watch.ended || watch.came >= frames / 20; });
    const auto began = std::chrono::steady_clock::now();
    all.kill_and_start(taker);
    if (!watch.wait([&] { return watch.ended; }, lease + 1s))
      return fail("the call of a consumer that died has no outcome");
    slowest = std::max(slowest, std::chrono::duration_cast<std::chrono::milliseconds>(
                                    std::chrono::steady_clock::now() - began));
    const std::string& words = watch.outcome.error.message;
    if (watch.outcome.ok || words.find("machine 'taker'") == std::string::npos)
      return fail("the consumer died, and the call says: " + words);
    if (watch.told > watch.came / marks) return fail("frames came twice");
    lost += frames - watch.came;
    if (Result<void> there = home.wait_for_members(30s); !there.ok())
      return fail(there.error().message);
    if (whole(home, std::int64_t{10} * marks, watch) != 0) return 1;
  }
  const std::uint64_t made = peak_of(all.pid(maker)) - before.made;
  const std::uint64_t kept = peak_of(::getpid()) - before.home;
  std::printf(
      "the consumer killed %d times amid %lld frames: each call said so, after %lld ms at most, of "
      "%lld frames that did not come; the producer has grown by %llu KiB, the home by %llu KiB\n",
      kills, static_cast<long long>(frames), static_cast<long long>(slowest.count()),
      static_cast<long long>(lost), static_cast<unsigned long long>(made),
      static_cast<unsigned long long>(kept));
  return made > grown_most || kept > grown_most ? fail("memory is not bounded") : 0;
}

struct Flow {
  Flow() : loaded(load_workflow("stream.yaml", yaml)) {
    Plugin plugin;
    plugin.declaration.name = "streams";
    plugin.declaration.any_ports = true;
    plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
      return RoleInstance(std::unique_ptr<Role>(std::make_unique<Streams>()));
    };
    catalog.add(std::move(plugin));
    plan = plan_workflow(loaded, catalog.declarations());
  }
  Graph graph() const { return {&loaded.spec, &plan}; }

  Catalog catalog;
  LoadedWorkflow loaded;
  Plan plan;
};

/// A machine until `end` is closed.
int serve(const Flow& flow, std::uint32_t self, const std::string& folder, int end) {
  Watch watch;
  auto node = make_node(self, folder, flow.graph(), flow.catalog, watch);
  if (!node.ok()) return fail(node.error().message);
  char nothing = 0;
  while (::read(end, &nothing, 1) > 0) continue;
  // Only what was killed has another life, and that is another process.
  return (*node)->lives() == 1 ? 0 : fail("a machine has begun another life");
}

int main_of(int argc, char** argv) {
  const Flow flow;
  if (has_errors(flow.loaded.diagnostics)) return fail(flow.loaded.diagnostics.front().message);
  if (argc == 5 && std::string(argv[1]) == "--serve")
    return serve(flow, static_cast<std::uint32_t>(std::atoi(argv[2])), argv[3], std::atoi(argv[4]));
  const std::int64_t frames = (argc > 1 ? std::atoll(argv[1]) : 100'000) / marks * marks;
  std::string folder = (std::filesystem::temp_directory_path() / "sluice.XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  Machines all(folder);
  all.start(maker);
  all.start(taker);
  Watch watch;
  auto home = make_node(0, folder, flow.graph(), flow.catalog, watch);
  int status = home.ok() ? 0 : fail(home.error().message);
  if (status == 0)
    if (Result<void> there = (*home)->wait_for_members(30s); !there.ok())
      status = fail(there.error().message);
  if (status == 0) status = paused(**home, frames, all, watch);
  if (status == 0) status = killed(**home, frames, all, watch);
  if (home.ok()) home->reset();
  if (!all.stop()) status = 1;
  std::filesystem::remove_all(folder);
  return status;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::main_of(argc, argv); }
