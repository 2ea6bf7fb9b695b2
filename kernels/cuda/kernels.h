// The engine's kernels on a GPU. Those that kernels/ has too do what the function of that name
// does.
//
// Shape: all pointers are the device's; rows are row-major, and begin on 16 bytes where their width
// is a multiple of 8 (f32: 4). T is float or Bf16. Hidden rows are f32. Thread and errors: as the
// stream; a launch that fails is reported by `synchronise`.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.h"
#include "kernels/elementwise.h"
#include "kernels/sample.h"

namespace sluice::device {

/// Scale, shift and gate of adaptive norms, [conditions, stride]; null: none. `values` points to
/// the norm's three parts in the first condition.
struct Modulated {
  const float* values = nullptr;
  const std::uint32_t* of_row = nullptr;
  std::size_t stride = 0;
};

/// norm(hidden) * weight + bias, then (1 + scale) and shift. No weight or bias: 1, 0.
struct Norm {
  float* hidden = nullptr;  // [rows, width]
  bool rms = true;
  const float *weight = nullptr, *bias = nullptr;
  float eps = 0;
  Modulated modulated;
};
template <typename T>
void norm_rows(const Norm& norm, std::size_t rows, std::size_t width, T* y, Stream stream);

/// What is added to hidden rows: (rows [rows, width] + bias) * scale * gate; no bias or scale:
/// 0, 1.
template <typename T>
struct Branch {
  const T* rows = nullptr;  // null: nothing
  const float *bias = nullptr, *scale = nullptr;
  Modulated modulated;
};
/// hidden += branch.
template <typename T>
void add_rows(float* hidden, const Branch<T>& branch, std::size_t rows, std::size_t width,
              Stream stream);
/// hidden += branch, then its norm.
template <typename T>
void add_and_norm(const Norm& norm, const Branch<T>& branch, std::size_t rows, std::size_t width,
                  T* y, Stream stream);

/// y += bias, for each row. Null: nothing.
template <typename T>
void add_bias(T* y, const float* bias, std::size_t rows, std::size_t width, Stream stream);

/// Of x [rows, width] + bias; null: 0.
template <typename T>
void activate(kernels::Activation kind, T* x, const float* bias, std::size_t rows,
              std::size_t width, Stream stream);
/// gate_up [rows, 2 * width] + bias to y [rows, width].
template <typename T>
void gated(kernels::Activation kind, const T* gate_up, const float* bias, std::size_t rows,
           std::size_t width, T* y, Stream stream);

/// y[r] = x[index[r]] * scale: rows of an embedding, or rows in another order. Null: each itself.
template <typename T, typename U>
void gather_rows(const T* x, const std::int32_t* index, std::size_t rows, std::size_t width,
                 float scale, U* y, Stream stream);

/// Pages of keys and values: page p, layer l holds [page_tokens, row] of keys, then of values.
template <typename T>
struct Pages {
  T* data = nullptr;
  std::size_t layers = 0, row = 0, page_tokens = 0;
};

/// Where the rows of a forward stand. `pages` [sequences, pages_max] lists each sequence's.
struct Places {
  const std::uint32_t* sequence = nullptr;  // of each row
  const std::uint32_t* place = nullptr;     // of each row, in its sequence
  const std::uint32_t* visible = nullptr;   // how many tokens each row sees
  const std::uint32_t* pages = nullptr;
  std::size_t pages_max = 0;
};

/// Requires: an even head_dim. Splits [q | k | v] + bias (null: 0), rotates q and k (cosine, sine
/// [rows, head_dim / 2]; null: not at all) and writes q to [rows, heads * head_dim], k and v to
/// their pages.
template <typename T>
void rotate_and_store(const kernels::HeadShape& shape, const T* qkv, const float* bias,
                      std::size_t rows, const float* cosine, const float* sine, T* q,
                      const Pages<T>& pages, std::size_t layer, const Places& places,
                      Stream stream);

/// Rows of one sequence that follow each other: [first, first + count).
struct RowRun {
  std::uint32_t first = 0, count = 0;
};

/// Paged attention of any mix of rows; `runs` covers them. A sequence is cut into `splits` parts
/// (1 to `attention_splits_max`) that are computed apart and then joined; `scratch` holds
/// `attention_scratch` floats. A row that sees nothing gets zeros. Rows and pages may begin at any
/// value. Requires: head_dim at most 256, places below 2^24, pages of at most 2^16 tokens.
inline constexpr std::size_t attention_splits_max = 64;
template <typename T>
void attention(const kernels::HeadShape& shape, const T* q, std::size_t rows, const RowRun* runs,
               std::size_t run_count, std::size_t run_rows_max, const Pages<T>& pages,
               std::size_t layer, const Places& places, std::size_t splits, float* scratch, T* out,
               Stream stream);
/// How many parts keep a large GPU busy. Of counts only: work that was recorded once serves
/// sequences of any length.
template <typename T>
std::size_t attention_splits(const kernels::HeadShape& shape, std::size_t rows,
                             std::size_t run_count, std::size_t run_rows_max);
std::size_t attention_scratch(const kernels::HeadShape& shape, std::size_t rows,
                              std::size_t splits);

/// `Products::multiply` for up to `matvec_rows` rows, and a bias: bound by reading the weight once.
/// Two rows of bf16 are faster on tensor cores already, which these do not use.
template <typename T>
inline constexpr std::size_t matvec_rows = std::is_same_v<T, Bf16> ? 1 : 4;
template <typename T, typename U>
void matvec(const T* x, const T* weight, const float* bias, U* y, std::size_t rows, std::size_t out,
            std::size_t in, Stream stream);
/// The same of rows that come from a norm, of sums that go to hidden rows as `add_rows` adds them,
/// and of [gate | up] as `gated` joins them (the weight has 2 * out rows): what a step of few rows
/// spends is the number of kernels. Requires for `matvec_normed` and `matvec_gated`: `fits_normed`.
template <typename T>
bool fits_normed(std::size_t rows, std::size_t in);
template <typename T, typename U>
void matvec_normed(const Norm& norm, const T* weight, const float* bias, U* y, std::size_t rows,
                   std::size_t out, std::size_t in, Stream stream);
template <typename T>
void matvec_added(const T* x, const T* weight, const float* bias, const float* scale,
                  const Modulated& modulated, float* hidden, std::size_t rows, std::size_t out,
                  std::size_t in, Stream stream);
template <typename T>
void matvec_gated(const Norm& norm, kernels::Activation kind, const T* weight, const float* bias,
                  T* y, std::size_t rows, std::size_t out, std::size_t in, Stream stream);

/// What `sample` takes for each row.
struct SampleRow {
  float temperature = 0, top_p = 1, min_p = 0, repetition_penalty = 1;
  std::uint32_t top_k = 0;
  std::uint32_t history_begin = 0, history_end = 0;  // distinct tokens
  float uniform = 0;
};
/// A token for each row of logits [rows, vocabulary], which are changed. Tokens of equal logits are
/// kept or left together; of the likeliest ones, temperature 0 takes the lowest. The same in any
/// order of the device's threads. `scratch`: `sample_scratch` bytes.
/// Requires: a vocabulary of 1 to 2^24 - 1 tokens.
void sample(float* logits, std::size_t rows, std::size_t vocabulary, const SampleRow* options,
            const std::int32_t* history, void* scratch, std::int32_t* tokens, Stream stream);
std::size_t sample_scratch(std::size_t rows, std::size_t vocabulary);

/// Keys (or values) of one sequence's first `tokens` from their pages to rows, and back.
template <typename T>
void pages_to_rows(const Pages<T>& pages, std::size_t layer, bool values,
                   const std::uint32_t* sequence_pages, std::size_t tokens, T* rows, Stream stream);
template <typename T>
void rows_to_pages(const T* rows, const Pages<T>& pages, std::size_t layer, bool values,
                   const std::uint32_t* sequence_pages, std::size_t tokens, Stream stream);
/// Moves rows [by, count) to [0, count - by), in place.
template <typename T>
void shift_rows(T* rows, std::size_t count, std::size_t width, std::size_t by, Stream stream);
/// A picture u8 [side, side, 3] to patches [(side / patch)^2, 3 * patch^2], normalised.
template <typename T>
void cut_normalised(const std::uint8_t* picture, std::size_t side, std::size_t patch,
                    const float* mean, const float* deviation, T* patches, Stream stream);

}  // namespace sluice::device
