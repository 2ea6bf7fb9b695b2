// A drawing by flow matching: Euler steps from noise, or from a picture with noise over it.
//
// Shape: x [tokens, token_values], f32. Thread: one. Source: Lipman et al. 2023.
#pragma once

#include "engine/layers/latent_flow.h"
#include "engine/tasks/drawing_steps.h"

namespace sluice {

class FlowSteps final : public DrawingSteps {
 public:
  /// `x`: noise, or what the drawing starts from. Borrows the flow.
  FlowSteps(const LatentFlow& flow, std::vector<float> x, const FlowOptions& options)
      : flow_(flow), x_(std::move(x)), options_(options) {}

  std::size_t left() const override { return options_.steps - step_; }
  bool is_guided() const override { return options_.guidance != 1; }
  std::size_t rows() const override { return flow_.shape().tokens; }
  void lay_out(DrawingRows& step) override { step.rows = flow_.rows(x_, time()); }
  void take(std::span<const float> with, std::span<const float> without) override;
  std::vector<float> take_latents() override { return std::move(x_); }

 private:
  double time() const;

  const LatentFlow& flow_;
  std::vector<float> x_;
  FlowOptions options_;
  std::size_t step_ = 0;
};

}  // namespace sluice
