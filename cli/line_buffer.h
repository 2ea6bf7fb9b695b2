// Bytes as they come to numbered lines. A line that is too long is dropped and said to be so; the
// ones behind it are read all the same. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

struct NumberedLine {
  std::size_t number = 0;  // from 1
  std::string text;        // without its end
  bool too_long = false;   // then without its text
};

class LineBuffer {
 public:
  explicit LineBuffer(std::size_t line_bytes_max) : most_(line_bytes_max) {}

  void add(std::string_view bytes) { bytes_ += bytes; }
  /// No more bytes come: the last line needs no end.
  void end() { ended_ = true; }
  /// The next line; nothing while it is not there.
  std::optional<NumberedLine> take();

 private:
  const std::size_t most_;
  std::string bytes_;
  std::size_t begin_ = 0;    // of what was not taken
  std::size_t scanned_ = 0;  // no line ends before
  std::size_t lines_ = 0;
  bool skipping_ = false;  // a line that is too long
  bool ended_ = false;
};

}  // namespace sluice::cli
