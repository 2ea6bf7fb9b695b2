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

#include <cerrno>
#include <cstring>

#include "runtime/hosts/cores.h"
#include "runtime/hosts/host_child.h"

namespace sluice::hosts {

namespace {

/// Between fork and exec: only what is safe there.
[[noreturn]] void become(char* const* arguments, int control, std::uint64_t memory,
                         std::span<const std::uint32_t> cores, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it was gone before that held
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (control == control_socket)
    ::fcntl(control, F_SETFD, 0);
  else
    ::dup2(control, control_socket);
  // Standard output is for the program's answers.
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::syscall(SYS_close_range, control_socket + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  const rlimit limit{memory, memory};
  if (memory != 0) ::setrlimit(RLIMIT_AS, &limit);
  if (!cores.empty() && !bind_to(cores)) ::_exit(127);  // they went since they were checked
  ::execv(arguments[0], arguments);
  ::_exit(127);
}

}  // namespace

Result<Spawned> spawn(std::vector<std::string> command, std::uint64_t memory,
                      const std::vector<std::uint32_t>& cores) {
  if (Result<void> usable = check_cores(cores); !usable.ok())
    return Error{usable.error().code, "cannot be started: " + usable.error().message};
  auto sockets = socket_pair(SOCK_SEQPACKET);
  if (!sockets.ok()) return sockets.error();
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Spawned spawned;
  const pid_t parent = ::getpid();
  spawned.pid = ::fork();
  if (spawned.pid == 0) become(arguments.data(), sockets->second.get(), memory, cores, parent);
  if (spawned.pid > 0)
    spawned.handle = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, spawned.pid, 0)));
  if (spawned.handle.get() < 0) {
    const std::string why = std::strerror(errno);
    if (spawned.pid > 0) {
      ::kill(spawned.pid, SIGKILL);
      ::waitpid(spawned.pid, nullptr, 0);
    }
    return Error{ErrorCode::exhausted, "cannot be started: " + why};
  }
  spawned.control = std::move(sockets->first);
  return spawned;
}

}  // namespace sluice::hosts
