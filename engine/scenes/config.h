// The sizes of a models/scenes checkpoint, read from its `config.json` and checked.
//
// Errors: not_found, corrupt (which key, its value, what it must be).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/layers/decoder.h"

namespace sluice {

/// One layer of the image codec, as data. `residual` adds what `body` makes of its input.
struct CodecLayer {
  enum class Kind : std::uint8_t { conv, silu, upsample2x, residual } kind = Kind::silu;
  std::string name;
  std::size_t in = 0;
  std::size_t out = 0;
  std::size_t stride = 1;
  std::vector<CodecLayer> body;
};

struct ModelConfig {
  std::size_t vocabulary = 0, width = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::size_t mlp = 0, positions_max = 0;
  float rms_eps = 0;
  double rope_theta = 0;
  std::int32_t bos = 0, eos = 0, user = 0, assistant = 0, image = 0, image_end = 0, draw = 0;

  struct Vision {
    std::size_t image = 0, patch = 0, width = 0, layers = 0, heads = 0, mlp = 0, merge = 0;
    std::size_t merger = 0;
    float eps = 0;
  } vision;

  struct Denoiser {
    std::size_t tokens = 0, token_dim = 0, time_dim = 0, steps = 0;
    double min_period = 0, max_period = 0, guidance = 0;
    bool predicts_x0 = false;  // otherwise velocity
  } denoiser;

  struct Codec {
    std::size_t channels = 0, latent = 0, patch = 0;
    std::vector<CodecLayer> encoder, decoder;
  } codec;

  /// The backbone as a decoder.
  DecoderShape decoder() const;
  static DecoderNames decoder_names();

  static Result<ModelConfig> load(const std::string& directory);
  static Result<ModelConfig> parse(const std::string& json, const std::string& name);
};

}  // namespace sluice
