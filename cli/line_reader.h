// Lines from a file descriptor, of which a signal ends the wait.
//
// Bounds: a line has at most 1 MiB. Errors: exhausted (a longer one), unavailable (the read
// failed).
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

class LineReader {
 public:
  static constexpr std::size_t line_bytes_max = std::size_t{1} << 20;

  explicit LineReader(int descriptor) : descriptor_(descriptor) {}

  /// Without the line's end; the last line needs none. False: the input has ended, or a signal came
  /// before a line did.
  Result<bool> next(std::string& line);

 private:
  int descriptor_;
  std::string buffer_;
  bool ended_ = false;
};

}  // namespace sluice::cli
