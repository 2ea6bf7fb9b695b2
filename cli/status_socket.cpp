#include "cli/status_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "base/failpoint.h"

namespace sluice::cli {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::seconds reader_patience{1};
constexpr std::size_t text_bytes_max = std::size_t{4} << 20U;

std::optional<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::ranges::copy(path, address.sun_path);
  return address;
}

Error said_no(const std::string& path) {
  return {ErrorCode::unavailable, path + ": " + std::strerror(errno)};
}

/// True when the descriptor is ready before `until`.
bool is_ready(int descriptor, short what, steady_clock::time_point until) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_clock::now());
    pollfd event{descriptor, what, 0};
    const int ready = ::poll(&event, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready >= 0) return ready > 0;
    if (errno != EINTR) return false;
  }
}

/// As much as the reader takes within its time.
void send_all(int socket, std::string_view text) {
  const auto until = steady_clock::now() + reader_patience;
  while (!text.empty() && is_ready(socket, POLLOUT, until)) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      text.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno != EAGAIN && errno != EINTR)
      return;
  }
}

/// Who is at the other end, by the kernel.
std::optional<ucred> owner_of(int socket) {
  ucred owner{};
  socklen_t size = sizeof owner;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &owner, &size) != 0) return {};
  return owner;
}

void serve(int listener, int stop_event, const std::function<std::string()>& text) {
  for (;;) {
    std::array<pollfd, 2> events{pollfd{listener, POLLIN, 0}, pollfd{stop_event, POLLIN, 0}};
    if (::poll(events.data(), events.size(), -1) < 0) continue;  // a signal
    if (events[1].revents != 0) return;
    const int reader = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (reader < 0) {  // no descriptor is left, perhaps: asked again soon, not at once
      ::poll(&events[1], 1, 100);
      continue;
    }
    const auto owner = owner_of(reader);
    failpoint("status_asked");
    if (owner && (owner->uid == ::getuid() || owner->uid == 0)) send_all(reader, text());
    ::close(reader);
  }
}

}  // namespace

Result<StatusSocket> StatusSocket::listen(const std::string& path,
                                          std::function<std::string()> text) {
  const auto address = address_of(path);
  if (!address)
    return Error{ErrorCode::unavailable,
                 path +
                     ": a socket's path has at most 107 bytes; set XDG_RUNTIME_DIR to a shorter "
                     "folder"};
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return said_no(path);
  ::unlink(path.c_str());
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(listener, SOMAXCONN) != 0) {
    const Error error = said_no(path);
    ::close(listener);
    return error;
  }
  return StatusSocket(path, listener, std::move(text));
}

StatusSocket::StatusSocket(std::string path, int listener, std::function<std::string()> text)
    : path_(std::move(path)),
      listener_(listener),
      stop_(std::make_unique<const Bell>()),
      thread_([listener, stop = stop_->descriptor(), text = std::move(text)] {
        serve(listener, stop, text);
      }) {}

StatusSocket::StatusSocket(StatusSocket&& other) noexcept
    : path_(std::move(other.path_)),
      listener_(std::exchange(other.listener_, -1)),
      stop_(std::move(other.stop_)),
      thread_(std::move(other.thread_)) {}

StatusSocket::~StatusSocket() {
  if (listener_ < 0) return;
  stop_->ring();
  thread_.join();
  ::unlink(path_.c_str());
  ::close(listener_);
}

Result<StatusReader> StatusReader::connect(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return Error{ErrorCode::not_found, path + ": nobody can listen at so long a path"};
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return said_no(path);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    const Error error =
        nobody ? Error{ErrorCode::not_found, path + ": nobody listens"}
        : errno == EAGAIN
            ? Error{ErrorCode::unavailable, "it stands still: as many readers wait for it as can"}
            : said_no(path);
    ::close(socket);
    return error;
  }
  const auto owner = owner_of(socket);
  if (owner && (owner->uid == ::getuid() || ::getuid() == 0)) return StatusReader(socket);
  ::close(socket);
  return Error{ErrorCode::unavailable, path + ": it belongs to user " +
                                           (owner ? std::to_string(owner->uid) : "unknown") +
                                           ", this is user " + std::to_string(::getuid())};
}

StatusReader::StatusReader(StatusReader&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)) {}

StatusReader::~StatusReader() {
  if (socket_ >= 0) ::close(socket_);
}

Result<std::string> StatusReader::read(std::chrono::milliseconds patience) const {
  const auto until = steady_clock::now() + patience;
  std::string text;
  std::array<char, 16384> part{};
  while (is_ready(socket_, POLLIN, until)) {
    const ssize_t got = ::recv(socket_, part.data(), part.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got < 0) return Error{ErrorCode::unavailable, "it died"};
    if (got == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
    if (text.size() > text_bytes_max)
      return Error{ErrorCode::corrupt, "it says more than 4 MiB of itself"};
  }
  return Error{ErrorCode::deadline,
               "it does not answer within " + std::to_string(patience.count()) + " ms"};
}

}  // namespace sluice::cli
