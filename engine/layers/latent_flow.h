// Flow matching over a language model's trunk: what latents become in it, and what comes of that.
//
// x at time t is (1 - t) x0 + t noise; Euler steps go from t = 1 to 0
// (`engine/tasks/flow_steps.h`). A latent token is its projection plus its position's and the
// time's embedding; the block of them sees the whole prompt and itself. Shape: x f32 [tokens,
// token_values]; rows f32 [tokens, width]. Thread: immutable after `load`. Source: Lipman et al.
// 2023; omni-flow, section 5.3.
#pragma once

#include <span>
#include <vector>

#include "engine/checkpoint/weights.h"

namespace sluice {

struct LatentFlowShape {
  std::size_t width = 0;  // of the trunk
  std::size_t tokens = 0, token_values = 0;
  std::size_t time_values = 0;
  double min_period = 0, max_period = 0;  // of the time's waves
  bool predicts_x0 = false;               // otherwise the velocity
  std::size_t steps = 0;                  // where nobody says how many
  double guidance = 0;                    // where nobody says
};

struct FlowOptions {
  std::size_t steps = 16;
  double guidance = 1;  // 1: the prompt alone
  double start = 1;     // time to begin at; below 1 what it starts from shines through
  std::uint64_t seed = 0;
};

class LatentFlow {
 public:
  static Result<LatentFlow> load(const LatentFlowShape& shape, const SafetensorsFile& file,
                                 WeightArena* arena = nullptr);

  const LatentFlowShape& shape() const { return shape_; }
  /// Standard normal values for a seed: the same on every machine.
  std::vector<float> noise(std::uint64_t seed) const;
  /// The rows for the trunk that stand for the latents `x` at a time.
  std::vector<float> rows(std::span<const float> x, double t) const;
  /// The velocity at `x`, from the hidden rows that those became.
  std::vector<float> velocity_of(std::span<const float> hidden, std::span<const float> x,
                                 double t) const;

 private:
  LatentFlowShape shape_;
  Linear in_, out_, time_in_, time_out_;
  std::vector<float> positions_;
};

}  // namespace sluice
