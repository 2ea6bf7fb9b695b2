// Where a `model:` leads: what an author writes, to the directory that is meant.
//
// `~/` is the home directory, `${NAME}` a variable of the environment, `${NAME:-default}` one with
// a default. A relative path is looked for in the current directory, then beside the workflow file
// and above it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "workflows/load.h"

namespace sluice {

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The process's own.
Environment process_environment();

/// Errors: invalid_argument (a variable that is not set, a `${` that is not closed).
Result<std::string> expand_path(std::string_view path, const Environment& environment);

/// Replaces each `model:` of the spec by its directory; one that is not there is an error at its
/// place. A relative `ssd:` is one beside the workflow file, whether it is there or not.
void resolve_models(LoadedWorkflow& loaded, const Environment& environment);

}  // namespace sluice
