// What the roles `mortal` and `mortal_stepped` do: the last words of their process, most of it.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sluice/role.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace mortal {

using namespace sluice::plugin;

/// Returns when somebody writes to that pipe: what it read.
inline std::string wait_at(const std::string& pipe) {
  const int fd = ::open(pipe.c_str(), O_RDONLY | O_CLOEXEC);
  char byte = '?';
  if (fd < 0 || ::read(fd, &byte, 1) != 1) byte = '!';
  ::close(fd);
  return std::string(1, byte);
}

/// Uses memory until there is none.
inline void eat() {
  std::vector<std::string> eaten;
  for (;;) eaten.emplace_back(std::size_t{16} << 20U, 'x');
}

/// Runs in a child of the role's process, which gets a session of its own: its number.
template <typename Deed>
pid_t in_child(const Deed& deed) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setsid();
  deed();
  ::_exit(0);
}

/// How a child ended that took that much memory: "0", or the signal that ended it.
inline std::string child_takes(std::size_t bytes) {
  const pid_t child = in_child([bytes] {
    void* const taken =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (taken != MAP_FAILED) std::memset(taken, 1, bytes);
  });
  int status = 0;
  ::waitpid(child, &status, 0);
  return std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/// Whether so much address space can be had, of which nothing is used.
inline std::string reserve(std::size_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return "none";
  ::munmap(place, bytes);
  return "reserved";
}

/// What its process may use: the cores, each behind a space, or the bytes of address space.
inline std::string own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string text;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "!";
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) text += " " + std::to_string(core);
  return text;
}
inline std::string own_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return "!";
  return limit.rlim_cur == RLIM_INFINITY ? "any" : std::to_string(limit.rlim_cur);
}

inline void write_garbage() {
  for (int fd = 3; fd < 64; ++fd) {
    int type = 0;
    socklen_t size = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM)
      (void)!::write(fd, "what nobody has asked for, and no length", 40);
  }
}

/// Nothing: what it says stands in `said`.
inline Status act(const std::string& deed, std::string& said) {
  if (deed == "segv") ::raise(SIGSEGV);
  if (deed == "null") *static_cast<volatile int*>(nullptr) = 1;
  if (deed == "abort") std::abort();
  if (deed == "exit") std::_Exit(7);
  if (deed == "kill") ::raise(SIGKILL);
  if (deed == "stop") ::raise(SIGSTOP);
  if (deed == "loop")
    for (volatile int i = 0;; i = i + 1) continue;
  if (deed == "deaf") {
    ::signal(SIGTERM, SIG_IGN);
    for (volatile int i = 0;; i = i + 1) continue;
  }
  if (deed == "close")
    for (int fd = 3; fd < 64; ++fd) ::close(fd);
  if (deed == "garbage") write_garbage();
  if (deed == "eat") eat();
  if (deed == "throw") throw std::runtime_error("a tantrum");
  if (deed == "fail") return {Code::corrupt, "as told"};
  if (deed.starts_with("at ")) said = wait_at(deed.substr(3));
  if (deed == "process") said = std::to_string(::getpid());
  if (deed.starts_with("once ")) {  // dies while that file is there, which it removes
    if (::unlink(deed.substr(5).c_str()) == 0) ::raise(SIGSEGV);
    said = "survived";
  }
  if (deed.starts_with("then ")) {  // behind what it has said
    wait_at(deed.substr(5));
    ::raise(SIGSEGV);
  }
  if (deed == "cores") said = own_cores();
  if (deed == "memory") said = own_memory();
  if (deed == "child")  // that outlives its parent
    said = std::to_string(in_child([] {
      for (;;) ::pause();
    }));
  if (deed.starts_with("child takes ")) said = child_takes(std::stoul(deed.substr(12)) << 20U);
  if (deed.starts_with("reserve ")) said = reserve(std::stoul(deed.substr(8)) << 20U);
  if (deed == "print") (void)!::write(1, "printed\n", 8);
  return {};
}

}  // namespace mortal
