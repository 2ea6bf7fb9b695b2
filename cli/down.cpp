// `sluice down`: ends the processes of a cluster that run on this computer as this user.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/count_text.h"
#include "cli/commands.h"
#include "cli/running.h"

namespace sluice::cli {

namespace {

using std::chrono::steady_clock;
/// More than a process gives itself to end.
constexpr std::chrono::seconds end_patience{12};
/// A launcher may start again what ends, or one was starting meanwhile.
constexpr int rounds_most = 3;

/// A process of another, which it cannot be confused with a later one of its number.
class Process {
 public:
  explicit Process(int handle) : handle_(handle) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() { ::close(handle_); }

  bool signal(int number) const {
    return ::syscall(SYS_pidfd_send_signal, handle_, number, nullptr, 0) == 0;
  }
  bool ends_within(std::chrono::milliseconds patience) const {
    const auto until = steady_clock::now() + patience;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
      pollfd event{handle_, POLLIN, 0};
      const int ended =
          ::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (ended >= 0) return ended > 0;
      if (errno != EINTR) return false;
    }
  }

 private:
  int handle_;
};

struct Ending {
  std::string who;
  std::unique_ptr<Process> process;  // null: it could not be held
  std::string why;                   // where it could not, and is not gone
};

/// All of them before any ends: most end with another.
std::vector<Ending> hold(const std::vector<RunningProcess>& running) {
  std::vector<Ending> endings;
  for (const RunningProcess& one : running) {
    const std::string who = people_name(one.machine) + " (pid " + std::to_string(one.pid) + ")";
    const Result<int> handle = open_process(one);
    Ending& ending = endings.emplace_back(Ending{who, {}, {}});
    if (handle.ok())
      ending.process = std::make_unique<Process>(*handle);
    else if (handle.error().code != ErrorCode::not_found)
      ending.why = handle.error().message;
  }
  return endings;
}

/// False when it could not be ended.
bool end(const Ending& ending) {
  const char* who = ending.who.c_str();
  if (!ending.why.empty()) {
    std::fprintf(stderr, "error: %s cannot be ended: %s\n", who, ending.why.c_str());
    return false;
  }
  if (!ending.process) return true;
  const Process& process = *ending.process;
  process.signal(SIGCONT);  // one that is stopped would not hear of it
  process.signal(SIGTERM);
  if (process.ends_within(end_patience)) {
    std::printf("%s has ended\n", who);
    return true;
  }
  process.signal(SIGKILL);
  if (process.ends_within(end_patience)) {
    std::printf("%s did not end within %d s and was killed\n", who,
                static_cast<int>(end_patience.count()));
    return true;
  }
  std::fprintf(stderr, "error: %s cannot be ended\n", who);
  return false;
}

int down(const std::string& file) {
  const ClusterPlace place = read_cluster_place(file);
  for (int round = 0; round < rounds_most; ++round) {
    const Result<std::vector<RunningProcess>> running = find_running(place);
    if (!running.ok()) {
      if (running.error().code != ErrorCode::not_found) return fail(running.error().message);
      const std::vector<std::string> held = held_locks(place);
      if (!held.empty())
        return fail(held.front() + " of " + file +
                    " is just starting or ending, and has no socket yet: try again");
      const std::size_t left = remove_leftovers(place);
      if (left > 0)
        std::printf("removed %s of processes that had been killed\n",
                    count_text(left, "file").c_str());
      if (round == 0 && left == 0) return place.is_read() ? fail(running.error().message) : 1;
      return 0;
    }
    for (const Ending& ending : hold(*running))
      if (!end(ending)) return 1;
  }
  return fail("processes of " + file + " are started again as they end: end what starts them");
}

}  // namespace

void add_down(Command app, Chosen& chosen) {
  auto file = std::make_shared<std::string>();
  Command command =
      app.add_subcommand("down", "End the machines of a cluster that run on this computer");
  const Option alone = command.add_option("file", *file, "A cluster file (YAML)").type_name("FILE");
  command.add_option("--cluster", *file, "The same").type_name("FILE").excludes(alone);
  command.callback([&chosen, file] {
    chosen = [file] {
      return file->empty() ? fail_usage("`sluice down` needs file: A cluster file (YAML)")
                           : down(*file);
    };
  });
}

}  // namespace sluice::cli
