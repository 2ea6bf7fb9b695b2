#include "cli/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "base/failpoint.h"
#include "base/signal_name.h"
#include "cli/lock_file.h"

namespace sluice::cli {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds patience{5}, hurried_patience{1};

/// Between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* arguments, bool quiet, pid_t parent, int death_signal,
                         int weights) {
  ::prctl(PR_SET_PDEATHSIG, death_signal);
  if (::getppid() != parent) ::_exit(1);  // it was gone before that held
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR);
  ::dup2(nothing, STDIN_FILENO);
  if (quiet) ::dup2(nothing, STDOUT_FILENO);
  if (weights == weights_socket) ::fcntl(weights, F_SETFD, 0);
  if (weights >= 0 && weights != weights_socket) ::dup2(weights, weights_socket);
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return "died by " + signal_name(WTERMSIG(status));
  return "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

std::string own_program() {
  std::error_code failed;
  return std::filesystem::read_symlink("/proc/self/exe", failed).string();
}

Supervisor::Supervisor(std::vector<Machine> machines, bool quiet,
                       std::function<void(const std::string&)> notice)
    : quiet_(quiet), notice_(std::move(notice)) {
  for (Machine& machine : machines) processes_.emplace_back().machine = std::move(machine);
  // The children end with the thread that made them, so it lives as long as this.
  thread_ = std::thread([this] { watch(); });
}

void Supervisor::stop() {
  if (!thread_.joinable()) return;
  stop_.ring();
  thread_.join();
}

std::vector<Supervisor::Status> Supervisor::status() const {
  const std::lock_guard lock(mutex_);
  std::vector<Status> all;
  for (const Process& process : processes_)
    all.push_back({process.machine.name, process.handle >= 0 ? process.pid : 0, process.starts,
                   process.ended, process.respawn.failing(steady_clock::now(), process.handle >= 0),
                   process.handle >= 0 && !process.is_ours});
  return all;
}

bool Supervisor::use_other(Process& process) {
  const std::optional<LockHolder> holder = lock_holder(process.machine.lock);
  if (!holder) return false;
  process.handle = static_cast<int>(::syscall(SYS_pidfd_open, holder->pid, 0));
  if (process.handle < 0) return false;
  process.pid = holder->pid;
  process.is_ours = false;
  notice_("machine '" + process.machine.name + "' is process " + std::to_string(process.pid) +
          " already, which something else has started: it is used");
  return true;
}

OwnedFile Supervisor::socket_for(const Machine& machine) const {
  if (!machine.weights) return OwnedFile();
  Result<OwnedFile> socket = machine.weights();
  if (socket.ok()) return std::move(socket).value();
  notice_("machine '" + machine.name + "' does not share weights: " + socket.error().message);
  return OwnedFile();
}

void Supervisor::start(Process& process) {
  const std::lock_guard lock(mutex_);
  if (use_other(process)) return;
  process.is_ours = true;
  ++process.starts;
  const OwnedFile weights = socket_for(process.machine);
  std::vector<char*> arguments;
  for (std::string& word : process.machine.command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  process.respawn.started(steady_clock::now());
  process.pid = ::fork();
  if (process.pid == 0)
    become(arguments.data(), quiet_, parent, process.machine.death_signal, weights.get());
  if (process.pid > 0) process.handle = static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0));
  failpoint("process_started");
  if (process.handle >= 0) return;
  process.ended = std::string("cannot be started: ") + std::strerror(errno);
  if (process.pid > 0) {
    ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
  }
  plan_next(process);
}

/// People hear of each end, until it keeps failing: then once.
void Supervisor::plan_next(Process& process) {
  const Respawn::Time now = steady_clock::now();
  process.next = process.respawn.died(now);
  const unsigned failing = process.respawn.failing(now, false);
  if (failing > Respawn::deaths_most) return;
  notice_("process '" + process.machine.name + "' " + process.ended +
          (failing == 0 ? "; it is started again"
                        : ", and the " + std::to_string(failing - 1) +
                              " before did so as soon: it is tried again every " +
                              std::to_string(Respawn::rarely.count()) + " s"));
}

void Supervisor::forget(Process& process) {
  ::close(process.handle);
  process.handle = -1;
}

void Supervisor::died(Process& process) {
  failpoint("process_died");
  int status = 0;
  if (process.is_ours) ::waitpid(process.pid, &status, 0);
  const std::lock_guard lock(mutex_);
  forget(process);
  if (!process.is_ours) {
    process.next = steady_clock::now();
    notice_("process '" + process.machine.name + "' (" + std::to_string(process.pid) +
            "), which something else had started, has ended; it is started");
    return;
  }
  process.ended = end_of(status);
  plan_next(process);
}

bool Supervisor::wait(Respawn::Time until) {
  std::vector<pollfd> events{{stop_.descriptor(), POLLIN, 0}};
  for (const Process& process : processes_) events.push_back({process.handle, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
  const int most = until == Respawn::Time::max()
                       ? -1
                       : static_cast<int>(std::max<std::int64_t>(left.count(), 0));
  ::poll(events.data(), events.size(), most);
  return events[0].revents != 0;
}

void Supervisor::watch() {
  for (;;) {
    auto next = Respawn::Time::max();
    for (Process& process : processes_) {
      if (process.handle < 0 && process.next <= steady_clock::now()) start(process);
      if (process.handle < 0) next = std::min(next, process.next);
    }
    if (wait(next)) return end_all();
    for (Process& process : processes_) {
      pollfd event{process.handle, POLLIN, 0};
      if (process.handle >= 0 && ::poll(&event, 1, 0) > 0) died(process);
    }
  }
}

bool Supervisor::has_ended(const Process& process, Respawn::Time told) {
  for (;;) {
    const auto until = told + (is_hurried_ ? hurried_patience : patience);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    std::array<pollfd, 2> events{pollfd{process.handle, POLLIN, 0},
                                 pollfd{is_hurried_ ? -1 : hurry_.descriptor(), POLLIN, 0}};
    const int found = ::poll(events.data(), events.size(),
                             static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (found < 0 && errno == EINTR) continue;
    if (found <= 0) return false;
    if (events[0].revents != 0) return true;
    is_hurried_ = true;
  }
}

void Supervisor::end_all() {
  for (const Process& process : processes_)
    if (process.handle >= 0 && process.is_ours) {
      // One that is stopped would not hear of it; after the word, this could wake one that stops
      // since.
      ::kill(process.pid, SIGCONT);
      ::kill(process.pid, SIGTERM);
    }
  const Respawn::Time told = steady_clock::now();
  for (Process& process : processes_) {
    if (process.handle < 0 || !process.is_ours) continue;
    if (!has_ended(process, told)) ::kill(process.pid, SIGKILL);
    ::waitpid(process.pid, nullptr, 0);
    const std::lock_guard lock(mutex_);
    forget(process);
  }
  const std::lock_guard lock(mutex_);
  for (Process& process : processes_)
    if (process.handle >= 0) forget(process);
}

}  // namespace sluice::cli
