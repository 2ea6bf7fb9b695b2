// Many calls of one workflow, read and answered line by line: `sluice run --calls`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "cli/output_files.h"
#include "graph/plan.h"
#include "runtime/runner.h"

namespace sluice::cli {

class CallCheck;
class Interrupts;
class Progress;

/// Calls under way at once where nobody says how many; fewer, where the workflow takes fewer:
/// whoever sends them waits rather than be refused.
inline constexpr std::size_t concurrency_usual = 8;
inline std::size_t usual_concurrency(const Plan& plan) {
  return std::min(concurrency_usual, static_cast<std::size_t>(plan.limits.calls));
}

struct CallsOptions {
  std::string source;                // a file, or `-`
  std::string session;               // of a line that names none
  std::size_t concurrency = 0;       // calls under way at once
  const CallCheck* check = nullptr;  // of what each brings, before it begins
  /// Words on machines that no call begins without, for now; empty: there are none of these.
  std::function<std::string()> waits_for;
  Interrupts* interrupts = nullptr;  // one of these cancels what is under way
};

/// How it went.
struct RunEnd {
  int status = 0;               // of the program
  std::set<std::string> stops;  // nodes where calls were stopped, which may run still

  void add(const CallOutcome& outcome) {
    const bool stopped = !outcome.ok && (outcome.error.code == ErrorCode::cancelled ||
                                         outcome.error.code == ErrorCode::deadline);
    if (stopped && !outcome.node.empty()) stops.insert(outcome.node);
  }
};

/// Standard input (`-`) or a file, as a descriptor. Before anything else is opened: where standard
/// input is closed, its number is the next file's. Errors: not_found, invalid_argument, unavailable
/// (standard input is closed).
Result<int> open_calls(const std::string& source);

/// Reads, runs and answers until the end of `source`, which it closes, on this thread alone. Exit
/// status: 0 when all calls went well. An interrupt cancels those under way and reads no more.
RunEnd run_calls(const CallsOptions& options, int source, const Plan& plan, Runner& runner,
                 OutputFiles files, Progress& progress);

}  // namespace sluice::cli
