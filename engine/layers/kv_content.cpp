#include "engine/layers/kv_content.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/little_endian.h"
#include "base/sha256.h"

namespace sluice {

namespace {

constexpr std::size_t hash_bytes = 32;

/// Tokens stand in memory as they are written down: the lowest byte first.
constexpr bool stand_as_written = std::endian::native == std::endian::little;

std::string_view bytes_of(std::span<const std::int32_t> tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes()};
}

void append_tokens(std::span<const std::int32_t> tokens, std::string& text) {
  if (stand_as_written) {
    text += bytes_of(tokens);
    return;
  }
  for (const std::int32_t token : tokens)
    append_little_endian(static_cast<std::uint32_t>(token), 4, text);
}

/// Walks over a sequence's rows and writes down what each is.
class Rows {
 public:
  Rows(const RowsOrigin& origin, std::span<const std::int32_t> tokens)
      : origin_(origin), tokens_(tokens) {}

  void skip(std::size_t count) {
    if (origin_.pictures.empty())
      at_ += count;
    else
      for (std::size_t i = 0; i < count; ++i) (void)next();
  }
  /// False: one of them is unknown. Two texts of as many rows are equal where the rows are: all
  /// tokens, then of each that stands for a picture's row which it is, and of what.
  bool write(std::size_t count, std::string& text) {
    const std::span<const std::int32_t> tokens = tokens_.subspan(at_, count);
    append_tokens(tokens, text);
    if (!origin_.picture_token) {
      at_ += count;
      return true;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const PictureRows* picture = next();
      if (tokens[i] != origin_.picture_token) continue;
      if (picture == nullptr || picture->content.size() != hash_bytes) return false;
      append_little_endian(i, 8, text);
      text += picture->content;
      append_little_endian(in_picture_ - 1, 8, text);
    }
    return true;
  }
  /// What `write` writes: the tokens where they stand, if that is all, else in `text`, from its
  /// beginning; to be used before `text` changes. Nothing: a row is unknown.
  std::optional<std::string_view> content(std::size_t count, std::string& text) {
    if (stand_as_written && !origin_.picture_token) {
      at_ += count;
      return bytes_of(tokens_.subspan(at_ - count, count));
    }
    text.clear();
    if (!write(count, text)) return std::nullopt;
    return text;
  }

 private:
  /// The picture whose row stands here, if one does; one row on.
  const PictureRows* next() {
    if (tokens_[at_++] != origin_.picture_token) return nullptr;
    while (picture_ < origin_.pictures.size() && in_picture_ == origin_.pictures[picture_].rows) {
      ++picture_;
      in_picture_ = 0;
    }
    if (picture_ == origin_.pictures.size()) return nullptr;
    ++in_picture_;
    return &origin_.pictures[picture_];
  }

  const RowsOrigin& origin_;
  std::span<const std::int32_t> tokens_;
  std::size_t at_ = 0, picture_ = 0, in_picture_ = 0;
};

}  // namespace

void append_numbers(std::span<const float> rows, std::size_t width,
                    std::vector<std::int32_t>& tokens, std::vector<PictureRows>& given) {
  for (; !rows.empty(); rows = rows.subspan(width)) {
    const auto digest = sha256({reinterpret_cast<const char*>(rows.data()), width * sizeof(float)});
    PictureRows& row = given.emplace_back();
    row.content.assign(digest.begin(), digest.end());
    row.rows = 1;
    tokens.push_back(numbers_token);
  }
}

std::size_t rows_in_common(const RowsOrigin& a, std::span<const std::int32_t> a_tokens,
                           const RowsOrigin& b, std::span<const std::int32_t> b_tokens) {
  const std::size_t most = std::min(a_tokens.size(), b_tokens.size());
  if (a.tenant != b.tenant || a.model != b.model || a.picture_token != b.picture_token) return 0;
  Rows of_a(a, a_tokens), of_b(b, b_tokens);
  std::string text_a, text_b;
  std::size_t same = 0;
  for (; same < most; ++same, text_a.clear(), text_b.clear())
    if (!of_a.write(1, text_a) || !of_b.write(1, text_b) || text_a != text_b) break;
  // Rows of a block are what they are by all of it.
  return a.block == b.block && same >= a.block ? same : 0;
}

std::optional<PageKey> KvKeys::root(const RowsOrigin& origin,
                                    std::span<const std::int32_t> tokens) const {
  if (origin.model.empty() || tokens.size() < origin.block) return std::nullopt;
  const PageKey scope = keys_.root(
      {.tenant = origin.tenant, .model = origin.model, .layout = layout_, .dtype = "f32"});
  if (origin.block == 0) return scope;
  std::string block = "block";  // five bytes: no page's content, of whole words, is as long
  append_little_endian(origin.block, 8, block);
  if (!Rows(origin, tokens).write(origin.block, block)) return std::nullopt;
  return keys_.next(scope, block);
}

void KvKeys::append(const RowsOrigin& origin, std::span<const std::int32_t> tokens,
                    std::size_t first, std::size_t end, PageKey parent,
                    std::vector<PageKey>& keys) const {
  Rows rows(origin, tokens);
  rows.skip(first * page_tokens_);
  std::string text;
  const auto sum = [&](std::size_t page, ContentSum& to) {
    if (page >= end) return false;
    const auto content = rows.content(page_tokens_, text);
    if (content) keys_.sum(*content, to);
    return content.has_value();
  };
  // The next page's content is summed before this page's key is made: neither needs the other, so
  // the processor does both at once.
  std::array<ContentSum, 2> sums{};
  std::size_t page = first;
  bool there = sum(page, sums[page % 2]);
  for (; there; ++page) {
    there = sum(page + 1, sums[(page + 1) % 2]);
    keys.push_back(parent = keys_.next(parent, sums[page % 2]));
  }
}

}  // namespace sluice
