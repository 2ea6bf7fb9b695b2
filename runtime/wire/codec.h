// Messages between machines as bytes, and back: what a peer sends is checked against the plan
// before an engine sees it.
//
// The format (docs/WIRE.md) has lengths, numbers, enums and shapes, and nothing else: no types by
// name, no references, nothing that can carry code. Each message has one way to be written. What
// `decode` accepts may contradict earlier messages (a share that comes twice); then the engine
// refuses it (`Refusal`). Bounds: memory for a message is at most a small multiple of its bytes.
// Thread: any, one at a time for each `Pools`. Source: FAILURES, section 3; NETWORK, 1 and 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "graph/frame.h"
#include "graph/plan.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/contract.h"
#include "runtime/wire/lending.h"

namespace sluice::wire {

inline constexpr std::uint8_t version = 3;
inline constexpr std::size_t attributes_max = 64;      // of one value
inline constexpr std::size_t warnings_max = 1000;      // of one message
inline constexpr std::size_t words_max = 16 * 1024;    // bytes of a warning or an error's text
inline constexpr std::size_t refinements_max = 8192;   // of one share
inline constexpr std::size_t scopes_max = 65'536;      // named in one message
inline constexpr std::size_t nesting_max = joins_max;  // of deposits within deposits
inline constexpr std::uint32_t credit_scale_max = 1U << 24U;

struct Limits {
  /// Of one message, with what it says of values elsewhere: one that fits must fit either way.
  std::size_t bytes_max = std::size_t{64} << 20U;
  std::uint32_t machines = 1U << 16U;              // their numbers are below this
};

/// Appends the message to `out`. `now`: the sender's clock, for the age of a frame. A warning or an
/// error's text is cut after `words_max` bytes. Errors: exhausted, where a limit would be broken
/// (then `out` is as it was, nothing is lent, and the message's call has to be given up).
Result<void> encode(const Plan& plan, const Message& message, Instant now, const Limits& limits,
                    Bytes& out, Lending& lending);
/// All values are in the message.
Result<void> encode(const Plan& plan, const Message& message, Instant now, const Limits& limits,
                    Bytes& out);

/// The message, from the pools of the machine that hears it: the caller gives it back. Errors:
/// corrupt, with the place and what is wrong there; exhausted, for more bytes than the limit. Then
/// nothing is kept, and the sender is to blame: an honest one does not say such things, whoever he
/// heard them from.
Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, const Sender& sender,
                        Instant now, const Limits& limits, Pools& pools);
/// The same, of a sender who may lend.
Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, const Sender& sender,
                        Instant now, const Limits& limits, Pools& pools, Lending& lending);
/// The home of a message's call, by its head alone; nothing: it has none.
std::optional<Origin> home_of(std::span<const std::byte> bytes);
/// Whoever sent it: for tests and tools, never for what a link brings.
Result<Message*> decode(const Plan& plan, std::span<const std::byte> bytes, Instant now,
                        const Limits& limits, Pools& pools);

}  // namespace sluice::wire
