// Lines from a file descriptor; another descriptor that becomes readable ends the wait.
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

  LineReader(int descriptor, int stop) : descriptor_(descriptor), stop_(stop) {}

  /// Without the line's end; the last line needs none. A byte order mark before the first line is
  /// not part of it. False: the input has ended, or `stop` became
  /// readable before a line was there.
  Result<bool> next(std::string& line);

 private:
  int descriptor_, stop_;
  std::string buffer_;
  bool ended_ = false, begun_ = false;
};

}  // namespace sluice::cli
