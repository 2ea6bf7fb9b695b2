#include "runtime/shm/packets.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_packets.h"

namespace sluice::shm {

namespace {

constexpr int kind_of_socket = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

Error system_says(const std::string& path, const std::string& what) {
  return {ErrorCode::unavailable, "socket " + path + " " + what + ": " + std::strerror(errno)};
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{ErrorCode::unavailable, "the name of socket " + path + " is too long"};
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Whether a process has the socket file bound. A kernel says of one of another kind that it is of
/// another kind, so who has it hears nothing; not each does, so its own kinds are asked too.
Result<bool> is_served(const std::string& path, const sockaddr_un& address) {
  for (const int kind : {SOCK_DGRAM, SOCK_STREAM, SOCK_SEQPACKET}) {
    const OwnedFile asks(::socket(AF_UNIX, kind | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!asks) return system_says(path, "cannot be asked who serves it");
    if (::connect(asks.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
      return true;
    if (errno == ENOENT) return false;
    if (errno == EACCES || errno == EPERM)
      return system_says(path, "cannot be asked who serves it");
    if (errno != ECONNREFUSED) return true;
  }
  return false;
}

bool is_same_user(const OwnedFile& socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
         who.uid == ::geteuid();
}

}  // namespace

Result<void> free_socket_path(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return system_says(path, "cannot be looked at");
  }
  if (!S_ISSOCK(found.st_mode))
    return Error{ErrorCode::unavailable,
                 path +
                     " is there and is no socket, so it is kept: move it away, or name another "
                     "address"};
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  const Result<bool> served = is_served(path, *address);
  if (!served) return served.error();
  if (*served)
    return Error{ErrorCode::unavailable, "socket " + path +
                                             " is in use by a process that runs: end it, or name "
                                             "another address"};
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return system_says(path, "cannot be removed");
  return {};
}

Result<OwnedFile> listen_at(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  OwnedFile socket(::socket(AF_UNIX, kind_of_socket, 0));
  if (!socket) return system_says(path, "cannot be made");
  if (const Result<void> room = free_socket_path(path); !room) return room.error();
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return system_says(path, "cannot be bound");
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket.get(), 64) != 0)
    return system_says(path, "cannot listen");
  return socket;
}

std::optional<OwnedFile> accept_from(const OwnedFile& listener) {
  OwnedFile taken(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!taken || !is_same_user(taken)) return std::nullopt;
  return taken;
}

Result<OwnedFile> connect_to(const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return address.error();
  OwnedFile socket(::socket(AF_UNIX, kind_of_socket, 0));
  if (!socket) return system_says(path, "cannot be made");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return system_says(path, "cannot be reached");
  if (!is_same_user(socket))
    return Error{ErrorCode::unavailable, "socket " + path + " is another user's"};
  return socket;
}

Sent send_packet(const OwnedFile& socket, const wire::Bytes& bytes, int descriptor) {
  const std::span<const int> with(&descriptor, descriptor >= 0 ? 1 : 0);
  if (send_with_files(socket.get(), bytes, with, MSG_DONTWAIT) >= 0) return Sent::yes;
  const bool later = errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS;
  return later ? Sent::later : Sent::never;
}

Packet receive_packet(const OwnedFile& socket) {
  std::array<std::byte, word_bytes_max> bytes;
  PacketWithFiles came = receive_with_files(socket.get(), bytes, MSG_DONTWAIT);
  Packet packet;
  if (came.bytes < 0) {
    if (errno != EAGAIN) packet.kind = Packet::Kind::ended;
    return packet;
  }
  packet.kind = Packet::Kind::wrong;
  if (!came.files.empty()) packet.descriptor = std::move(came.files.front());
  if (came.files.size() > 1) {
    packet.why = "more than one descriptor in a packet";
  } else if (came.is_cut) {
    packet.why = "too long a packet";
  } else if (came.bytes == 0) {
    // An empty packet and the end look alike here.
    pollfd state{socket.get(), 0, 0};
    const bool over = ::poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
    packet.kind = over ? Packet::Kind::ended : Packet::Kind::wrong;
    packet.why = "an empty packet";
  } else if (Result<Word> word =
                 read_word(std::span(bytes).first(static_cast<std::size_t>(came.bytes)));
             !word) {
    packet.why = word.error().message;
  } else {
    packet.kind = Packet::Kind::word;
    packet.word = std::move(*word);
  }
  return packet;
}

}  // namespace sluice::shm
