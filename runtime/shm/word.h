// What an owner of shared memory and its reader say to each other on a unix socket: one word a
// packet, as a value and as bytes.
//
// Bounds: `word_bytes_max` bytes, `handles_max` handles. Errors: corrupt, with the place.
// Source: docs/NETWORK.md, "Shared memory".
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/ids.h"
#include "runtime/wire/bytes.h"
#include "runtime/wire/lending.h"

namespace sluice::shm {

inline constexpr std::size_t word_bytes_max = 1024;
inline constexpr std::size_t handles_max = 32;

/// The reader's first: who it is, and whose memory it means.
struct Greeting {
  Origin from;
  Origin to;
};
/// The owner's: a slab, whose descriptor comes with this. They come in order, from 0.
struct Offer {
  std::uint32_t slab = 0;
};
/// The reader's: it can read the slab from now on.
struct Mapped {
  std::uint32_t slab = 0;
};
/// The reader's: it has let go of these, once for each.
struct Back {
  std::vector<wire::Handle> handles;
};
/// Either's: nothing will be shared. For people.
struct Declined {
  std::string why;
};

using Word = std::variant<Greeting, Offer, Mapped, Back, Declined>;

wire::Bytes write_word(const Word& word);
Result<Word> read_word(std::span<const std::byte> bytes);

}  // namespace sluice::shm
