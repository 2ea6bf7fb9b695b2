#include "runtime/hosts/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/hosts/cores.h"
#include "runtime/hosts/host_child.h"

namespace sluice::hosts {

namespace {

/// What a process becomes. Descriptors are this program's.
struct Becoming {
  char* const* arguments = nullptr;
  int control = -1;
  std::uint64_t memory = 0;
  std::span<const std::uint32_t> cores;
  int cgroup = -1;         // its entrance
  int cgroup_answer = -1;  // errno of entering it goes here
};

/// In a cgroup, or with so much address space.
void limit_memory(const Becoming& becoming) {
  int entered = -1;
  if (becoming.cgroup >= 0) {
    entered = ::write(becoming.cgroup, "0", 1) == 1 ? 0 : errno;
    (void)!::write(becoming.cgroup_answer, &entered, sizeof entered);
  }
  const rlimit limit{becoming.memory, becoming.memory};
  if (becoming.memory != 0 && entered != 0) ::setrlimit(RLIMIT_AS, &limit);
}

/// Between fork and exec: only what is safe there.
[[noreturn]] void become(const Becoming& becoming, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it was gone before that held
  limit_memory(becoming);                 // while all descriptors are where they were
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (becoming.control == control_socket)
    ::fcntl(becoming.control, F_SETFD, 0);
  else
    ::dup2(becoming.control, control_socket);
  // Standard output is for the program's answers.
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::syscall(SYS_close_range, control_socket + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  if (!becoming.cores.empty() && !bind_to(becoming.cores))
    ::_exit(127);  // they went since they were checked
  ::execv(becoming.arguments[0], becoming.arguments);
  ::_exit(127);
}

}  // namespace

Result<Spawned> spawn(std::vector<std::string> command, std::uint64_t memory,
                      const std::vector<std::uint32_t>& cores, int cgroup) {
  if (Result<void> usable = check_cores(cores); !usable.ok())
    return Error{usable.error().code, "cannot be started: " + usable.error().message};
  auto sockets = socket_pair(SOCK_SEQPACKET);
  if (!sockets.ok()) return sockets.error();
  std::array<int, 2> answer{-1, -1};
  if (cgroup >= 0 && ::pipe2(answer.data(), O_CLOEXEC) != 0)
    return Error{ErrorCode::exhausted, std::string("no pipe: ") + std::strerror(errno)};
  const OwnedFile answers(answer[0]);
  OwnedFile answered(answer[1]);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Spawned spawned;
  const pid_t parent = ::getpid();
  spawned.pid = ::fork();
  if (spawned.pid == 0)
    become({arguments.data(), sockets->second.get(), memory, cores, cgroup, answered.get()},
           parent);
  if (spawned.pid > 0)
    spawned.handle = OwnedFile(static_cast<int>(::syscall(SYS_pidfd_open, spawned.pid, 0)));
  if (spawned.handle.get() < 0) {
    const std::string why = std::strerror(errno);
    if (spawned.pid > 0) {
      ::kill(spawned.pid, SIGKILL);
      ::waitpid(spawned.pid, nullptr, 0);
    }
    return Error{ErrorCode::exhausted, "cannot be started: " + why};
  }
  answered.close();
  if (cgroup >= 0) {
    ssize_t came = -1;
    do came = ::read(answers.get(), &spawned.not_in_cgroup, sizeof spawned.not_in_cgroup);
    while (came < 0 && errno == EINTR);
    if (came != sizeof spawned.not_in_cgroup) spawned.not_in_cgroup = ESRCH;  // it died at once
  }
  spawned.control = std::move(sockets->first);
  return spawned;
}

}  // namespace sluice::hosts
