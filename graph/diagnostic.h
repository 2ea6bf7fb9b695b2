// What is wrong with a workflow, where, and what to write instead.
//
// Units: lines and columns count from 1; 0 means "no place". Columns count bytes.
#pragma once

#include <cstdint>
#include <string>
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

inline bool has_errors(const Diagnostics& diagnostics) {
  for (const Diagnostic& d : diagnostics)
    if (d.severity == Severity::error) return true;
  return false;
}

}  // namespace sluice
