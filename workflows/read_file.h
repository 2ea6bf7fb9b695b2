// A YAML file's text, refused when it is too large to be one of ours. Private to workflows/.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

/// Errors: not_found, exhausted (larger than 1 MiB; not read then).
Result<std::string> read_text_file(const std::string& path);

}  // namespace sluice
