// Whether a file is of the kind that a command wants: workflows, scenarios, profiles, cluster files
// and manifests of roles are all YAML; calls are lines of JSON.
//
// Errors: invalid_argument, which says what the file is and what to do with it. A file that cannot
// be read, or is neither, is left to who reads it.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

Result<void> check_is_workflow(const std::string& path);
Result<void> check_is_cluster(const std::string& path);
/// A cluster file but for its `cluster: 1`, of which its reader says where it is missing.
bool lacks_cluster(const std::string& path);
/// Of a role in a shared object.
bool is_manifest(const std::string& path);
Result<void> check_is_scenario(const std::string& path);
/// A profile, or a scenario, which can stand for one.
Result<void> check_is_profile(const std::string& path);
/// Lines of JSON, not YAML. What is wrong with one line is left to who reads it.
Result<void> check_is_calls(const std::string& path);
/// `path` names a checkpoint that is there: a folder or a GGUF file, not one of a folder's files.
Result<void> check_is_checkpoint(const std::string& path);

}  // namespace sluice::cli
