// Flow matching over the backbone: noise to latent tokens, step by step.
//
// x at time t is (1 - t) x0 + t noise; Euler steps go from t = 1 to 0. A latent token is its
// projection plus its position's and the time's embedding; the block of them sees the whole prompt
// and itself. Source: Lipman et al. 2023; omni-flow, section 5.3.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/layers/decoder.h"
#include "engine/scenes/config.h"

namespace sluice {

struct FlowOptions {
  std::size_t steps = 16;
  double guidance = 1;  // 1: the prompt alone
  double start = 1;     // time to begin at; below 1 the picture `from` shines through
  std::uint64_t seed = 0;
};

class Flow {
 public:
  static Result<Flow> load(const ModelConfig& config, const SafetensorsFile& file);

  /// Standard normal values for a seed: the same on every machine.
  std::vector<float> noise(std::uint64_t seed) const;

  /// The velocity at `x` for each of `sequences`, which are left as they were. Errors: exhausted.
  Result<std::vector<std::vector<float>>> velocity(const Decoder& backbone, KvPool& pool,
                                                   std::span<KvSequence* const> sequences,
                                                   std::span<const float> x, double t) const;

  /// Draws. `uncond` may be null when guidance is 1. `go_on` is asked before each step.
  Result<std::vector<float>> draw(const Decoder& backbone, KvPool& pool, KvSequence& prompt,
                                  KvSequence* uncond, std::vector<float> x,
                                  const FlowOptions& options,
                                  const std::function<bool()>& go_on) const;

 private:
  std::vector<float> tokens(std::span<const float> x, double t) const;

  ModelConfig config_;
  Linear in_, out_, time_in_, time_out_;
  std::vector<float> positions_;
};

}  // namespace sluice
