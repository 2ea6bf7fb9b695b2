// Packets on unix sockets of one user, each a word with at most one descriptor.
//
// Nothing here blocks. Who is on the other side is asked of the kernel: another user's process is
// refused. The folder of a path must be this user's and closed to others (checked by the caller).
// Thread: any for one socket, as the kernel's packets are whole. Errors: unavailable, with what the
// system says. Bounds: one packet of `word_bytes_max` bytes; descriptors beyond one are refused.
// Source: unix(7), SOCK_SEQPACKET, SO_PEERCRED, SCM_RIGHTS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/shm/slab.h"
#include "runtime/shm/word.h"

namespace sluice::shm {

/// Removes a socket that nobody serves, as a killed process leaves it. Errors: whatever else stands
/// at the path, which stays.
Result<void> free_socket_path(const std::string& path);
/// At a path that is freed for it; mode 0600.
Result<OwnedFile> listen_at(const std::string& path);
/// A connection that waits, of a process of this user. Nothing: there is none, or it was refused.
std::optional<OwnedFile> accept_from(const OwnedFile& listener);
Result<OwnedFile> connect_to(const std::string& path);

enum class Sent : std::uint8_t { yes, later, never };
/// `descriptor`: -1 for none.
Sent send_packet(const OwnedFile& socket, const wire::Bytes& bytes, int descriptor = -1);
inline Sent send_word(const OwnedFile& socket, const Word& word, int descriptor = -1) {
  return send_packet(socket, write_word(word), descriptor);
}

struct Packet {
  enum class Kind : std::uint8_t { none, word, wrong, ended };
  Kind kind = Kind::none;
  Word word;
  OwnedFile descriptor;
  std::string why;  // of wrong
};
Packet receive_packet(const OwnedFile& socket);

}  // namespace sluice::shm
