// Rotary positions as tables of cosines and sines: one row for each token of a forward.
//
// Every family's rotation is such a table; the kernel that uses it knows none of them. Shape: rows
// of head_dim / 2. Source: Su et al. 2021; Llama 3's frequency scaling; Qwen2-VL, section 2.1
// (M-RoPE).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sluice {

/// Where a token stands: in time, and within a picture by row and column. Text has all three equal.
struct Position {
  std::int32_t t = 0, h = 0, w = 0;
  static Position at(std::int32_t place) { return {place, place, place}; }
};

struct Rope {
  enum class Scaling : std::uint8_t { none, linear, llama3 };
  double theta = 0;  // 0: no rotation
  Scaling scaling = Scaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4, original_positions = 8192;
  std::vector<float> divisors;  // of each frequency (a GGUF file's llama3 scaling); empty: none
  std::array<std::size_t, 3> sections{};  // of the half head, by t, h, w; all zero: t only
};

struct RopeTable {
  std::vector<float> cosine, sine;
};

/// The frequencies of a half head: angle = position * frequency.
std::vector<double> rope_frequencies(const Rope& rope, std::size_t head_dim);
/// Appends a row for each position.
void append_rope(const Rope& rope, std::size_t head_dim, std::span<const Position> positions,
                 RopeTable& table);

}  // namespace sluice
