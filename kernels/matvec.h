// A few rows times a matrix, over the type it is stored in: what decoding is made of.
//
// Up to about four are bound by reading the matrix once; more come here where the processor
// multiplies the type itself, for nothing is widened. Rows [begin, end) of the matrix, so that
// threads share it. For `FewRowsProduct` only. Shape: x [rows, in], W [out, in], y [rows, out].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matmul.h"

namespace sluice::kernels {

/// Of a matrix that one row reads from beginning to end, the line that is wanted some hundred
/// nanoseconds later: what the processor asks for by itself is not far enough ahead (measured on
/// one thread, int8: 25 to 32 GB/s, 31 to 38 with it). May point behind the matrix.
[[gnu::always_inline]] inline void read_ahead(const void* at) {
  constexpr std::size_t ahead = 4096;
  __builtin_prefetch(static_cast<const char*>(at) + ahead);
}

/// x as 16-bit whole numbers, split in bytes: x = scale * (256 * high + low - 32768).
struct SplitRows {
  const std::uint8_t* high = nullptr;
  const std::uint8_t* low = nullptr;
  const float* scale = nullptr;        // per row
  const std::int32_t* sums = nullptr;  // of the matrix, per output row
};

struct FewRows {
  const float* x = nullptr;               // rounded to bf16 where the format says so
  const std::uint16_t* x_bf16 = nullptr;  // the same; null: not at hand
  SplitRows split;                        // for an int8 matrix
  const float* scales = nullptr;          // per output row; null: 1
  const float* bias = nullptr;            // null: none
  float* y = nullptr;
  std::size_t rows = 0, in = 0, out = 0;
};

/// Up to how many rows the products below are taken without tiles: where they are the fastest. With
/// `Isa::bf16_fast` those of many rows are faster from 12 on, but a row alone has other bits there.
std::size_t matvec_rows(WeightFormat format, std::size_t in);

/// True when the machine multiplies bytes, so that `split` is wanted.
bool wants_split(std::size_t in);
/// Fills one row of a split. Cost: two passes over x.
float split_row(const float* x, std::size_t count, std::uint8_t* high, std::uint8_t* low);

void matvec(const FewRows& f, const float* w, std::size_t begin, std::size_t end);
void matvec(const FewRows& f, const std::uint16_t* w, std::size_t begin, std::size_t end);
void matvec(const FewRows& f, const std::int8_t* w, std::size_t begin, std::size_t end);

}  // namespace sluice::kernels
