// The key of a region as bytes: what UCX needs to reach it, and how large it is.
//
// Thread: any; no state. Errors: none of the decoder but "no key".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sluice::ucx {

struct Key {
  std::uint64_t address = 0, size = 0;  // of the region in its process; read through `remote` only
  std::vector<std::byte> remote;        // UCX's remote key
  std::vector<std::byte> worker;        // where the process is reached
};

std::vector<std::byte> encode(const Key& key);
std::optional<Key> decode(std::span<const std::byte> bytes);

}  // namespace sluice::ucx
