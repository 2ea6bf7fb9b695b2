// A scenario file to its spec, with everything that is wrong with it at once.
//
// A profile (`profile: NAME` and `nodes:`) is a scenario without calls: how long roles take.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/scenario.h"

namespace sluice {

struct LoadedScenario {
  ScenarioSpec spec;
  Diagnostics diagnostics;
  std::string text;
};

LoadedScenario load_scenario(std::string file_name, std::string_view text);
/// Errors: not_found, exhausted (larger than 1 MiB; not read then).
Result<LoadedScenario> load_scenario_file(const std::string& path);

/// True when a YAML file says that it is a scenario: a key `scenario` at its top.
bool is_scenario(std::string_view text);
/// True when it says that it is a profile.
bool is_profile(std::string_view text);

}  // namespace sluice
