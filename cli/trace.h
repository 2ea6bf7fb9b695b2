// Traces of runs and simulations as files: Chrome's JSON, which Perfetto opens and `sluice why`
// reads.
#pragma once

#include <string>
#include <vector>

#include "graph/plan.h"
#include "graph/script.h"
#include "runtime/sim/simulation.h"
#include "runtime/trace.h"

namespace sluice::cli {

/// `elsewhere`: names of nodes that ran on other machines, of whose activations the trace knows
/// nothing. Errors: unavailable (the file cannot be written).
Result<void> write_trace(const std::string& path, const Plan& plan, const Trace& trace,
                         const std::vector<std::string>& elsewhere = {});

/// Of the activations of a run, as many as a trace holds.
inline constexpr std::size_t trace_activations_max = 1'000'000;

/// `write_trace`, and says where it is on standard error.
Result<void> write_run_trace(const std::string& path, const Plan& plan, const Trace& trace,
                             const std::vector<std::string>& elsewhere);

/// Of a simulation's calls; takes the spans out of the report.
Trace trace_of(const Plan& plan, const Script& script, sim::Report& report);

}  // namespace sluice::cli
