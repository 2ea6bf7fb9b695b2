// A cluster in virtual time: the product's own engines under a network and roles from one seed.
//
// Roles are scripts; messages take random times and overtake each other; faults come as the options
// say. After every event the oracle compares with what it knows. Same plan, script and options:
// same events, same hash, on every machine. Thread: one. Cost: memory for one record per message in
// flight and per running activation. Source: docs/SIMULATION.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/coordinator.h"
#include "graph/plan.h"
#include "graph/script.h"
#include "runtime/sim/faults.h"
#include "runtime/sim/token.h"
#include "runtime/trace.h"

namespace sluice::sim {

struct Range {
  std::chrono::nanoseconds least{};
  std::chrono::nanoseconds most{};
};

struct Options {
  std::uint64_t seed = 1;
  std::uint32_t machines = 1;  // roles are spread over them
  /// The first so many are homes of calls, one for each session. 0: one, or with faults one to
  /// three, as the seed says. With several, every machine can be lost; else not the first.
  std::uint32_t homes = 0;
  /// Roles on several machines, so many at most. 0: none, or with faults as the seed says.
  std::uint32_t spread = 0;
  /// Of each edge between two machines, in bytes. 0: none, or with faults as the seed says.
  std::size_t window = 0;
  Range link{std::chrono::microseconds(10), std::chrono::milliseconds(2)};
  /// One activation at a time per replica, in the order they start; otherwise all run at once.
  bool queue_at_replicas = false;
  /// Open loop: calls arrive this far apart on average (exponential), whatever becomes of them.
  std::chrono::nanoseconds between_calls{};
  /// Closed loop: so many calls at the beginning, and the next one whenever a call ends. 0, or at
  /// least as many as there are: all at the beginning. Without `between_calls` only.
  std::uint64_t at_once = 0;
  Faults faults;
  bool keep_firings = true;
  std::uint64_t events_max = 500'000'000;  // then it counts as endless
  bool trace = false;
};

struct CallReport {
  bool ended = false;
  bool orphaned = false;               // its home was lost: its caller heard no more than that
  std::unique_ptr<Failure> failure;    // null: ok
  std::vector<std::uint64_t> outputs;  // frames delivered, by output
  std::vector<std::string> warnings;   // sorted
  Instant arrived{};
  Instant first_output{};  // zero: none came
  Instant done{};
  std::uint64_t firings_hash = 0;  // the same for the same firings, values in the same order

  /// Of everything that must not depend on timing.
  std::uint64_t hash() const;
};

struct Report {
  std::vector<CallReport> calls;  // in the order of the script
  std::vector<Firing> firings;    // of all calls, in the order they started
  std::vector<Span> spans;
  std::vector<std::string> violations;   // what the oracle found; empty: nothing
  /// By node: most activations that waited for a replica, or sets of inputs of one call that waited
  /// at a node which drops the oldest (where each frame is a set).
  std::vector<std::size_t> queue_peaks;
  FaultCounts faults;
  std::uint64_t events = 0;
  std::uint64_t hash = 0;  // of every event in turn
  Instant finished{};
};

/// About as many events as pass in a call before the nodes that count frames have reached `limits:
/// frames`; no more than can be waited for.
std::uint64_t loop_events(const Plan& plan);

Report simulate(const Plan& plan, const Script& script, const Options& options);

}  // namespace sluice::sim
