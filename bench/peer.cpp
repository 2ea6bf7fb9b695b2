#include "bench/peer.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

extern char** environ;

namespace sluice {

Result<double> ask_peer(const Peer& peer, const char* what, std::size_t tokens) {
  const auto& [program, file] = peer;
  int ends[2];
  SLUICE_CHECK(::pipe(ends) == 0, "a pipe can be had");
  const std::string count = std::to_string(tokens);
  const char* other = std::string(what) == "-p" ? "-n" : "-p";
  const char* arguments[] = {program.c_str(), "-m", file.c_str(),  "-r",  "1", "-o",
                             "json",          what, count.c_str(), other, "0", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  pid_t child = 0;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr,
                                   const_cast<char**>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t got = 0; (got = ::read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (failed != 0) return invalid_argument(program + ": " + std::strerror(failed));
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::size_t at = text.find("\"avg_ts\":");
  const double rate = at == std::string::npos ? 0 : std::strtod(text.c_str() + at + 9, nullptr);
  if (status != 0 || !(rate > 0))
    return Error{ErrorCode::unavailable, "the peer " + program + " gave no rate for " + file +
                                             " (status " + std::to_string(status) +
                                             "): " + text.substr(0, 200)};
  return rate;
}

}  // namespace sluice
