#include "runtime/ucx/ucx_key.h"

#include <limits>

#include "base/little_endian.h"

namespace sluice::ucx {

namespace {

constexpr std::uint64_t magic = 0x31304b58434c53;  // "SLCXK01"
constexpr std::size_t head_bytes = 5 * 8;

}  // namespace

std::vector<std::byte> encode(const Key& key) {
  std::vector<std::byte> bytes;
  bytes.reserve(head_bytes + key.remote.size() + key.worker.size());
  for (const std::uint64_t number : {magic, key.address, key.size, std::uint64_t{key.remote.size()},
                                     std::uint64_t{key.worker.size()}})
    append_little_endian(number, 8, bytes);
  bytes.insert(bytes.end(), key.remote.begin(), key.remote.end());
  bytes.insert(bytes.end(), key.worker.begin(), key.worker.end());
  return bytes;
}

std::optional<Key> decode(std::span<const std::byte> bytes) {
  if (bytes.size() < head_bytes) return std::nullopt;
  const auto number = [&](std::size_t index) { return little_endian(bytes.subspan(8 * index, 8)); };
  const std::span<const std::byte> rest = bytes.subspan(head_bytes);
  const std::uint64_t address = number(1), size = number(2), remote = number(3), worker = number(4);
  const bool is_key = number(0) == magic && remote > 0 && worker > 0 && remote <= rest.size() &&
                      worker == rest.size() - remote && size > 0 &&
                      size <= std::numeric_limits<std::uint64_t>::max() - address;
  if (!is_key) return std::nullopt;
  const auto parts = [&](std::span<const std::byte> part) {
    return std::vector<std::byte>(part.begin(), part.end());
  };
  return Key{address, size, parts(rest.first(remote)), parts(rest.subspan(remote))};
}

}  // namespace sluice::ucx
