// One value given beside a workflow file, for a place in it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

struct Override {
  std::string path;   // "roles.llm.options.temperature"; an entry of a list is its number, from 0
  std::string value;  // YAML
};

/// Of `PATH=VALUE`; a path has at most 16 parts. Errors: invalid_argument.
Result<Override> parse_override(std::string_view text);

}  // namespace sluice
