#include "base/file_packets.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace sluice {

namespace {

constexpr std::size_t room_for_files = CMSG_SPACE(packet_files_max * sizeof(int));

}  // namespace

ssize_t send_with_files(int socket, std::span<const std::byte> bytes, std::span<const int> files,
                        int flags) {
  SLUICE_CHECK(files.size() <= packet_files_max);
  alignas(cmsghdr) std::array<std::byte, room_for_files> beside{};
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = beside.data();
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(part), files.data(), files.size_bytes());
  }
  ssize_t went = -1;
  do went = ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  while (went < 0 && errno == EINTR);
  return went;
}

PacketWithFiles receive_with_files(int socket, std::span<std::byte> room, int flags) {
  alignas(cmsghdr) std::array<std::byte, room_for_files> beside;
  iovec piece{room.data(), room.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = beside.data();
  message.msg_controllen = beside.size();
  PacketWithFiles packet;
  do packet.bytes = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  while (packet.bytes < 0 && errno == EINTR);
  if (packet.bytes < 0) return packet;
  packet.is_cut = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t many = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < many; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(part) + i * sizeof(int), sizeof file);
      packet.files.emplace_back(file);
    }
  }
  return packet;
}

}  // namespace sluice
