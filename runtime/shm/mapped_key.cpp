#include "runtime/shm/mapped_key.h"

#include <algorithm>

#include "base/little_endian.h"

namespace sluice::shm {

namespace {

// Another layout of what follows has another.
constexpr std::uint64_t key_magic = 0x3150414d'43554c53;      // "SLUCMAP1"
constexpr std::uint64_t hello_magic = 0x3149484d'43554c53;    // "SLUCMHI1"
constexpr std::uint64_t welcome_magic = 0x314d454d'43554c53;  // "SLUCMEM1"
constexpr std::size_t fixed_bytes = 8 + 8 + 8 + 32;

std::uint64_t number_at(std::span<const std::byte> bytes, std::size_t at) {
  return little_endian(bytes.subspan(at, 8));
}

}  // namespace

std::vector<std::byte> encode(const MappedKey& key) {
  std::vector<std::byte> bytes;
  for (const std::uint64_t number : {key_magic, key.grant, key.size})
    append_little_endian(number, 8, bytes);
  bytes.insert(bytes.end(), key.secret.begin(), key.secret.end());
  for (const char c : key.socket) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

std::optional<MappedKey> decode_key(std::span<const std::byte> bytes) {
  const bool can_be = bytes.size() > fixed_bytes &&
                      bytes.size() <= fixed_bytes + MappedKey::socket_most &&
                      number_at(bytes, 0) == key_magic;
  if (!can_be) return std::nullopt;
  MappedKey key{number_at(bytes, 8), number_at(bytes, 16)};
  std::ranges::copy(bytes.subspan(24, key.secret.size()), key.secret.begin());
  for (const std::byte byte : bytes.subspan(fixed_bytes))
    key.socket.push_back(static_cast<char>(byte));
  // One in the system's table of names, or a name that ends early, is none of ours.
  if (key.socket.front() != '/' || key.socket.find('\0') != std::string::npos) return std::nullopt;
  return key;
}

std::vector<std::byte> encode(const MappedHello& hello) {
  std::vector<std::byte> bytes;
  for (const std::uint64_t number : {hello_magic, hello.grant})
    append_little_endian(number, 8, bytes);
  bytes.insert(bytes.end(), hello.secret.begin(), hello.secret.end());
  return bytes;
}

std::optional<MappedHello> decode_hello(std::span<const std::byte> bytes) {
  if (bytes.size() != MappedHello::bytes || number_at(bytes, 0) != hello_magic) return std::nullopt;
  MappedHello hello{number_at(bytes, 8)};
  std::ranges::copy(bytes.subspan(16), hello.secret.begin());
  return hello;
}

std::vector<std::byte> mapped_welcome() {
  std::vector<std::byte> bytes;
  append_little_endian(welcome_magic, 8, bytes);
  return bytes;
}

bool are_same(const Secret& one, const Secret& other) {
  std::byte differs{};
  for (std::size_t i = 0; i < one.size(); ++i) differs |= one[i] ^ other[i];
  return differs == std::byte{};
}

}  // namespace sluice::shm
