// The key of a region as bytes: where its owner listens, which region it is, and the secret that
// the reader proves.
//
// Thread: any; no state. Errors: none of the decoder but "no key".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::tcp {

using Secret = std::array<std::uint8_t, 32>;

/// A numeric address of one interface, and a port.
struct Endpoint {
  std::string host;  // "127.0.0.1", "fe80::1"; without brackets
  std::uint16_t port = 0;
};

struct Key {
  Endpoint owner;
  std::uint64_t grant = 0;  // of the region, to this reader
  std::uint64_t size = 0;   // of the region
  bool is_encrypted = false;
  Secret secret{};
};

std::vector<std::byte> encode(const Key& key);
std::optional<Key> decode(std::span<const std::byte> bytes);

/// It is of this computer alone. False too for what is no numeric address.
bool is_loopback(const std::string& host);

}  // namespace sluice::tcp
