// Names of full pages by all that went into them: equal keys mean equal
// prefixes, in one scope only.
//
// A key is HMAC-SHA-256 over the parent's key and the page's content, under a
// secret; the first parent is the scope's: tenant, model, layout and dtype.
// Whoever lacks the secret can neither guess a key nor make two contents meet.
// Thread: any, once made. Cost: no allocation for pages of usual sizes; with the processor's SHA
// instructions some 40 ns for each 64 bytes of content and 80 ns a page.
// Source: RFC 2104.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hmac_sha256.h"

namespace sluice {

struct PageKey {
  std::array<std::uint64_t, 4> words{};
  auto operator<=>(const PageKey&) const = default;
};

/// What must be equal before two contents may share pages.
struct PageScope {
  std::string tenant, model, layout, dtype;
};

class PageKeys {
 public:
  using Secret = std::array<std::uint8_t, 32>;

  explicit PageKeys(const Secret& secret) : mac_(secret) {}

  /// The parent of the first pages of a scope.
  PageKey root(const PageScope& scope) const;
  /// `content`: what fills the page, inputs and never computed numbers: token
  /// ids, or the hash of a picture. Equal bytes must mean equal content.
  PageKey next(const PageKey& parent, std::string_view content) const;

 private:
  PageKey mac(std::string_view message) const;

  HmacSha256 mac_;
};

}  // namespace sluice
