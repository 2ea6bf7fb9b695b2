// Files that a workflow includes: where a mark in one of them is.
//
// Marks of all files of one workflow are told apart by their lines: those of the n-th included file
// begin at n * `included_lines`, and its first line is one behind that.
// Bounds: no file has as many lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/diagnostic.h"

namespace sluice {

struct IncludedFile {
  std::string name;
  std::string text;
  Mark at;  // where it is named, in the file or another included one
};
using IncludedFiles = std::vector<IncludedFile>;

inline constexpr std::uint32_t included_lines = std::uint32_t{1} << 21U;

/// Which of the included files a mark is in, from 1; 0: the file itself.
inline std::uint32_t file_of(const Mark& mark) { return mark.line / included_lines; }
/// As a reader of that file counts.
inline std::uint32_t line_in_file(const Mark& mark) { return mark.line % included_lines; }

}  // namespace sluice
