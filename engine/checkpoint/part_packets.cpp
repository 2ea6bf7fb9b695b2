#include "engine/checkpoint/part_packets.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/file_packets.h"
#include "base/little_endian.h"

namespace sluice {

namespace {

constexpr std::uint64_t version = 1;
using Kind = PartPacket::Kind;

Error system_says(const std::string& what) {
  return {ErrorCode::unavailable, what + ": " + std::strerror(errno)};
}

Error wrong(const std::string& what) {
  return {ErrorCode::corrupt, "a packet about parts of checkpoints: " + what};
}

bool has_text(Kind kind) { return kind == Kind::ask || kind == Kind::wait || kind == Kind::join; }

}  // namespace

bool has_descriptor(Kind kind) {
  return kind == Kind::ask || kind == Kind::have || kind == Kind::made || kind == Kind::join;
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
  if (kind > static_cast<std::uint64_t>(Kind::join)) return wrong("of no kind that there is");
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
  const std::vector<std::byte> bytes = encode(packet);
  const std::span<const int> file(&with, with >= 0 ? 1 : 0);
  if (send_with_files(socket, bytes, file, MSG_DONTWAIT) < 0)
    return system_says("a packet about parts of checkpoints cannot be sent");
  return {};
}

Result<std::optional<ReceivedPacket>> receive_packet(int socket) {
  std::array<std::byte, part_packet_max> bytes{};
  PacketWithFiles came = receive_with_files(socket, bytes, MSG_DONTWAIT);
  if (came.bytes < 0 && errno == EAGAIN) return std::optional<ReceivedPacket>();
  if (came.bytes <= 0) return Error{ErrorCode::unavailable, "the other side is gone"};
  // One that was cut is longer than any may be, or comes with more descriptors.
  auto packet = decode_part_packet(std::span(bytes).first(static_cast<std::size_t>(came.bytes)));
  if (!packet.ok()) return packet.error();
  if (came.files.size() != (has_descriptor(packet->kind) ? 1 : 0))
    return wrong("with " + std::to_string(came.files.size()) + " descriptors");
  ReceivedPacket received{std::move(packet).value(), OwnedFile()};
  if (!came.files.empty()) received.with = std::move(came.files.front());
  return std::optional(std::move(received));
}

}  // namespace sluice
