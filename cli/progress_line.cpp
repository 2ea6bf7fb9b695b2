#include "cli/progress_line.h"

#include <utility>

namespace sluice::cli {

void ProgressLine::begin(std::string what, Time now) {
  what_ = std::move(what);
  since_ = now;
  next_ = now + patience;
}

std::string ProgressLine::tick(Time now) {
  if (what_.empty() || now < next_ || (shared_ && line_open_)) return "";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - since_).count();
  const std::string text = what_ + ", " + std::to_string(seconds) + " s";
  if (!terminal_) {
    next_ = now + patience * 4;  // a file gets fewer lines
    return text + "\n";
  }
  shown_ = true;
  return "\r\033[K" + text;
}

std::string ProgressLine::before(std::string_view text) {
  if (text.empty()) return "";
  line_open_ = !text.ends_with('\n');
  return shared_ ? take_away() : "";
}

std::string ProgressLine::take_away() { return std::exchange(shown_, false) ? "\r\033[K" : ""; }

}  // namespace sluice::cli
