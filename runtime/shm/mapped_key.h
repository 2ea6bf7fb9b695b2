// What names a region of another process of this computer, and what the two say to each other
// before its memory is handed over: one packet each.
//
// Thread: any; no state. Bounds: a path of `socket_most` bytes. Errors: nothing, where bytes are
// none of these.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::shm {

using Secret = std::array<std::byte, 32>;

struct MappedKey {
  static constexpr std::size_t socket_most = 107;  // of a unix socket

  std::uint64_t grant = 0;  // which of the owner's
  std::uint64_t size = 0;   // bytes of the region
  Secret secret{};
  std::string socket{};  // where it is asked for
};

std::vector<std::byte> encode(const MappedKey& key);
std::optional<MappedKey> decode_key(std::span<const std::byte> bytes);

/// The reader's first and only packet.
struct MappedHello {
  static constexpr std::size_t bytes = 8 + 8 + 32;

  std::uint64_t grant = 0;
  Secret secret{};
};
std::vector<std::byte> encode(const MappedHello& hello);
std::optional<MappedHello> decode_hello(std::span<const std::byte> bytes);

/// The owner's, with the memory beside it. It says no more, and hangs up when the region goes.
std::vector<std::byte> mapped_welcome();

/// In the same time wherever they differ.
bool are_same(const Secret& one, const Secret& other);

}  // namespace sluice::shm
