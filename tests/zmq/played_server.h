// A server behind a local socket that a test plays by hand, and the ends of its connections.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/result.h"

namespace sluice::testing::forwarding {

/// A socket that the test reads and writes, with a deadline for each.
class End {
 public:
  explicit End(int descriptor) : descriptor_(descriptor) {}
  End(End&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  End& operator=(End&&) = delete;
  ~End() { close(); }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }
  void shut() const { ::shutdown(descriptor_, SHUT_WR); }
  int descriptor() const { return descriptor_; }

  void write(const std::string& text) const {
    REQUIRE(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  /// What it takes at once, again and again until it has taken nothing for a while.
  std::size_t write_until_full() const {
    const std::string part(65536, 'x');
    std::size_t all = 0;
    for (;;) {
      const ssize_t took =
          ::send(descriptor_, part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (took > 0) {
        all += static_cast<std::size_t>(took);
        if (all > (std::size_t{64} << 20U)) return all;
        continue;
      }
      pollfd event{descriptor_, POLLOUT, 0};
      if (::poll(&event, 1, 300) == 0) return all;
    }
  }
  std::string read(std::size_t bytes) const {
    std::string all;
    while (all.size() < bytes) {
      const std::string part = some(bytes - all.size());
      if (part.empty()) break;
      all += part;
    }
    return all;
  }
  /// True when the other side's end is seen, with nothing before it.
  bool ends() const {
    char one = 0;
    pollfd event{descriptor_, POLLIN, 0};
    if (::poll(&event, 1, 10'000) != 1) return false;
    return ::recv(descriptor_, &one, 1, 0) <= 0;
  }

 private:
  std::string some(std::size_t most) const {
    pollfd event{descriptor_, POLLIN, 0};
    if (::poll(&event, 1, 10'000) != 1) return "";
    std::string part(std::min<std::size_t>(most, 65536), '\0');
    const ssize_t got = ::recv(descriptor_, part.data(), part.size(), 0);
    part.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return part;
  }

  int descriptor_;
};

inline sockaddr_un where(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  return address;
}

/// The server behind the forwarder.
class Server {
 public:
  explicit Server(std::string path) : path_(std::move(path)) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = where(path_);
    REQUIRE(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener_, 64) == 0);
  }
  ~Server() {
    ::close(listener_);
    ::unlink(path_.c_str());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  End accept() const {
    pollfd event{listener_, POLLIN, 0};
    REQUIRE(::poll(&event, 1, 10'000) == 1);
    return End(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
  }

 private:
  std::string path_;
  int listener_;
};

inline Result<int> connect_to(const std::string& path) {
  const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const sockaddr_un address = where(path);
  if (::connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
    return made;
  const std::string why = std::strerror(errno);
  ::close(made);
  return Error{ErrorCode::unavailable, "it cannot be reached: " + why};
}

}  // namespace sluice::testing::forwarding
