// What two machines say to each other on a connection: heads of parcels as values, and as bytes.
//
// A parcel is a head of at most `head_bytes_max` and, for messages, a body of at most
// `body_bytes_max`: a batch of small messages, or a part of a long one. No length is believed
// before it is compared with these limits and with the bytes that are there.
// Errors: `corrupt`, with the place. Source: docs/NETWORK.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "graph/ids.h"
#include "runtime/link_refusal.h"
#include "runtime/transport.h"
#include "runtime/wire/bytes.h"

namespace sluice::links {

inline constexpr std::uint8_t format_version = 9;
inline constexpr std::size_t head_bytes_max = 1024;
/// Of a connection within a computer: a message of 16 MiB and what goes with it is not cut.
inline constexpr std::size_t body_bytes_max = (std::size_t{16} << 20U) + (std::size_t{16} << 10U);
/// Of one between computers, where nothing else is heard while a body comes: one of 1 MiB.
inline constexpr std::size_t far_body_bytes_max =
    (std::size_t{1} << 20U) + (std::size_t{16} << 10U);
inline constexpr std::size_t cluster_bytes_max = 128;
inline constexpr std::size_t reason_bytes_max = 400;
inline constexpr std::uint64_t lease_ms_max = 3'600'000;
/// Of a message that is put together from parts.
inline constexpr std::size_t message_bytes_max = (std::size_t{64} << 20U) + 1024;

using Digest = std::array<std::byte, 32>;

/// Who I am, who I take you for, and where our link stands. Opens a connection, and answers that.
struct Hello {
  Origin from;
  std::uint32_t to = 0;
  std::uint64_t lease_ms = 0;
  Digest workflow{};
  std::string cluster;
  /// The life of the other that `applied` counts the parcels of; 0: none is known.
  std::uint32_t knows = 0;
  std::uint64_t applied = 0;
  /// Up to this incarnation, the other's lives are over.
  std::uint32_t over = 0;
  /// Names this attempt, so that an answer to another one is told apart.
  std::uint64_t nonce = 0;
};
struct Welcome {
  Hello hello;
  std::uint64_t echo = 0;  // the nonce that it answers
};
struct Ready {
  std::uint64_t echo = 0;
  std::uint32_t knows = 0;
  std::uint64_t applied = 0;
};

using Reason = LinkRefusal;

struct Refusal {
  Reason reason = Reason::malformed;
  Origin from;
  std::uint32_t over = 0;
  std::string text;  // for people; printable ASCII
};

/// The body holds messages, each: channel (a byte), length (a number), bytes.
struct Batch {
  std::uint64_t number = 0;
  std::uint64_t applied = 0;
};
/// The body is the piece at `at` of a message of `total` bytes.
struct Part {
  std::uint64_t number = 0;
  std::uint64_t applied = 0;
  Channel channel = Channel::message;
  std::uint64_t total = 0;
  std::uint64_t at = 0;
};
struct Heartbeat {
  std::uint64_t applied = 0;
};
/// A hello of a format that is not ours.
struct OtherVersion {
  std::uint64_t version = 0;
};

using Head = std::variant<Hello, Welcome, Ready, Refusal, Batch, Part, Heartbeat, OtherVersion>;

wire::Bytes write_head(const Head& head);
Result<Head> read_head(std::span<const std::byte> bytes);

/// Appends a message to a batch's body.
void write_message(wire::Bytes& body, Channel channel, std::span<const std::byte> message);
struct MessageView {
  Channel channel = Channel::message;
  std::span<const std::byte> bytes;
};
/// Checks all of a batch's body, then appends its messages to `out`.
Result<void> read_batch(std::span<const std::byte> body, std::vector<MessageView>& out);
/// Checks a part by itself: its size against its head, the total against the limit.
Result<void> check_part(const Part& part, std::size_t body_bytes);

}  // namespace sluice::links
