#include "base/session_history.h"

#include <string_view>

#include "base/little_endian.h"
#include "base/sha256.h"

namespace sluice {

std::uint64_t next_in_chain(std::uint64_t chain, std::span<const std::byte> record) {
  const auto said = sha256({reinterpret_cast<const char*>(record.data()), record.size()});
  std::vector<std::byte> both;
  append_little_endian(chain, 8, both);
  for (const auto byte : said) both.push_back(static_cast<std::byte>(byte));
  const auto next = sha256({reinterpret_cast<const char*>(both.data()), both.size()});
  return little_endian(std::as_bytes(std::span(next)).first(8));
}

}  // namespace sluice
