// Lines that are edited in a terminal: arrows, the lines before (up and down), Ctrl-A, -E, -W.
//
// While a line is edited the terminal sends keys as they are pressed, Ctrl-C among them; between
// lines it is as it was. Another descriptor that becomes readable, or Ctrl-C, ends the wait.
// Errors: unavailable (the read failed). Thread: one; at most one exists. Source: editline(3).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"

namespace sluice::cli {

class LineEditor {
 public:
  /// Over standard input and output. Null: they are no terminal on which a line can be edited.
  static std::unique_ptr<LineEditor> open(int stop);
  virtual ~LineEditor() = default;

  /// Shows "> " and takes a line, without its end. False: the input has ended, Ctrl-C was pressed,
  /// or `stop` became readable.
  virtual Result<bool> next(std::string& line) = 0;
};

}  // namespace sluice::cli
