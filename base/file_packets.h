// Packets between processes of one computer, with descriptors beside their bytes.
//
// Thread: any, as the socket's. Errors: `errno`, where less than 0 bytes went or came. A signal
// interrupts nothing, and a side that is gone raises none. Source: unix(7), SCM_RIGHTS.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/owned_file.h"

namespace sluice {

inline constexpr std::size_t packet_files_max = 8;

/// The bytes that went. `flags`: as of sendmsg(2). Requires: at most `packet_files_max` files.
ssize_t send_with_files(int socket, std::span<const std::byte> bytes, std::span<const int> files,
                        int flags);

struct PacketWithFiles {
  ssize_t bytes = -1;
  std::vector<OwnedFile> files;  // whatever came, asked for or not; closed in what is started
  bool is_cut = false;           // there were more bytes than room, or more files than may be
};
/// `flags`: as of recvmsg(2).
PacketWithFiles receive_with_files(int socket, std::span<std::byte> room, int flags);

}  // namespace sluice
