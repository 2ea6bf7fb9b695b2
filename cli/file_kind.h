// Whether a file is of the kind that a command wants: a workflow and a scenario are both YAML.
//
// Errors: invalid_argument, which says what the file is and what to do with it. A file that cannot
// be read, or is neither, is left to who reads it.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

Result<void> check_is_no_scenario(const std::string& path);
Result<void> check_is_no_workflow(const std::string& path);
/// `path` names a checkpoint: a folder or a GGUF file, not one of a folder's files.
Result<void> check_is_checkpoint(const std::string& path);

}  // namespace sluice::cli
