// Traces of simulated calls: Chrome's JSON, which Perfetto opens and `sluice why` reads.
#pragma once

#include <string>

#include "graph/script.h"
#include "runtime/sim/simulation.h"

namespace sluice::cli {

/// Errors: unavailable (the file cannot be written).
Result<void> write_trace(const std::string& path, const Plan& plan, const Script& script,
                         const sim::Report& report);

}  // namespace sluice::cli
