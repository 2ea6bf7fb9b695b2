#include "runtime/zmq/stream_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::links {

namespace {

bool is_for_later(int error) { return error == EAGAIN || error == EINTR; }

}  // namespace

StreamSocket::StreamSocket(StreamSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), connects_(other.connects_) {}

StreamSocket::~StreamSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<short> StreamSocket::wanted(const StreamHalf& half) const {
  if (connects_) return POLLOUT;
  const int events = (half.may_read() != 0 ? POLLIN : 0) | (half.to_write().empty() ? 0 : POLLOUT);
  if (events == 0 && half.phase() != StreamHalf::Phase::opening) return std::nullopt;
  return static_cast<short>(events);
}

void StreamSocket::pump(StreamHalf& half, short events, StreamHalf::Instant now) {
  if (connects_) {
    if (events == 0) return;
    int fate = 0;
    socklen_t size = sizeof fate;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &fate, &size);
    if (fate != 0)
      return half.closed(StreamEnding::unreachable,
                         std::string("it cannot be reached: ") + std::strerror(fate), now);
    connects_ = false;
    half.connected(now);
  }
  const bool has_ended = (events & (POLLHUP | POLLERR)) != 0;
  if (has_ended && half.phase() == StreamHalf::Phase::opening)
    return half.closed(StreamEnding::closed, "", now);
  if ((events & POLLIN) != 0 || has_ended) read(half, now);
  if (!half.to_write().empty()) write(half, now);
}

void StreamSocket::read(StreamHalf& half, StreamHalf::Instant now) const {
  std::array<char, stream_data_bytes_max> part;
  const std::size_t room = half.may_read();
  if (room == 0) return;
  const ssize_t got = ::recv(descriptor_, part.data(), room, 0);
  if (got > 0) return half.read({part.data(), static_cast<std::size_t>(got)}, now);
  if (got == 0) return half.closed(StreamEnding::closed, "", now);
  if (!is_for_later(errno)) half.closed(StreamEnding::closed, std::strerror(errno), now);
}

void StreamSocket::write(StreamHalf& half, StreamHalf::Instant now) const {
  const std::string_view bytes = half.to_write();
  const ssize_t took = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (took > 0) return half.written(static_cast<std::size_t>(took), now);
  if (took < 0 && !is_for_later(errno))
    half.closed(StreamEnding::closed, std::strerror(errno), now);
}

}  // namespace sluice::links
