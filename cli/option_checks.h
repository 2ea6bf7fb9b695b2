// Checks of what the parser of the command line takes and nobody means: an empty text, and of
// numbers -1 for one without a sign, an empty text for 0, and "nan", which no range excludes.
//
// What such a check says is that it refuses; what may be given instead is the usage's to say
// (`usage_problem`), which knows the option's range. Empty: it may be given.
#pragma once

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace sluice::cli {

inline std::string not_empty(const std::string& given) {
  return given.empty() ? "it is empty: give it a value, or leave it out" : "";
}

/// A finite number, and nothing before or behind it.
inline std::string a_number(const std::string& given) {
  const bool begins = !given.empty() && std::isspace(static_cast<unsigned char>(given[0])) == 0;
  char* end = nullptr;
  const double number = std::strtod(given.c_str(), &end);
  return begins && end == given.c_str() + given.size() && std::isfinite(number) ? "" : "no number";
}

/// A whole number that 64 bits hold; without it the parser takes the nearest that they do, and a
/// huge one for -1 where it has no sign.
template <typename Number>
std::string fits_64_bits(const std::string& given) {
  Number number = 0;
  const char* const first = given.data() + (given.starts_with('+') ? 1 : 0);
  const char* const end = given.data() + given.size();
  const auto [stop, failed] = std::from_chars(first, end, number);
  return failed == std::errc() && stop == end ? "" : "no whole number";
}

}  // namespace sluice::cli
