#include "runtime/hosts/channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "runtime/hosts/host_protocol.h"

namespace sluice::hosts {

namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::size_t read_least = 8 << 10;
constexpr std::size_t read_most = 4 << 20;

Error closed() { return {ErrorCode::unavailable, "the connection is closed"}; }

}  // namespace

Result<std::pair<OwnedFile, OwnedFile>> socket_pair(int type) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return Error{ErrorCode::exhausted, std::string("no sockets: ") + std::strerror(errno)};
  return std::pair(OwnedFile(ends[0]), OwnedFile(ends[1]));
}

Result<void> Channel::ask(const Waiting& waiting) {
  if (!waiting) return {};
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < tick) return {};
  asked_ = now;
  if (!waiting()) return Error{ErrorCode::cancelled, "given up"};
  return {};
}

Result<void> Channel::wait(short events, const Waiting& waiting) {
  pollfd event{socket_.get(), events, 0};
  for (;;) {
    const int most = waiting ? static_cast<int>(tick.count()) : -1;
    const int came = ::poll(&event, 1, most);
    if (came < 0 && errno != EINTR) return closed();
    if (Result<void> on = ask(waiting); !on.ok()) return on;
    if (came > 0) return {};
  }
}

Result<void> Channel::send(std::span<const std::byte> body, const Waiting& waiting) {
  std::array<std::byte, length_bytes> length{};
  for (std::size_t i = 0; i < length_bytes; ++i)
    length[i] = static_cast<std::byte>(body.size() >> (8 * i));
  for (std::size_t sent = 0; sent < length_bytes + body.size();) {
    const std::size_t of_length = std::min(sent, length_bytes);
    const std::size_t of_body = sent - of_length;
    std::array<iovec, 2> parts{
        {{length.data() + of_length, length_bytes - of_length},
         {const_cast<std::byte*>(body.data()) + of_body, body.size() - of_body}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t gone = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (gone > 0) {
      sent += static_cast<std::size_t>(gone);
      if (Result<void> on = ask(waiting); !on.ok()) return on;
      continue;
    }
    if (gone < 0 && errno == EINTR) continue;
    if (gone < 0 && errno != EAGAIN && errno != ENOBUFS) return closed();
    if (Result<void> can = wait(POLLOUT, waiting); !can.ok()) return can;
  }
  return {};
}

Result<void> Channel::fill(std::size_t most, const Waiting& waiting) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  begin_ = 0;
  const std::size_t had = buffer_.size();
  buffer_.resize(had + std::clamp(most, read_least, read_most));
  for (;;) {
    const ssize_t came =
        ::recv(socket_.get(), buffer_.data() + had, buffer_.size() - had, MSG_DONTWAIT);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0 && errno == EAGAIN) {
      const Result<void> can = wait(POLLIN, waiting);
      if (can.ok()) continue;
      buffer_.resize(had);
      return can.error();
    }
    buffer_.resize(had + static_cast<std::size_t>(std::max<ssize_t>(came, 0)));
    if (came <= 0) return closed();
    return ask(waiting);
  }
}

Result<wire::Bytes> Channel::receive(const Waiting& waiting) {
  if (Result<void> on = ask(waiting); !on.ok()) return on.error();
  while (buffer_.size() - begin_ < length_bytes)
    if (Result<void> more = fill(0, waiting); !more.ok()) return more.error();
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<std::size_t>(buffer_[begin_ + i]) << (8 * i);
  if (length > message_max)
    return Error{ErrorCode::corrupt, "a message of " + std::to_string(length) +
                                         " bytes; the limit is " + std::to_string(message_max)};
  const std::size_t whole = length_bytes + length;
  while (buffer_.size() - begin_ < whole)
    if (Result<void> more = fill(whole - (buffer_.size() - begin_), waiting); !more.ok())
      return more.error();
  const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_ + length_bytes);
  wire::Bytes body(from, from + static_cast<std::ptrdiff_t>(length));
  begin_ += whole;
  if (begin_ == buffer_.size()) {
    begin_ = 0;
    buffer_.clear();
    if (buffer_.capacity() > read_most) buffer_ = {};
  }
  return body;
}

}  // namespace sluice::hosts
