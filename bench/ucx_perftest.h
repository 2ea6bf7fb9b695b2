// What ucx_perftest makes of reads between two processes of its own, beside which ours stand.
//
// Units: bytes a second. Thread: one; it waits for both processes. Errors: it ends this process.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/raw_socket.h"

namespace sluice {

/// A program with its standard output in a pipe; nothing is looked at that it says otherwise.
inline pid_t started(const std::vector<std::string>& words, int& out) {
  int ends[2];
  if (pipe(ends) != 0) std::exit(1);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    dup2(open("/dev/null", O_WRONLY), 2);
    close(ends[0]);
    close(ends[1]);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  out = ends[0];
  return child;
}

/// Bytes a second of ucx_perftest's gets of `size`, in two processes of its own.
inline double perftest_rate(std::size_t size, std::size_t gets) {
  const std::vector<std::string> server{SLUICE_UCX_PERFTEST, "-p", "47314", "-f"};
  std::vector<std::string> client{SLUICE_UCX_PERFTEST,
                                  "127.0.0.1",
                                  "-p",
                                  "47314",
                                  "-f",
                                  "-v",
                                  "-t",
                                  "ucp_get",
                                  "-s",
                                  std::to_string(size),
                                  "-n",
                                  std::to_string(gets),
                                  "-w",
                                  std::to_string(gets / 4 + 1)};
  int unread = -1;
  const pid_t other = started(server, unread);
  std::string said;
  int status = 1;
  // Until the other one listens.
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
  const std::size_t last = said.find_last_of(',');  // messages a second
  if (status != 0 || last == std::string::npos) {
    std::fprintf(stderr, SLUICE_UCX_PERFTEST " failed: %s\n", said.c_str());
    std::exit(1);
  }
  return std::strtod(said.c_str() + last + 1, nullptr) * static_cast<double>(size);
}

}  // namespace sluice
