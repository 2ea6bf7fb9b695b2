#include "engine/scenes/flow.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.h"
#include "kernels/elementwise.h"

namespace sluice {

namespace {

std::vector<float> project(const Linear& linear, std::span<const float> x) {
  const std::size_t rows = x.size() / linear.weight.in();
  std::vector<float> y(rows * linear.weight.out());
  kernels::matmul_cpu(x, linear.weight, linear.bias, y, rows);
  return y;
}

}  // namespace

Result<Flow> Flow::load(const ModelConfig& config, const SafetensorsFile& file) {
  const ModelConfig::Denoiser& c = config.denoiser;
  Flow made;
  made.config_ = config;
  WeightLoader load(file);
  made.in_ = load.linear("denoiser.in_proj", config.width, c.token_dim, true);
  made.out_ = load.linear("denoiser.out_proj", c.token_dim, config.width, true);
  made.time_in_ = load.linear("denoiser.time_mlp_in", config.width, c.time_dim, true);
  made.time_out_ = load.linear("denoiser.time_mlp_out", config.width, config.width, true);
  made.positions_ = load.values("denoiser.position_embedding", c.tokens * config.width);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

std::vector<float> Flow::noise(std::uint64_t seed) const {
  SplitMix64 random(seed);
  std::vector<float> values(config_.denoiser.tokens * config_.denoiser.token_dim);
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

std::vector<float> Flow::tokens(std::span<const float> x, double t) const {
  const ModelConfig::Denoiser& c = config_.denoiser;
  const std::size_t half = c.time_dim / 2;
  std::vector<float> waves(c.time_dim);
  for (std::size_t i = 0; i < half; ++i) {
    const double place = static_cast<double>(i) / static_cast<double>(half - 1);
    const double period = c.min_period * std::pow(c.max_period / c.min_period, place);
    const double angle = 2 * std::numbers::pi * t / period;
    waves[i] = static_cast<float>(std::sin(angle));
    waves[half + i] = static_cast<float>(std::cos(angle));
  }
  std::vector<float> time = project(time_in_, waves);
  kernels::activate_cpu(kernels::Activation::silu, time);
  time = project(time_out_, time);
  std::vector<float> rows = project(in_, x);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += positions_[i] + time[i % config_.width];
  return rows;
}

Result<std::vector<std::vector<float>>> Flow::velocity(const Decoder& backbone, KvPool& pool,
                                                       std::span<KvSequence* const> sequences,
                                                       std::span<const float> x, double t) const {
  const std::vector<float> rows = tokens(x, t);
  std::vector<Chunk> chunks;
  for (KvSequence* sequence : sequences) chunks.push_back({sequence, rows, Mask::block});
  std::vector<float> hidden;
  Result<void> ran = backbone.forward(pool, chunks, hidden);
  if (!ran.ok()) return ran.error();
  for (KvSequence* sequence : sequences)
    pool.truncate(*sequence, sequence->tokens - config_.denoiser.tokens);
  std::vector<std::vector<float>> velocities;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    std::vector<float> guess =
        project(out_, std::span(hidden).subspan(s * rows.size(), rows.size()));
    if (config_.denoiser.predicts_x0)
      for (std::size_t i = 0; i < guess.size(); ++i)
        guess[i] = (x[i] - guess[i]) / static_cast<float>(std::max(t, 1e-3));
    velocities.push_back(std::move(guess));
  }
  return velocities;
}

Result<std::vector<float>> Flow::draw(const Decoder& backbone, KvPool& pool, KvSequence& prompt,
                                      KvSequence* uncond, std::vector<float> x,
                                      const FlowOptions& options,
                                      const std::function<bool()>& go_on) const {
  std::vector<KvSequence*> sequences{&prompt};
  if (uncond != nullptr && options.guidance != 1) sequences.push_back(uncond);
  const auto guidance = static_cast<float>(options.guidance);
  for (std::size_t step = 0; step < options.steps; ++step) {
    if (!go_on()) return Error{ErrorCode::cancelled, "the drawing was cancelled"};
    const double t =
        options.start * (1 - static_cast<double>(step) / static_cast<double>(options.steps));
    auto velocities = velocity(backbone, pool, sequences, x, t);
    if (!velocities.ok()) return velocities.error();
    const std::vector<float>& with = velocities->front();
    const std::vector<float>& without = velocities->back();
    const auto dt = static_cast<float>(options.start / static_cast<double>(options.steps));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] -=
          dt * (sequences.size() == 1 ? with[i] : without[i] + guidance * (with[i] - without[i]));
  }
  return x;
}

}  // namespace sluice
