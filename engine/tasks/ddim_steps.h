// A drawing of a class by a DiT: DDIM without noise of its own, guided away from "no class".
//
// What the norms add depends on times and classes only: it is computed for some steps at once, for
// which the weights of all layers are read once.
// Shape: latents [channels, side, side], f32. Thread: one. Source: Song et al. 2021, as diffusers'
// DDIMScheduler steps.
#pragma once

#include <memory>

#include "engine/layers/diffusion_transformer.h"
#include "engine/tasks/drawing_steps.h"

namespace sluice {

struct DdimOptions {
  std::size_t steps = 50;
  float guidance = 4;  // 1: none
};

class DdimSteps final : public DrawingSteps {
 public:
  /// `latents`: noise. Borrows the transformer. Errors: invalid_argument (steps, a class that there
  /// is not, noise of another size).
  static Result<std::unique_ptr<DdimSteps>> make(const DiffusionTransformer& transformer,
                                                 std::int64_t label, const DdimOptions& options,
                                                 std::vector<float> latents);

  std::size_t left() const override { return left_; }
  bool is_guided() const override { return options_.guidance != 1; }
  std::size_t rows() const override { return transformer_.shape().patches(); }
  void lay_out(DrawingRows& step) override;
  void take(std::span<const float> with, std::span<const float> without) override;
  std::vector<float> take_latents() override { return std::move(latents_); }

 private:
  explicit DdimSteps(const DiffusionTransformer& transformer) : transformer_(transformer) {}
  std::size_t time_of(std::size_t left) const { return (left - 1) * stride_; }
  void read_conditions();

  const DiffusionTransformer& transformer_;
  std::int32_t label_ = 0;
  DdimOptions options_;
  std::vector<float> latents_;
  std::vector<double> shares_;
  std::size_t stride_ = 1;
  std::size_t left_ = 0;
  Conditions conditions_;  // of some steps, in their order
  std::size_t step_ = 0;   // which of those is next
  std::size_t known_ = 0;  // how many those are
};

}  // namespace sluice
