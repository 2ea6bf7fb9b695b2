#include "engine/layers/latent_flow.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "engine/layers/block.h"
#include "kernels/elementwise.h"

namespace sluice {

Result<LatentFlow> LatentFlow::load(const LatentFlowShape& shape, const SafetensorsFile& file,
                                    WeightArena* arena) {
  LatentFlow made;
  made.shape_ = shape;
  WeightLoader load(file, kernels::WeightFormat::exact, arena);
  made.in_ = load.linear("denoiser.in_proj", shape.width, shape.token_values, true);
  made.out_ = load.linear("denoiser.out_proj", shape.token_values, shape.width, true);
  made.time_in_ = load.linear("denoiser.time_mlp_in", shape.width, shape.time_values, true);
  made.time_out_ = load.linear("denoiser.time_mlp_out", shape.width, shape.width, true);
  made.positions_ = load.values("denoiser.position_embedding", shape.tokens * shape.width);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

std::vector<float> LatentFlow::noise(std::uint64_t seed) const {
  SplitMix64 random(seed);
  std::vector<float> values(shape_.tokens * shape_.token_values);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

std::vector<float> LatentFlow::rows(std::span<const float> x, double t) const {
  const std::size_t half = shape_.time_values / 2;
  std::vector<float> waves(shape_.time_values);
  for (std::size_t i = 0; i < half; ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(half - 1);
    const double period =
        shape_.min_period * std::pow(shape_.max_period / shape_.min_period, place);
    const double angle = 2 * std::numbers::pi * t / period;
    waves[i] = static_cast<float>(std::sin(angle));
    waves[half + i] = static_cast<float>(std::cos(angle));
  }
  std::vector<float> inner, time, made;
  apply(time_in_, waves, inner);
  kernels::activate_cpu(kernels::Activation::silu, inner);
  apply(time_out_, inner, time);
  apply(in_, x, made);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] += positions_[i] + time[i % shape_.width];
  return made;
}

std::vector<float> LatentFlow::velocity_of(std::span<const float> hidden, std::span<const float> x,
                                           double t) const {
  std::vector<float> guess;
  apply(out_, hidden, guess);
  if (shape_.predicts_x0)
    for (std::size_t i = 0; i < guess.size(); ++i)
      guess[i] = (x[i] - guess[i]) / static_cast<float>(std::max(t, 1e-3));
  return guess;
}

}  // namespace sluice
