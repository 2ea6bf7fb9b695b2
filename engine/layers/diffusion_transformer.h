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

class DiffusionTransformer {
 public:
  static Result<DiffusionTransformer> load(const DiffusionShape& shape, const SafetensorsFile& file,
                                           kernels::WeightFormat format,
                                           WeightArena* arena = nullptr);

  const DiffusionShape& shape() const { return shape_; }
  KvShape kv_shape(std::size_t page_tokens) const { return trunk_.kv_shape(page_tokens); }

  const Decoder& trunk() const { return trunk_; }
  /// Errors: invalid_argument (a class that there is not; `classes` itself stands for none).
  Result<void> check_class(std::int64_t label) const;

  /// Latent pictures become rows of the trunk, `patches` each, which see each other.
  void rows_of(std::span<const float> latents, std::vector<float>& rows) const;
  /// What the trunk's norms add at these times, for as many classes.
  Conditions conditions(std::span<const float> times, std::span<const std::int32_t> classes) const;
  /// Of what the rows became: [pictures, out_channels, side, side]; the first `channels` of each
  /// are the noise.
  std::vector<float> predicted(std::span<const float> hidden) const;

  /// All of it for some pictures. Takes pages from the pool and gives them back. Errors: exhausted,
  /// those of `check_class`.
  Result<void> predict(KvPool& pool, std::span<const float> latents, std::span<const float> times,
                       std::span<const std::int32_t> classes, std::vector<float>& predicted) const;

 private:
  struct Embedder {
    Linear time1, time2, modulation;
    kernels::Weight classes;
  };
  /// [pictures, width], after SiLU.
  void embed_condition(const Embedder& embedder, std::span<const float> times,
                       std::span<const std::int32_t> classes, std::vector<float>& rows) const;
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
