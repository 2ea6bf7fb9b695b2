// What ran when: calls and activations of a run, a real or a simulated one.
//
// `write_trace` (cli/trace.h) makes a file of it that Perfetto opens and `sluice why` reads.
// Units: nanoseconds since the run began. Thread: data only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/frame.h"

namespace sluice {

/// One activation in time.
struct Span {
  static constexpr std::size_t nobody = ~std::size_t{0};
  std::size_t call = 0;  // index in the trace's calls
  NodeId node = 0;
  std::uint16_t group = 0;
  std::uint64_t token = 0;  // of its identity, in a simulation; 0: none
  Instant asked{};          // everything it needs was there
  Instant begin{};          // a replica took it
  Instant end{};
  std::size_t after = nobody;  // the span whose frame came last of its inputs; nobody: the caller
  Instant sent{};              // when that frame left
  std::uint64_t fields = 0;    // that came in its frames, bits by the node's outputs
  bool failed = false;         // its role said so
};

/// Inputs that came for a node with `on_full: drop_oldest` and did not run.
struct Drop {
  std::size_t call = 0;  // index in the trace's calls
  NodeId node = 0;
  Instant at{};
  bool for_newer = false;  // else they were too old, or their call was cancelled
};

/// One call, from its arrival to its end for its caller.
struct CallSpan {
  std::size_t number = 0;   // as its caller numbers it, from 1
  std::size_t session = 0;  // index in the trace's sessions
  Instant arrived{};
  std::uint64_t inputs = 0;  // that it brought, bits by the workflow's inputs
  Instant done{};
  bool ended = false;
  bool ok = false;
  std::string cause;    // the node that failed; empty where none did
  std::string message;  // of what went wrong
};

struct Trace {
  std::vector<std::string> sessions;
  std::vector<CallSpan> calls;
  std::vector<Span> spans;
  std::vector<Drop> drops;
  std::uint64_t left_out = 0;        // activations for which there was no room
  std::uint64_t drops_left_out = 0;  // likewise
};

}  // namespace sluice
