// `sluice node`: one machine of a cluster. `sluice up`: all but the homes, as processes here.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/bell.h"
#include "base/failpoint.h"
#include "cli/cluster.h"
#include "cli/cluster_home.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/isolate.h"
#include "cli/machine_status.h"
#include "cli/open_files.h"
#include "cli/refusals.h"
#include "cli/registry_entry.h"
#include "cli/supervisor.h"

namespace sluice::cli {

namespace {

/// From the signal to the end, whatever roles do.
constexpr unsigned stop_seconds_most = 10;
constexpr std::chrono::milliseconds entry_patience_least{10'000};

struct NodeCommand {
  std::string cluster;
  std::string name;
  bool quiet = false;
  std::vector<std::string> plugins;  // folders, for hosts of roles
  WorkflowOptions workflow;
};

/// SIGTERM, Ctrl-C, and SIGHUP where it is not ignored (nohup), from before any thread was made
/// until somebody waits for them.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    struct sigaction hangup {};
    sigaction(SIGHUP, nullptr, &hangup);
    if (hangup.sa_handler != SIG_IGN) sigaddset(&set_, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    survive_broken_pipes();  // of what it tells, lines may be lost
  }
  bool is_pending() const {
    sigset_t pending;
    sigpending(&pending);
    return std::ranges::any_of(std::array{SIGTERM, SIGINT, SIGHUP}, [&](int number) {
      return sigismember(&set_, number) == 1 && sigismember(&pending, number) == 1;
    });
  }
  void wait() const {
    int which = 0;
    while (sigwait(&set_, &which) != 0) continue;
  }
  /// Ends the program as the signal does where nobody waits for it.
  void end_by(int number) const {
    ::raise(number);
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_{};
};

/// Another Ctrl-C or SIGTERM behind the one that was waited for, which came since or comes until
/// `wait_no_more`. Not SIGHUP: a terminal that closes sends it twice.
class AnotherSignal {
 public:
  explicit AnotherSignal(std::function<void()> hurry) : hurry_(std::move(hurry)) {
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    file_ = ::signalfd(-1, &both, SFD_CLOEXEC);  // -1: none is heard
    thread_ = std::thread([this] { watch(); });
  }
  ~AnotherSignal() { wait_no_more(); }
  AnotherSignal(const AnotherSignal&) = delete;
  AnotherSignal& operator=(const AnotherSignal&) = delete;

  /// Which it was; 0: none came.
  int wait_no_more() {
    if (!thread_.joinable()) return number_;
    done_.ring();
    thread_.join();
    if (file_ >= 0) ::close(file_);
    return number_;
  }

 private:
  void watch() {
    std::array<pollfd, 2> events{pollfd{file_, POLLIN, 0}, pollfd{done_.descriptor(), POLLIN, 0}};
    while (::poll(events.data(), events.size(), -1) < 0) continue;  // another signal
    signalfd_siginfo came{};
    if (events[0].revents == 0 || ::read(file_, &came, sizeof came) != sizeof came) return;
    number_ = static_cast<int>(came.ssi_signo);
    hurry_();
  }

  const std::function<void()> hurry_;
  const Bell done_;
  int file_ = -1;
  int number_ = 0;  // of the thread, until it has ended
  std::thread thread_;
};

/// What the launcher has left open for it. None: it has not, or it is something else.
OwnedFile socket_of_launcher() {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(weights_socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != SOCK_SEQPACKET)
    return OwnedFile();
  ::fcntl(weights_socket, F_SETFD, FD_CLOEXEC);
  return OwnedFile(weights_socket);
}

/// Loaded, or everything that is wrong with it was said.
std::optional<Cluster> load(const std::string& path, const WorkflowOptions& options,
                            const Catalog& catalog) {
  Result<Cluster> cluster = load_cluster_with_workflows(path, options, catalog);
  if (!cluster.ok()) {
    fail(cluster.error().message);
    return {};
  }
  if (!cluster->ok()) {
    print_diagnostics(*cluster);
    return {};
  }
  if (Result<void> made = make_folder(*cluster); !made.ok()) {
    fail(made.error().message);
    return {};
  }
  return std::move(cluster).value();
}

/// From the registry's consent to the signal.
int serve(const Cluster& cluster, std::uint32_t number, const NodeCommand& options,
          const Catalog& catalog, const EndSignals& signals, OwnedFile launcher) {
  std::mutex telling;  // several threads do
  Refusals refusals;
  const auto notice = [&](const LinkNotice& heard) {
    if (options.quiet) return;
    const std::lock_guard lock(telling);
    const std::string line = refusals.tell(heard).value_or(heard.text);
    if (!line.empty()) std::fprintf(stderr, "%s: %s\n", options.name.c_str(), line.c_str());
  };
  // The process ends then: whoever is this machine now may be on another computer.
  std::atomic<bool> fenced{false};
  const auto end = [&](const std::string& why) {
    fail(options.name + ": " + why);
    fenced = true;
    ::kill(::getpid(), SIGTERM);
  };
  const auto forwarder = begin_forwarding(cluster, number, notice);
  if (!forwarder.ok()) return fail(options.name + ": " + forwarder.error().message);
  const auto entry = begin_entry(cluster, number, end, notice);
  if (!entry.ok()) return fail(entry.error().message);
  const auto shown = MachineStatus::show(cluster, number);
  if (!shown.ok()) return fail(shown.error().message);
  (*shown)->watch(entry->get());
  if (*entry) {
    // Who died with the name is forgotten after a lease.
    const auto patience = std::max(cluster.spec().lease * 3, entry_patience_least);
    const Result<void> entered =
        wait_for_entry(**entry, patience, [&] { return signals.is_pending(); });
    if (!entered.ok() && entered.error().code == ErrorCode::cancelled) return 0;
    if (!entered.ok() && entered.error().code == ErrorCode::stale)
      return fail(options.name + ": " + entered.error().message);
    if (!entered.ok())
      return fail(options.name + ": " + entered.error().message + "; this waited for " +
                  std::to_string(patience.count()) + " ms");
  }
  const auto hosted = with_hosts_of(cluster, number, catalog, options.plugins, std::move(launcher));
  (*shown)->show_hosts(hosted);
  const auto made = make_node(cluster, number, hosted.catalog, {}, notice, entry->get());
  if (!made.ok()) return fail(options.name + ": " + made.error().message);
  (*shown)->set(made->get(), nullptr);
  failpoint("before_ready");
  std::printf("machine '%s' is ready\n", options.name.c_str());
  std::fflush(stdout);
  failpoint("ready");
  signals.wait();
  (*shown)->set_ending();
  failpoint("told_to_end");
  ::alarm(stop_seconds_most);  // a role that never lets go does not keep the machine's name
  (*shown)->set(nullptr, nullptr);
  return fenced ? 1 : 0;
}

int node(const NodeCommand& options, const Catalog& catalog) {
  name_for_failpoints(options.name);
  const EndSignals signals;
  OwnedFile launcher = socket_of_launcher();
  const std::optional<Cluster> cluster = load(options.cluster, options.workflow, catalog);
  if (!cluster) return 1;
  const auto& machines = cluster->spec().machines;
  const auto it = std::ranges::find_if(
      machines, [&](const ClusterMachine& one) { return one.name.text == options.name; });
  if (it == machines.end()) {
    std::string list;
    for (const ClusterMachine& one : machines) list += (list.empty() ? "" : ", ") + one.name.text;
    return fail(options.cluster + " has no machine '" + options.name + "'; there are " + list);
  }
  if (it->home)
    return fail("machine '" + options.name +
                "' is a home, where calls begin: `sluice run --cluster " + options.cluster +
                (cluster->spec().homes().size() == 1 ? "" : " --name " + options.name) +
                "` is that machine");
  const auto number = static_cast<std::uint32_t>(it - machines.begin());
  if (Result<void> cores = check_cores_of(*cluster, number); !cores.ok())
    return fail(cores.error().message);
  Result<LockFile> lock = lock_machine(*cluster, number);
  if (!lock.ok()) return fail(lock.error().message);
  allow_many_open_files();
  const int status = serve(*cluster, number, options, catalog, signals, std::move(launcher));
  leave_folder(*cluster, number, std::move(lock).value());
  return status;
}

int up(const NodeCommand& options, const std::vector<std::string>& plugins,
       const Catalog& catalog) {
  name_for_failpoints("up");
  const EndSignals signals;
  const std::optional<Cluster> cluster = load(options.cluster, options.workflow, catalog);
  if (!cluster) return 1;
  const SharedWeights weights = shared_weights_of(*cluster);
  const auto machines = processes_of(*cluster, options.workflow, plugins, weights, false);
  const bool only_homes = cluster->spec().machines.size() == cluster->spec().homes().size();
  if (!machines.ok() || only_homes) {
    leave_cluster_folder(cluster->folder);
    return fail(machines.ok()
                    ? options.cluster + " has no machine but its homes: nothing is to be started"
                    : machines.error().message);
  }
  int another = 0;
  std::string why;  // nobody could ask how its processes are
  {
    const Result<LockFile> lock = lock_processes(*cluster);
    if (!lock.ok()) return fail(lock.error().message);
    const std::shared_ptr<hosts::Cgroups> cgroups = cgroups_of(*cluster);
    if (weights.exchange) allow_many_open_files();
    {
      Supervisor supervisor(*machines, false, [](const std::string& line) {
        std::fprintf(stderr, "%s\n", line.c_str());
      });
      {
        const Result<StatusSocket> status =
            StatusSocket::listen(up_status_path(cluster->folder),
                                 [&] { return launcher_json(supervisor, weights.exchange.get()); });
        if (status.ok())
          signals.wait();
        else
          why = status.error().message;
      }
      AnotherSignal hurries([&] { supervisor.hurry(); });
      supervisor.stop();
      another = hurries.wait_no_more();
    }
    remove_sockets(*cluster);  // before others may start machines of these names
  }
  leave_cluster_folder(cluster->folder);
  if (!why.empty()) return fail(why);
  if (another != 0) signals.end_by(another);  // nothing is left of it by then
  return 0;
}

Command add(Command app, const char* name, const char* what, NodeCommand& options) {
  Command command = app.add_subcommand(name, what);
  add_workflow_options(command, options.workflow);
  return command;
}

}  // namespace

void add_node(Command app, const Catalog& catalog, Chosen& chosen) {
  auto options = std::make_shared<NodeCommand>();
  Command command = add(app, "node", "Be one machine of a cluster, until SIGTERM", *options);
  command.add_option("--cluster", options->cluster, "A cluster file (YAML)")
      .type_name("FILE")
      .required();
  command.add_option("--name", options->name, "Which of its machines")
      .type_name("MACHINE")
      .required();
  command.add_flag("--quiet", options->quiet, "Say nothing about machines that come and go");
  command.callback([&catalog, &chosen, options, command] {
    options->plugins = command.option("--plugins").results();
    chosen = [&catalog, options] { return node(*options, catalog); };
  });
}

void add_up(Command app, const Catalog& catalog, Chosen& chosen,
            const std::vector<std::string>& plugins) {
  auto options = std::make_shared<NodeCommand>();
  Command command =
      add(app, "up", "Start all machines of a cluster but its homes as processes here", *options);
  command.add_option("file", options->cluster, "A cluster file (YAML)").required();
  command.callback([&catalog, &chosen, &plugins, options] {
    chosen = [&catalog, &plugins, options] { return up(*options, plugins, catalog); };
  });
}

}  // namespace sluice::cli
