// Checks of options that the parser of the command line takes and nobody means: -1 for a number
// without a sign, which becomes a huge one, and "nan", which no range excludes.
#pragma once

#include <cmath>
#include <cstdlib>
#include <string>

namespace sluice::cli {

/// Empty: it may be given.
inline std::string not_negative(const std::string& given) {
  return given.starts_with('-') ? "'" + given + "' is below 0" : std::string();
}

inline std::string a_number(const std::string& given) {
  return std::isfinite(std::strtod(given.c_str(), nullptr)) ? std::string()
                                                            : "'" + given + "' is no number";
}

}  // namespace sluice::cli
