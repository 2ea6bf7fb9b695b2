// Small pages of histories that are drawn by a seed, and what each holds, wherever it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "dataplane/page_key.h"
#include "engine/layers/kv.h"

namespace sluice::made_pages {

inline constexpr std::size_t tokens_per_page = 4;
inline const KvShape shape{.layers = 2, .row = 4, .page_tokens = tokens_per_page};

/// `tenant`: whose; empty: nobody's.
inline RowsOrigin origin(const std::string& tenant = {}) {
  RowsOrigin made;
  made.model = "a model";
  made.tenant = tenant;
  return made;
}

/// A history of so many pages and one token more; the shorter ones of a seed begin the longer.
inline std::vector<std::int32_t> history(std::uint64_t seed, std::size_t pages) {
  SplitMix64 random(seed);
  std::vector<std::int32_t> tokens(pages * tokens_per_page + 1);
  for (auto& token : tokens) token = static_cast<std::int32_t>(random.next() % 1000);
  return tokens;
}

/// What a page of this key holds.
inline std::vector<std::byte> content(const PageKey& key) {
  SplitMix64 random(key.words[0] ^ key.words[3]);
  std::vector<std::byte> bytes(shape.page_bytes());
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

}  // namespace sluice::made_pages
