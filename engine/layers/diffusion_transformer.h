// A DiT: what noise a latent picture holds, for its time and its class.
//
// Its trunk is a `Decoder` with adaptive LayerNorms whose rows see the whole picture, so pictures
// at different times and of different classes go through one ragged forward, as rows of text do.
// Shape: latents [pictures, channels, side, side], f32. Thread: one caller at a time per pool.
// Source: Peebles and Xie 2023, as diffusers' DiTTransformer2DModel has it; omni-flow, section 5.3
// (a DiT runs on the LLM's path with image and time as further batch fields).
#pragma once

#include <span>
#include <vector>

#include "engine/layers/decoder.h"

namespace sluice {

struct DiffusionShape {
  DecoderShape trunk;
  std::size_t side = 32;  // of a latent picture
  std::size_t patch = 2;
  std::size_t channels = 4;
  std::size_t out_channels = 4;
  std::size_t classes = 1000;  // one more stands for none
  std::size_t train_steps = 1000;

  std::size_t patches() const { return (side / patch) * (side / patch); }
  std::size_t latent() const { return channels * side * side; }
};

/// What pictures are drawn with: DDIM without noise of its own, guided away from "no class".
struct DrawingOptions {
  std::size_t steps = 50;
  float guidance = 4;  // 1: none
};

/// One drawing a step at a time: the time that the network is asked about next, and what becomes of
/// its answer. Source: Song et al. 2021, as diffusers' DDIMScheduler steps.
class DdimDrawing {
 public:
  /// `latents`: noise. Errors: invalid_argument (steps).
  static Result<DdimDrawing> make(const DiffusionShape& shape, const DrawingOptions& options,
                                  std::vector<float> latents);

  bool done() const { return step_ == 0; }
  bool is_guided() const { return options_.guidance != 1; }
  /// Requires: not done.
  float time() const { return static_cast<float>((step_ - 1) * stride_); }
  const std::vector<float>& latents() const { return latents_; }
  std::vector<float> take_latents() { return std::move(latents_); }
  /// The noise [latent] that its class predicts, and that none does; the latter where guided.
  void take(std::span<const float> noise, std::span<const float> plain);

 private:
  DrawingOptions options_;
  std::vector<float> latents_;
  std::vector<double> shares_;
  std::size_t stride_ = 1;
  std::size_t step_ = 0;  // how many are left
};

class DiffusionTransformer {
 public:
  static Result<DiffusionTransformer> load(const DiffusionShape& shape, const SafetensorsFile& file,
                                           kernels::WeightFormat format);

  const DiffusionShape& shape() const { return shape_; }
  KvShape kv_shape(std::size_t page_tokens) const { return trunk_.kv_shape(page_tokens); }

  /// `predicted`: [pictures, out_channels, side, side]; the first `channels` of each are the noise.
  /// Takes pages from the pool and gives them back. Errors: exhausted, invalid_argument (a class
  /// that there is not; `classes` itself stands for none).
  Result<void> predict(KvPool& pool, std::span<const float> latents, std::span<const float> times,
                       std::span<const std::int32_t> classes, std::vector<float>& predicted) const;
  /// One step of each: those of a class and, where guided, of none, in one forward. Requires: none
  /// is done.
  Result<void> advance(KvPool& pool, std::span<DdimDrawing* const> drawings,
                       std::span<const std::int32_t> classes) const;
  /// Noise to a latent picture for each class; `latents` is both.
  Result<void> draw(KvPool& pool, std::span<const std::int32_t> classes,
                    const DrawingOptions& options, std::vector<float>& latents) const;

 private:
  struct Embedder {
    Linear time1, time2, modulation;
    kernels::Weight classes;
  };
  /// [pictures, width], after SiLU.
  void embed_condition(const Embedder& embedder, std::span<const float> times,
                       std::span<const std::int32_t> classes, std::vector<float>& rows) const;
  Conditions conditions(std::span<const float> times, std::span<const std::int32_t> classes) const;
  std::vector<float> join_patches(std::span<const float> rows) const;

  DiffusionShape shape_;
  Decoder trunk_;
  Linear patch_, last_modulation_, last_;
  std::vector<Embedder> embedders_;  // of each layer
  std::vector<float> positions_;     // [patches, width]
};

/// How much of the picture is left at each time of training: products of 1 - beta, with beta
/// rising evenly from 1e-4 to 0.02. Source: Ho et al. 2020.
std::vector<double> signal_shares(std::size_t train_steps);

}  // namespace sluice
