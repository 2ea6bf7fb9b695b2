// A file that the user names on the command line.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

/// Errors: not_found, invalid_argument (not a file), exhausted (more than 40 MiB; not read then).
Result<std::string> read_file(const std::string& path);

}  // namespace sluice::cli
