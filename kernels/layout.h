// How rows lie: keys and values in pages or one after the other, rows in a ring, pictures in
// patches.
//
// Copies, so there is no second version to compare with but the tests' own loops; `rotate_keys` is
// compared with `split_rotate_ref`. Shape: a page holds `page_tokens` rows of `width` values, f32
// or bf16 (std::uint16_t). Source: Kwon et al. 2023 (pages); ActionFlow, section 3.3 (the ring that
// is shifted).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// The first rows.size() / width rows of the pages.
void pages_to_rows_cpu(std::span<const float* const> pages, std::size_t page_tokens,
                       std::size_t width, std::span<float> rows);
/// Widened.
void pages_to_rows_cpu(std::span<const std::uint16_t* const> pages, std::size_t page_tokens,
                       std::size_t width, std::span<float> rows);
void rows_to_pages_cpu(std::span<const float> rows, std::size_t page_tokens, std::size_t width,
                       std::span<float* const> pages);
/// Each row of `width` values to a place of its own, rounded to nearest even; a NaN stays a NaN.
void narrow_rows_cpu(std::span<const float> rows, std::size_t width,
                     std::span<std::uint16_t* const> to);

/// Moves rows [by, count) to [0, count - by), in place.
void shift_rows_cpu(std::span<float> rows, std::size_t width, std::size_t by);

/// Rotates keys that were stored before RoPE, in place: rows [count, heads * head_dim]. Shape:
/// cosine, sine [count, head_dim / 2]; empty: nothing.
void rotate_keys_cpu(std::span<float> rows, std::size_t heads, std::size_t head_dim,
                     std::span<const float> cosine, std::span<const float> sine);

/// A picture u8 [side, side, 3] to patches [(side / patch)^2, 3 * patch^2], channel by channel:
/// (x / 255 - mean) / deviation. Requires: patch divides side, three means and deviations.
void cut_normalised_cpu(std::span<const std::uint8_t> picture, std::size_t side, std::size_t patch,
                        std::span<const float> mean, std::span<const float> deviation,
                        std::span<float> patches);

}  // namespace sluice::kernels
