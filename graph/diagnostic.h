// What is wrong with a workflow, where, and what to write instead.
//
// Units: lines and columns count from 1, columns in characters; 0 means "no place".
// Bounds: a file gets at most `diagnostics_max` of them, a text at most `diagnostic_bytes_max`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// A place in a workflow file: the offending key or value.
struct Mark {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t length = 1;
};

enum class Severity : std::uint8_t { error, warning };

struct Diagnostic {
  Severity severity = Severity::error;
  Mark mark;
  std::string code;        // stable, kebab-case: "unknown-node"
  std::string message;     // what is wrong, with the names involved
  std::string suggestion;  // what to write instead; may be empty
};

using Diagnostics = std::vector<Diagnostic>;

inline constexpr std::size_t diagnostics_max = 200;
inline constexpr std::size_t diagnostic_bytes_max = 800;

bool has_errors(const Diagnostics& diagnostics);

/// No more are kept: looking for what was meant is in vain.
inline bool is_full(const Diagnostics& diagnostics) {
  return diagnostics.size() >= diagnostics_max;
}

/// Adds one, cut to the limits. When there are as many as are kept, the first error still is.
void report(Diagnostics& diagnostics, Diagnostic diagnostic);

/// A file's own words for a message: in single quotes, and cut when they are longer than a name.
std::string in_quotes(std::string_view text);

}  // namespace sluice
