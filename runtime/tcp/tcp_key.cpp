#include "runtime/tcp/tcp_key.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>

#include "base/little_endian.h"

namespace sluice::tcp {

namespace {

constexpr std::uint64_t magic = 0x32525054'43554c53;  // "SLUCTPR2": another layout has another
constexpr std::size_t fixed_bytes = 8 + 8 + 8 + 1 + 32 + 2;
constexpr std::size_t host_most = 64;

}  // namespace

std::vector<std::byte> encode(const Key& key) {
  std::vector<std::byte> bytes;
  append_little_endian(magic, 8, bytes);
  append_little_endian(key.grant, 8, bytes);
  append_little_endian(key.size, 8, bytes);
  append_little_endian(key.is_encrypted ? 1 : 0, 1, bytes);
  for (const std::uint8_t byte : key.secret) bytes.push_back(std::byte{byte});
  append_little_endian(key.owner.port, 2, bytes);
  for (const char c : key.owner.host) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

std::optional<Key> decode(std::span<const std::byte> bytes) {
  const bool can_be = bytes.size() > fixed_bytes && bytes.size() <= fixed_bytes + host_most &&
                      little_endian(bytes.first(8)) == magic && std::to_integer<int>(bytes[24]) < 2;
  if (!can_be) return std::nullopt;
  Key key;
  key.grant = little_endian(bytes.subspan(8, 8));
  key.size = little_endian(bytes.subspan(16, 8));
  key.is_encrypted = bytes[24] == std::byte{1};
  std::ranges::transform(bytes.subspan(25, 32), key.secret.begin(),
                         [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  key.owner.port = static_cast<std::uint16_t>(little_endian(bytes.subspan(57, 2)));
  for (const std::byte byte : bytes.subspan(fixed_bytes))
    key.owner.host.push_back(static_cast<char>(byte));
  in6_addr either{};
  const bool is_numeric = ::inet_pton(AF_INET, key.owner.host.c_str(), &either) == 1 ||
                          ::inet_pton(AF_INET6, key.owner.host.c_str(), &either) == 1;
  const bool is_whole = key.owner.host.find('\0') == std::string::npos;  // as far as is looked at
  if (!is_numeric || !is_whole || key.owner.port == 0) return std::nullopt;
  return key;
}

bool is_loopback(const std::string& host) {
  in_addr four{};
  if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24U == 127;
  in6_addr six{};
  return ::inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six) != 0;
}

}  // namespace sluice::tcp
