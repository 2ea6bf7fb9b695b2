// The bytes of some pages through a socket with nothing else: what pulls of pages stand beside.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace sluice {

using Clock = std::chrono::steady_clock;
inline constexpr std::size_t page_bytes = 65536, all_bytes = 1024 * page_bytes;

inline double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

/// A socket on which `meet` (`bind` or `connect`) has been called with the address.
template <typename Meet>
int socket_at(bool tcp, const std::string& path, std::uint16_t port, Meet meet) {
  const int made = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
  const int yes = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(port);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_un un{};
  un.sun_family = AF_UNIX;
  std::strncpy(un.sun_path, path.c_str(), sizeof un.sun_path - 1);
  const bool met = tcp ? meet(made, reinterpret_cast<sockaddr*>(&in), sizeof in) == 0
                       : meet(made, reinterpret_cast<sockaddr*>(&un), sizeof un) == 0;
  if (!met) std::exit(1);
  return made;
}

inline int listening(bool tcp, const std::string& path, std::uint16_t port) {
  unlink(path.c_str());  // of the way before
  const int made = socket_at(tcp, path, port, ::bind);
  if (listen(made, 1) != 0) std::exit(1);
  return made;
}

inline int dialed(bool tcp, const std::string& path, std::uint16_t port) {
  return socket_at(tcp, path, port, ::connect);
}

/// All the pages for each byte that comes.
inline void serve_raw(int listener) {
  const std::vector<char> bytes(all_bytes, 'x');
  const int one = accept(listener, nullptr, nullptr);
  for (char byte = 0; read(one, &byte, 1) == 1;)
    for (std::size_t at = 0; at < all_bytes;) {
      const ssize_t sent = send(one, bytes.data() + at, page_bytes - at % page_bytes, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
}

inline double pull_raw(int socket, std::vector<char>& to) {
  const auto start = Clock::now();
  if (write(socket, "x", 1) != 1) std::exit(1);
  for (std::size_t at = 0; at < all_bytes;) {
    const ssize_t got = read(socket, to.data() + at, page_bytes - at % page_bytes);
    if (got <= 0) std::exit(1);
    at += static_cast<std::size_t>(got);
  }
  return seconds_since(start);
}

}  // namespace sluice
