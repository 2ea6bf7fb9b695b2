// Checks of options that the parser of the command line takes and nobody means: -1 for a number
// without a sign, which becomes a huge one, and "nan", which no range excludes.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
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

/// A whole number that 64 bits hold; without it the parser takes the nearest that they do.
template <typename Number>
std::string fits_64_bits(const std::string& given) {
  Number number = 0;
  const char* const first = given.data() + (given.starts_with('+') ? 1 : 0);
  const char* const end = given.data() + given.size();
  const auto [stop, failed] = std::from_chars(first, end, number);
  if (failed == std::errc() && stop == end) return "";
  if (stop != end) return "'" + given + "' is not a whole number";
  return "'" + given + "' is not a whole number from " +
         std::to_string(std::numeric_limits<Number>::min()) + " to " +
         std::to_string(std::numeric_limits<Number>::max());
}

}  // namespace sluice::cli
