#include "cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::cli {

Result<bool> LineReader::next(std::string& line) {
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      if (!std::exchange(begun_, true) && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
      return true;
    }
    if (ended_) return false;
    if (buffer_.size() > line_bytes_max)
      return Error{ErrorCode::exhausted, "a line of the input is longer than " +
                                             std::to_string(line_bytes_max) + " bytes"};
    std::array<pollfd, 2> events{pollfd{descriptor_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0) continue;  // a signal
    if (events[1].revents != 0) return false;
    std::array<char, 4096> part;
    const ssize_t got = ::read(descriptor_, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return Error{ErrorCode::unavailable,
                   std::string("the input cannot be read: ") + std::strerror(errno)};
    if (got == 0) ended_ = true;
    buffer_.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace sluice::cli
