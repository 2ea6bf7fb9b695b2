// What is said to somebody whose connection nobody knows yet: who may come in, and as whom.
//
// Keeps nothing of strangers, so that they cost no memory here. Pure. Thread: one.
// Source: docs/NETWORK.md; FAILURES, security.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runtime/zmq/parcel.h"
#include "runtime/zmq/peer.h"

namespace sluice::links {

/// A stranger's word is to be given to this machine's peer.
struct Enter {
  std::uint32_t machine = 0;
};
/// Nothing is answered.
struct Ignore {};
using Verdict = std::variant<Enter, Refusal, Ignore>;

class Door {
 public:
  /// `keyed`: connections have been told apart by their keys.
  Door(Origin self, bool keyed) : self_(self), keyed_(keyed) {}
  /// `name`: for people; may be empty.
  void expect(std::uint32_t machine, std::string name = "") {
    expected_[machine] = std::move(name);
  }

  /// `proved`: the machine whose key the connection has shown, if keys are used.
  Verdict judge(const Result<Head>& head, std::optional<std::uint32_t> proved) const;

 private:
  Origin self_;
  bool keyed_;
  std::string words_of(std::uint32_t machine) const;

  std::map<std::uint32_t, std::string> expected_;  // with their names
};

/// Lets some lines a second through, and says how many it kept back.
class NoticeLimit {
 public:
  /// The line to print, if it may be now.
  std::optional<std::string> pass(const std::string& line, Instant now);

 private:
  Instant second_{};
  unsigned passed_ = 0;
  std::uint64_t kept_back_ = 0;
};

}  // namespace sluice::links
