// A file's bytes, whole, and whether one is there.
//
// Only of regular files: a pipe would be waited for, and a device may never end.
// Errors: not_found, invalid_argument (no regular file, or not readable), exhausted.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace sluice {

/// At most `bytes_max`; more is refused before anything is allocated.
Result<std::string> read_whole_file(const std::string& path, std::size_t bytes_max);

/// Whether a file or a folder is there, where links lead. Errors: invalid_argument (it cannot be
/// known: a folder on the way to it may not be entered).
Result<bool> is_there(const std::string& path);

}  // namespace sluice
