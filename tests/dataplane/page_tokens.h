// Tokens of which a few fill a page, and the keys of such pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/page_key.h"

namespace sluice {

inline constexpr std::uint32_t page_rows = 4;
using Tokens = std::vector<std::uint32_t>;

inline PageKeys::Secret secret() {
  PageKeys::Secret bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + 1);
  return bytes;
}

/// Tenant 0 is nobody.
inline std::string name_of(std::uint32_t tenant) {
  return tenant == 0 ? std::string() : "tenant-" + std::to_string(tenant);
}

inline std::vector<PageKey> keys_of(const Tokens& tokens, std::uint32_t tenant = 0) {
  const PageKeys keys(secret());
  static std::map<std::pair<PageKey, Tokens>, PageKey>
      known;  // a hash costs more than all else here
  std::vector<PageKey> out;
  PageKey parent;
  if (tenant != 0) parent = keys.root({name_of(tenant), "model", "layout", "f32"});
  for (std::size_t at = 0; at + page_rows <= tokens.size(); at += page_rows) {
    const Tokens page(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                      tokens.begin() + static_cast<std::ptrdiff_t>(at + page_rows));
    auto [found, fresh] = known.try_emplace({parent, page});
    if (fresh)
      found->second =
          keys.next(parent, {reinterpret_cast<const char*>(page.data()), page.size() * 4});
    out.push_back(parent = found->second);
  }
  return out;
}

}  // namespace sluice
