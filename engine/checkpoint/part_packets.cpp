#include "engine/checkpoint/part_packets.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/little_endian.h"

namespace sluice {

namespace {

constexpr std::uint64_t version = 1;
constexpr std::size_t descriptors_max = 8;  // taken from a packet, so that they are closed
using Kind = PartPacket::Kind;

Error system_says(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

Error wrong(const std::string& what) {
  return {ErrorCode::corrupt, "a packet about parts of checkpoints: " + what};
}

bool has_text(Kind kind) { return kind == Kind::ask || kind == Kind::wait; }

}  // namespace

bool has_descriptor(Kind kind) {
  return kind == Kind::ask || kind == Kind::have || kind == Kind::made;
}

std::vector<std::byte> encode(const PartPacket& packet) {
  std::vector<std::byte> bytes;
  append_little_endian(version, 1, bytes);
  append_little_endian(static_cast<std::uint64_t>(packet.kind), 1, bytes);
  if (packet.kind == Kind::ask)
    for (const std::uint8_t byte : packet.part) bytes.push_back(static_cast<std::byte>(byte));
  if (has_text(packet.kind))
    for (const char letter : packet.text.substr(0, part_text_max))
      bytes.push_back(static_cast<std::byte>(letter));
  return bytes;
}

Result<PartPacket> decode_part_packet(std::span<const std::byte> bytes) {
  if (bytes.size() < 2) return wrong("too short");
  if (little_endian(bytes.first(1)) != version) return wrong("of another version");
  const std::uint64_t kind = little_endian(bytes.subspan(1, 1));
  if (kind > static_cast<std::uint64_t>(Kind::made)) return wrong("of no kind that there is");
  PartPacket packet;
  packet.kind = static_cast<Kind>(kind);
  bytes = bytes.subspan(2);
  if (packet.kind == Kind::ask) {
    if (bytes.size() < packet.part.size()) return wrong("too short");
    for (std::size_t i = 0; i < packet.part.size(); ++i)
      packet.part[i] = std::to_integer<std::uint8_t>(bytes[i]);
    bytes = bytes.subspan(packet.part.size());
  }
  if (bytes.size() > (has_text(packet.kind) ? part_text_max : 0)) return wrong("too long");
  packet.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return packet;
}

Result<std::pair<OwnedFile, OwnedFile>> packet_sockets() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_says("no sockets for parts of checkpoints");
  return std::pair(OwnedFile(ends[0]), OwnedFile(ends[1]));
}

Result<void> send_packet(int socket, const PartPacket& packet, int with) {
  std::vector<std::byte> bytes = encode(packet);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> space{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (with >= 0) {
    message.msg_control = space.data();
    message.msg_controllen = space.size();
    cmsghdr* const extra = CMSG_FIRSTHDR(&message);
    extra->cmsg_level = SOL_SOCKET;
    extra->cmsg_type = SCM_RIGHTS;
    extra->cmsg_len = CMSG_LEN(sizeof with);
    std::memcpy(CMSG_DATA(extra), &with, sizeof with);
  }
  ssize_t gone = -1;
  do gone = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (gone < 0 && errno == EINTR);
  if (gone < 0) return system_says("a packet about parts of checkpoints cannot be sent");
  return {};
}

Result<std::optional<ReceivedPacket>> receive_packet(int socket) {
  std::array<std::byte, part_packet_max> bytes{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(descriptors_max * sizeof(int))> space{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  ssize_t came = -1;
  do came = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  while (came < 0 && errno == EINTR);
  if (came < 0 && errno == EAGAIN) return std::optional<ReceivedPacket>();
  if (came <= 0) return Error{ErrorCode::unavailable, "the other side is gone"};
  std::vector<OwnedFile> files;  // whatever came is closed, also where it should not have come
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(one) + i * sizeof(int), sizeof file);
      files.emplace_back(file);
    }
  }
  // One that was cut is longer than any may be, or comes with more descriptors.
  auto packet = decode_part_packet(std::span(bytes).first(static_cast<std::size_t>(came)));
  if (!packet.ok()) return packet.error();
  if (files.size() != (has_descriptor(packet->kind) ? 1 : 0))
    return wrong("with " + std::to_string(files.size()) + " descriptors");
  ReceivedPacket received{std::move(packet).value(), OwnedFile()};
  if (!files.empty()) received.with = std::move(files.front());
  return std::optional(std::move(received));
}

}  // namespace sluice
