// Names of full pages by all that went into them: equal keys mean equal
// prefixes, in one scope only.
//
// A key is HMAC-SHA-256 over the page's content and the parent's key, under a
// secret; the first parent is the scope's: tenant, model, layout and dtype.
// Whoever lacks the secret can neither guess a key nor make two contents meet.
// The content comes first, so that what it adds to a key is computed before the parent is known: in
// a chain of pages two blocks of SHA-256 a page hang on the page before, and its content's do not.
// Thread: any, once made. Cost: no allocation, but for a scope's root.
// Source: RFC 2104.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/hmac_sha256.h"
#include "base/sha256_words.h"

namespace sluice {

struct PageKey {
  std::array<std::uint64_t, 4> words{};
  auto operator<=>(const PageKey&) const = default;
};

/// What must be equal before two contents may share pages.
struct PageScope {
  std::string tenant, model, layout, dtype;
};

/// What a page's content adds to its key, whatever stands before it.
struct ContentSum {
  Sha256State state;  // behind it, and behind zeros up to a whole block of SHA-256
  Sha256Words last;   // the block behind these; the parent's key is still to come into it
};

class PageKeys {
 public:
  using Secret = std::array<std::uint8_t, 32>;

  explicit PageKeys(const Secret& secret) : mac_(secret) {}

  /// The parent of the first pages of a scope.
  PageKey root(const PageScope& scope) const;
  /// `content`: what fills the page, inputs and never computed numbers: token
  /// ids, or the hash of a picture. Equal bytes must mean equal content. Given where it is to
  /// stand, and not returned: copying what has just been stored was a twentieth of naming a page.
  void sum(std::string_view content, ContentSum& to) const;
  PageKey next(const PageKey& parent, const ContentSum& content) const;
  PageKey next(const PageKey& parent, std::string_view content) const {
    ContentSum made;
    sum(content, made);
    return next(parent, made);
  }

 private:
  HmacSha256 mac_;
};

}  // namespace sluice
