// A server that all machines of a cluster ask, beside the links between them: who asks it, and
// through what.
//
// Nothing depends on it: who asks goes on without an answer. Thread: a client is called by one
// thread of the port's, and by `open` and `close` not at all; `wake` from any.
// Units: nanoseconds of a clock that only rises.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

struct IndexQuestion {
  std::uint64_t number = 0;        // that its answer comes with
  std::vector<std::string> words;  // a command, of any bytes
  std::chrono::nanoseconds patience{};
};

/// One question of a client is open at a time.
class IndexClient {
 public:
  using Instant = std::chrono::nanoseconds;

  virtual ~IndexClient() = default;
  /// What is to be asked now. Nothing: not before `due`.
  virtual std::optional<IndexQuestion> ask(Instant now) = 0;
  virtual Instant due() const = 0;
  /// The answer: a list of texts.
  virtual void answered(std::uint64_t number, const std::vector<std::string>& words,
                        Instant now) = 0;
  /// The server refuses the question.
  virtual void refused(std::uint64_t number, const std::string& why, Instant now) = 0;
  /// There is no answer and no connection.
  virtual void broke(const std::string& why, Instant now) = 0;
  /// The last that is said when the client has gone, if the server answers at once.
  virtual std::vector<std::string> farewell() const = 0;
};

class IndexPort {
 public:
  virtual ~IndexPort() = default;
  /// What the cluster's keys begin with, of letters, digits, `_` and `-`.
  virtual const std::string& cluster() const = 0;
  /// How long what a machine has said is believed.
  virtual std::chrono::milliseconds lease() const = 0;
  /// Borrows it until `close`, after which it is not called any more.
  virtual void open(IndexClient& client) = 0;
  virtual void close(IndexClient& client) = 0;
  /// A client's `due` may have become earlier.
  virtual void wake() = 0;
};

}  // namespace sluice
