#include "engine/layers/rope.h"

#include <cmath>
#include <numbers>

namespace sluice {

namespace {

/// Llama 3: long waves are slowed by the factor, short ones kept, those between blended.
double llama3(const Rope& rope, double frequency) {
  const double wave = 2 * std::numbers::pi / frequency;
  const double low = rope.original_positions / rope.low_freq_factor;
  const double high = rope.original_positions / rope.high_freq_factor;
  if (wave < high) return frequency;
  if (wave > low) return frequency / rope.factor;
  const double smooth = (rope.original_positions / wave - rope.low_freq_factor) /
                        (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const Rope& rope, std::size_t head_dim) {
  std::vector<double> frequencies(head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    double frequency =
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    if (rope.scaling == Rope::Scaling::linear) frequency /= rope.factor;
    if (rope.scaling == Rope::Scaling::llama3) frequency = llama3(rope, frequency);
    if (!rope.divisors.empty()) frequency /= static_cast<double>(rope.divisors[i]);
    frequencies[i] = frequency;
  }
  return frequencies;
}

void append_rope(const Rope& rope, std::size_t head_dim, std::span<const Position> positions,
                 RopeTable& table) {
  if (rope.theta == 0) return;
  const std::vector<double> frequencies = rope_frequencies(rope, head_dim);
  const std::size_t rows_end = rope.sections[0] + rope.sections[1];
  const bool sectioned = rows_end != 0;
  for (const Position& position : positions) {
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const std::int32_t place = !sectioned || i < rope.sections[0] ? position.t
                                 : i < rows_end                     ? position.h
                                                                    : position.w;
      const double angle = place * frequencies[i];
      table.cosine.push_back(static_cast<float>(std::cos(angle)));
      table.sine.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

}  // namespace sluice
