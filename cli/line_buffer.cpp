#include "cli/line_buffer.h"

namespace sluice::cli {

std::optional<NumberedLine> LineBuffer::take() {
  const std::size_t end = bytes_.find('\n', scanned_);
  const bool has_end = end != std::string::npos;
  if (!has_end) {
    scanned_ = bytes_.size();
    if (bytes_.size() - begin_ > most_) {
      skipping_ = true;
      bytes_.clear();
      begin_ = scanned_ = 0;
    } else if (begin_ > 0) {
      bytes_.erase(0, begin_);
      scanned_ -= begin_;
      begin_ = 0;
    }
    if (!ended_ || (bytes_.empty() && !skipping_)) return std::nullopt;
  }
  const std::size_t length = (has_end ? end : bytes_.size()) - begin_;
  NumberedLine line{++lines_, "", skipping_ || length > most_};
  if (!line.too_long) line.text = bytes_.substr(begin_, length);
  if (line.text.ends_with('\r')) line.text.pop_back();
  begin_ = scanned_ = has_end ? end + 1 : bytes_.size();
  skipping_ = false;
  return line;
}

}  // namespace sluice::cli
