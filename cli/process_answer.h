// What a process of a cluster says of itself when it is asked.
//
// Errors: none; `silent` says why there is no answer.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/running.h"

namespace sluice::cli {

struct ProcessAnswer {
  nlohmann::ordered_json json;  // as cli/machine_status.h says
  std::string silent;           // why it said nothing, or nothing that can be read
};

/// Waits a second at most.
ProcessAnswer ask_process(const RunningProcess& process);

}  // namespace sluice::cli
