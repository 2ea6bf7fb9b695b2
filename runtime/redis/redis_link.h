// One connection to a Redis server of version 7 or later: a command, and its answer.
//
// Only a unix socket, a loopback address, or a stream that somebody else carries: hiredis here has
// no TLS. Thread: one; `ask` waits in
// the kernel, for the answer, the deadline or `stop`. After an error the connection is over, so a
// late answer is never taken for another. Errors: unavailable, deadline, corrupt, cancelled (stop).
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/redis/reply.h"

namespace sluice {

/// A stream to a server that somebody else carries.
struct RedisStream {
  int socket = -1;  // connected; does not block; whoever has this closes it
  /// Why it gives nothing, as things are now: for people, of a server that is called `it`.
  std::function<std::string()> why;
};

/// unix:///PATH, or tcp://127.0.0.1:PORT, tcp://[::1]:PORT.
struct RedisAddress {
  std::string path;  // empty: tcp
  std::string host;
  int port = 0;
  /// Where there is one, it is reached by such streams alone. Never waits.
  std::function<Result<RedisStream>()> open{};
};
/// Errors: invalid_argument.
Result<RedisAddress> read_redis_address(const std::string& text);
/// A socket that does not block and is connected, or is about to be. `open` says nothing here.
/// Errors: invalid_argument, unavailable.
Result<int> connect_redis(const RedisAddress& address);

/// As whom the server is asked.
struct RedisLogin {
  std::string user;
  std::string password;  // sent to the server, and nowhere else
  std::string file;      // that it was read from, for people
};

class RedisLink {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  /// `stop`: a descriptor that is readable when nobody wants an answer any more; -1: none.
  /// Borrowed. `login`: said before all else; nothing: asked as `default`, without a password.
  static Result<RedisLink> connect(const RedisAddress& address, Deadline until, int stop,
                                   const std::optional<RedisLogin>& login = std::nullopt);
  RedisLink(RedisLink&& other) noexcept;
  RedisLink& operator=(RedisLink&&) = delete;
  ~RedisLink();

  Result<RedisValue> ask(const std::vector<std::string>& words, Deadline until);

 private:
  RedisLink(int socket, int stop, std::function<std::string()> why)
      : socket_(socket), stop_(stop), why_(std::move(why)) {}
  static Result<RedisLink> dial(const RedisAddress& address, Deadline until, int stop);
  /// As whoever carries the stream knows it.
  Error named(Error error) const;
  Result<void> log_in(const RedisLogin& login, Deadline until);
  Result<void> check_version(Deadline until);
  Result<void> wait(short what, Deadline until) const;

  int socket_;
  int stop_;
  std::function<std::string()> why_;  // of a stream that somebody else carries
  ReplyReader reader_;
};

}  // namespace sluice
