// Numbers as bytes, the lowest first. Thread: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice {

/// Its lowest `bytes`, at most 8, behind what `out` has, which is a vector of bytes or a text.
template <typename Out>
void append_little_endian(std::uint64_t value, unsigned bytes, Out& out) {
  for (unsigned i = 0; i < bytes; ++i)
    out.push_back(static_cast<typename Out::value_type>(value >> (8 * i)));
}

/// At most 8 bytes.
inline std::uint64_t little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}

}  // namespace sluice
