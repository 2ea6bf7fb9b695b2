// Who may open a forwarded stream: machines of the cluster, each a bounded number at a time.
//
// Keeps nothing of strangers. Pure. Thread: one. Source: docs/NETWORK.md, "Redis across machines".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "runtime/zmq/stream_frame.h"

namespace sluice::links {

/// At one time, of one machine.
inline constexpr unsigned streams_of_machine_max = 16;

class StreamDesk {
 public:
  /// A stream of this machine is begun, and counts until `left`.
  struct Enter {
    std::uint32_t machine = 0;
  };
  struct Ignore {};
  using Verdict = std::variant<Enter, StreamEnd, Ignore>;

  /// `keyed`: connections have been told apart by their keys.
  explicit StreamDesk(bool keyed) : keyed_(keyed) {}
  void expect(std::uint32_t machine, std::string name) { names_[machine] = std::move(name); }

  /// Of a connection that has no stream. `proved`: the machine whose key it has shown.
  Verdict judge(const Result<StreamFrame>& frame, std::optional<std::uint32_t> proved);
  void left(std::uint32_t machine);
  std::string words_of(std::uint32_t machine) const;

 private:
  const bool keyed_;
  std::map<std::uint32_t, std::string> names_;
  std::map<std::uint32_t, unsigned> open_;
};

}  // namespace sluice::links
