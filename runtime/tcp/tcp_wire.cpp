#include "runtime/tcp/tcp_wire.h"

#include <algorithm>
#include <string>

#include "base/hmac_sha256.h"
#include "base/little_endian.h"

namespace sluice::tcp {

namespace {

constexpr std::uint64_t magic = 0x32444145'525f4c53;  // "SL_READ2": another format has another
constexpr std::size_t piece = std::size_t{128} << 10U;
static_assert(piece + piece / 4 == record_most);

}  // namespace

std::array<std::byte, hello_bytes> encode(const Hello& hello) {
  std::vector<std::byte> bytes;
  append_little_endian(magic, 8, bytes);
  append_little_endian(hello.is_encrypted ? 1 : 0, 8, bytes);
  append_little_endian(hello.grant, 8, bytes);
  bytes.insert(bytes.end(), hello.nonce.begin(), hello.nonce.end());
  std::array<std::byte, hello_bytes> all{};
  std::ranges::copy(bytes, all.begin());
  return all;
}

std::optional<Hello> decode_hello(std::span<const std::byte> bytes) {
  if (bytes.size() != hello_bytes || little_endian(bytes.first(8)) != magic) return std::nullopt;
  const std::uint64_t encrypted = little_endian(bytes.subspan(8, 8));
  if (encrypted > 1) return std::nullopt;
  Hello hello{little_endian(bytes.subspan(16, 8)), encrypted == 1, {}};
  std::ranges::copy(bytes.subspan(24), hello.nonce.begin());
  return hello;
}

Mac mac_of(const Secret& secret, Purpose purpose, std::span<const std::byte> hello,
           const Nonce& owner) {
  constexpr const char* names[] = {"owner of memory that is read", "reader of memory",
                                   "key of requests", "key of answers"};
  std::string said = names[static_cast<std::size_t>(purpose)];
  said.push_back('\0');
  said.append(reinterpret_cast<const char*>(hello.data()), hello.size());
  said.append(reinterpret_cast<const char*>(owner.data()), owner.size());
  const std::array<std::uint8_t, 32> made = HmacSha256(secret).of(said);
  Mac mac{};
  std::ranges::transform(made, mac.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  return mac;
}

bool is_same(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  std::byte differs{};
  for (std::size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == std::byte{};
}

bool is_within(const Request& request, std::uint64_t size) {
  const auto is = [size](RemoteRegion::Part part) {
    return part.size <= size && part.offset <= size - part.size;
  };
  return is(request.first) && is(request.then);
}

void append(const Request& request, std::vector<std::byte>& out) {
  for (const RemoteRegion::Part part : {request.first, request.then}) {
    append_little_endian(part.offset, 8, out);
    append_little_endian(part.size, 8, out);
  }
}

Request decode_request(std::span<const std::byte> bytes) {
  const auto number = [&](std::size_t at) { return little_endian(bytes.subspan(at, 8)); };
  return {{number(0), number(8)}, {number(16), number(24)}};
}

std::size_t piece_of(std::size_t left) { return left <= record_most ? left : piece; }

}  // namespace sluice::tcp
