// What a process and its exchange say to each other about parts of checkpoints, each in one packet,
// with a descriptor beside it where it says so.
//
// Bounds: `part_packet_max` bytes. Errors: corrupt (what is no such packet), unavailable (the other
// side is gone, or there are no descriptors left). Thread: any; no state.
// Source: unix(7), SCM_RIGHTS.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/owned_file.h"
#include "base/result.h"
#include "engine/checkpoint/weight_table.h"

namespace sluice {

struct PartPacket {
  enum class Kind : std::uint8_t {
    ask,   // with a socket, on which the answers come; its end is the end of the ask
    make,  // an answer, the only one besides `wait`s
    have,  // the same, with the memory
    wait,  // until somebody else has made it
    made,  // by who was told to make it, with the memory
    join,  // with the socket of another process, which the sender starts
  };
  Kind kind = Kind::ask;
  PartKey part{};    // of ask
  std::string text;  // of ask: what the part is, for people; of wait: who makes it; of join: who
};

inline constexpr std::size_t part_packet_max = 512;
inline constexpr std::size_t part_text_max = 400;

/// A text that is too long is cut.
std::vector<std::byte> encode(const PartPacket& packet);
Result<PartPacket> decode_part_packet(std::span<const std::byte> bytes);
/// Whether a descriptor goes with it.
bool has_descriptor(PartPacket::Kind kind);

/// A pair of connected sockets for packets.
Result<std::pair<OwnedFile, OwnedFile>> packet_sockets();
/// Never waits. `with`: below 0: none.
Result<void> send_packet(int socket, const PartPacket& packet, int with = -1);
struct ReceivedPacket {
  PartPacket packet;
  OwnedFile with;
};
/// None: nothing has come. Never waits.
Result<std::optional<ReceivedPacket>> receive_packet(int socket);

}  // namespace sluice
