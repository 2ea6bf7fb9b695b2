// Matrices in the block types of GGUF files, and their products over the blocks as they lie.
//
// A row is blocks of 32 or 256 whole numbers with scales (and minima) of their own, or plain f32,
// f16 or bf16. x is rounded to 16-bit whole numbers, a scale for each 32 of them: sums of a block
// are exact, and the rounding is far below that of any block type. One row, and without VNNI up to
// four, read the blocks row after row; more meet sixteen rows of the matrix at a time
// (quant_panel.h). Over plain types products are f32's.
// Shape: x [rows, in], y [rows, out]; `in` is a multiple of the block's values. Little-endian.
// Source: ggml's block layouts (ggml-common.h, ggml-quants.c).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/finish.h"

namespace sluice::kernels {

enum class BlockType : std::uint8_t {
  f32,
  f16,
  bf16,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k
};

struct BlockLayout {
  std::string_view name;   // "Q4_1"
  std::uint32_t code = 0;  // in a GGUF file
  std::size_t values = 0, bytes = 0;
};
std::span<const BlockLayout> block_layouts();  // in the order of BlockType
const BlockLayout& layout_of(BlockType type);
std::optional<BlockType> block_type_named(std::string_view name);

/// Rows of a matrix where they lie; never copied. Whoever makes one has checked the bytes' size.
struct BlockRows {
  BlockType type = BlockType::f32;
  const std::uint8_t* bytes = nullptr;
  std::size_t rows = 0, in = 0;
  /// Rows of a head of so many stand as 0, n/2, 1, n/2 + 1, ... (llama.cpp's order for its RoPE);
  /// 0: they stand in order.
  std::size_t interleaved = 0;
  std::shared_ptr<const void> owner;  // keeps the bytes

  std::size_t row_bytes() const { return in / layout_of(type).values * layout_of(type).bytes; }
  const std::uint8_t* row(std::size_t r) const;
  /// `visit(r, row)` for rows [begin, end), in the order in which they lie.
  template <typename Visit>
  void each_row(std::size_t begin, std::size_t end, const Visit& visit) const {
    const std::size_t bytes_each = row_bytes();
    const std::size_t head = interleaved == 0 ? 1 : interleaved;
    for (std::size_t first = begin / head * head; first < end; first += head)
      for (std::size_t at = 0; at < head; ++at) {
        const std::size_t r = first + at % 2 * (head / 2) + at / 2;
        if (r >= begin && r < end) visit(r, bytes + (first + at) * bytes_each);
      }
  }
};

/// A row's values in f32. Requires: to.size() == values of the blocks from `row` on.
void read_blocks(BlockType type, const std::uint8_t* row, std::span<float> to);

/// Four groups of 32 of one row of x, as VNNI multiplies them: whole = 256 * high + low. A group
/// has four lanes of sixteen.
struct alignas(64) FourGroups {
  std::int8_t high[2][64], low[2][64];  // [of a group's first sixteen, of its last]
  float scales[16];                     // each four times
  float sums[16];                       // as in WholeRows; in the first of four lanes
  std::int32_t totals[16];              // of the whole numbers, there too
};

/// Eight groups of one row of x, as VNNI multiplies them with blocks of 256.
struct alignas(64) EightGroups {
  std::int8_t high[4][64], low[4][64];  // of two groups each, in order
  std::int32_t totals[4][16];           // 32 times the sum of each four whole numbers
  float scales[16];                     // of the groups, then their sums in WholeRows, negative
  float twice[16];                      // scales, each two times
};

/// x as whole numbers: value = scale * whole, per group of 32. Kept between calls.
struct WholeRows {
  std::vector<std::int16_t> whole;  // [rows, in]
  std::vector<float> scales;        // [rows, in / 32]
  std::vector<float> sums;          // of a group's values, as rounded
  std::vector<FourGroups> fours;    // of one row alone, where VNNI is used; else empty
  std::vector<EightGroups> eights;  // the same; empty, too, where x is no whole blocks of 256
  void assign(std::span<const float> x, std::size_t in);
};

/// Up to four rows of x.
struct FewBlockRows {
  const float* x = nullptr;
  const WholeRows* whole = nullptr;  // for quantised types
  std::size_t rows = 0;
  float* y = nullptr;
  std::size_t stride = 0;  // of y's rows
};
constexpr std::size_t block_rows_few = 4;

/// y[r * stride + o] = x[r] . w[o] for o in [begin, end) of the matrix' rows.
void block_products(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end);

/// The same over all parts, one below the other.
void few_block_products(const FewBlockRows& f, std::span<const BlockRows> parts, std::size_t begin,
                        std::size_t end);
/// True when some part needs `FewBlockRows::whole`.
bool any_quantised(std::span<const BlockRows> parts);

/// y [rows, out] = x W^T + bias, W being all parts one below the other. With another finish than
/// storing y is as that says, bit for bit what the steps one by one give. Requires for it:
/// `finishes_blocks`, and no bias.
void matmul_blocks(std::span<const float> x, std::span<const BlockRows> parts, const float* bias,
                   std::span<float> y, std::size_t rows, const Finish& finish = {});
bool finishes_blocks(std::span<const BlockRows> parts, std::size_t rows, const Finish& finish);

}  // namespace sluice::kernels
