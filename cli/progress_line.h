// What a progress line on standard error does, beside an answer on standard output.
//
// Where both end in the same place (one terminal, one file), nothing is shown while a line of the
// answer is unfinished, and a line that is shown is taken away before the answer goes on. Pure: it
// says what to write, the caller writes.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace sluice::cli {

class ProgressLine {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds patience{2};

  /// `terminal`: standard error is one. `shared`: standard output goes to the same place.
  ProgressLine(bool terminal, bool shared, Time now)
      : terminal_(terminal), shared_(shared), since_(now), next_(now) {}

  /// What is going on from now; shown once it has taken `patience`.
  void begin(std::string what, Time now);
  /// To standard error, now and then.
  std::string tick(Time now);
  /// To standard error before `text` goes to standard output.
  std::string before(std::string_view text);
  /// To standard error at the end.
  std::string end() { return take_away(); }

 private:
  std::string take_away();

  bool terminal_, shared_;
  std::string what_;
  Time since_, next_;       // when it began, and is shown next
  bool shown_ = false;      // a line stands on the terminal
  bool line_open_ = false;  // of the answer
};

}  // namespace sluice::cli
