// What fills the rows of a sequence: the inputs that decide them, and the keys of its pages.
//
// A row's keys and values depend on all rows that it sees, so a page's key is chained over all that
// stands before its end, under a scope of tenant, model and layout. Pictures count by the hash of
// their bytes (the model's name covers how they are prepared and encoded), and a row that another
// role has computed by the hash of its numbers; positions follow from these. The same numbers make
// the same row, so no page is wrong; where another machine rounds otherwise, nothing is found.
// Which prefixes may be shared: where each row sees the rows up to itself, every page that is full.
// Rows of a block also see what follows them, so the keys of a block's pages are chained over the
// whole block: equal blocks share their pages, others none, however they begin. A block that does
// not begin its sequence, and rows of which no hash is known, have no key, nor has what follows
// them. Source: omni-flow, section 4.1 (chained page hashes); Kwon et al. 2023, section 4.4
// (prefixes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/page_key.h"

namespace sluice {

/// The rows that stand for one picture, wherever its tokens are.
struct PictureRows {
  std::string content;  // hash of its bytes; empty: unknown
  std::size_t rows = 0;
};

/// Of a sequence whose rows are tokens: all that decides them beside the tokens.
struct RowsOrigin {
  std::string model;  // weights, precision and preparation; empty: unknown, nothing is shared
  std::optional<std::int32_t> picture_token;  // the next row of a picture
  std::vector<PictureRows> pictures;          // in the order of their rows
  std::size_t block = 0;                      // so many first rows see each other
  std::string tenant{};                       // whose they are; empty: nobody's. Others find none
};

/// Stands for a row that came as numbers, as a picture of one row: no vocabulary has it.
inline constexpr std::int32_t numbers_token = -3;
/// Adds such rows, each of `width`: their tokens, and what they are.
void append_numbers(std::span<const float> rows, std::size_t width,
                    std::vector<std::int32_t>& tokens, std::vector<PictureRows>& given);

/// How many leading rows of two such sequences are the same.
std::size_t rows_in_common(const RowsOrigin& a, std::span<const std::int32_t> a_tokens,
                           const RowsOrigin& b, std::span<const std::int32_t> b_tokens);

/// Keys of the pages of one pool.
class KvKeys {
 public:
  KvKeys(const PageKeys::Secret& secret, std::string layout, std::size_t page_tokens)
      : keys_(secret), layout_(std::move(layout)), page_tokens_(page_tokens) {}

  /// Before the first page. None: unknown.
  std::optional<PageKey> root(const RowsOrigin& origin, std::span<const std::int32_t> tokens) const;
  /// Appends the keys of pages [first, end), while they are known. `parent`: of page `first`.
  /// Requires: tokens for them.
  void append(const RowsOrigin& origin, std::span<const std::int32_t> tokens, std::size_t first,
              std::size_t end, PageKey parent, std::vector<PageKey>& keys) const;

 private:
  PageKeys keys_;
  std::string layout_;
  std::size_t page_tokens_;
};

}  // namespace sluice
