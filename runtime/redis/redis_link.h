// One connection to a Redis server of version 7 or later: a command, and its answer.
//
// Only a unix socket or a loopback address: hiredis here has no TLS. Thread: one; `ask` waits in
// the kernel, for the answer, the deadline or `stop`. After an error the connection is over, so a
// late answer is never taken for another. Errors: unavailable, deadline, corrupt, cancelled (stop).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/redis/reply.h"

namespace sluice {

/// unix:///PATH, or tcp://127.0.0.1:PORT, tcp://[::1]:PORT.
struct RedisAddress {
  std::string path;  // empty: tcp
  std::string host;
  int port = 0;
};
/// Errors: invalid_argument.
Result<RedisAddress> read_redis_address(const std::string& text);

class RedisLink {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  /// `stop`: a descriptor that is readable when nobody wants an answer any more; -1: none.
  /// Borrowed.
  static Result<RedisLink> connect(const RedisAddress& address, Deadline until, int stop);
  RedisLink(RedisLink&& other) noexcept;
  RedisLink& operator=(RedisLink&&) = delete;
  ~RedisLink();

  Result<RedisValue> ask(const std::vector<std::string>& words, Deadline until);

 private:
  RedisLink(int socket, int stop) : socket_(socket), stop_(stop) {}
  Result<void> check_version(Deadline until);
  Result<void> wait(short what, Deadline until) const;

  int socket_;
  int stop_;
  ReplyReader reader_;
};

}  // namespace sluice
