// Other programs that a bench starts, two at a time: one that serves, and one whose words it reads;
// and the processor time that a child takes.
//
// Thread: one; it waits for both processes. Errors: no words.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "bench/raw_socket.h"

namespace sluice {

/// A program with its standard output in a pipe; nothing is looked at that it says otherwise. Not
/// forked: each page that this process writes next would be copied or faulted for, amid what is
/// measured.
inline pid_t started(const std::vector<std::string>& words, int& out) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::exit(1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ) != 0)
    std::exit(1);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  out = ends[0];
  return child;
}

/// Seconds of processor time of this process and of `child`, all threads.
inline double busy_seconds(pid_t child) {
  clockid_t of_child{};
  timespec ours{}, theirs{};
  if (clock_getcpuclockid(child, &of_child) != 0 || clock_gettime(of_child, &theirs) != 0 ||
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ours) != 0)
    std::exit(1);
  const auto seconds = [](const timespec& time) {
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  return seconds(ours) + seconds(theirs);
}

/// What `client` says, tried until `server` listens; empty: it fails.
inline std::string said_beside(const std::vector<std::string>& server,
                               const std::vector<std::string>& client) {
  int unread = -1;
  const pid_t other = started(server, unread);
  std::string said;
  int status = 1;
  for (const auto until = Clock::now() + std::chrono::seconds(10);
       status != 0 && Clock::now() < until;) {
    int out = -1;
    const pid_t child = started(client, out);
    said.clear();
    char some[4096];
    for (ssize_t got = 0; (got = read(out, some, sizeof some)) > 0;)
      said.append(some, static_cast<std::size_t>(got));
    close(out);
    waitpid(child, &status, 0);
  }
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  close(unread);
  return status == 0 ? said : std::string();
}

}  // namespace sluice
