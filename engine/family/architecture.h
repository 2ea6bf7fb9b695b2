// What a checkpoint is: its family and the shapes of its parts, read from `config.json`.
//
// Written as Hugging Face `transformers` writes it (4.x and 5.x keys), diffusers, openpi or
// lerobot; keys that are missing take the family's defaults there. Not trusted: every number has a
// limit. Errors: not_found, corrupt (which key, what it must be), invalid_argument (a family or an
// option that is not supported, and which are).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/layers/decoder.h"
#include "engine/layers/diffusion_transformer.h"
#include "engine/layers/qwen_vision.h"
#include "engine/layers/tower.h"
#include "engine/layers/vae_decoder.h"

namespace sluice {

enum class Family : std::uint8_t {
  llama,
  qwen2,
  gemma,
  siglip,
  dinov2,
  paligemma,
  qwen2_5_vl,
  smolvlm,
  pi0,
  pi05,
  smolvla,
  openvla,
  dit,
  vae,
};
std::string_view to_string(Family family);

/// Stands for the patches of a family whose vocabulary has no token for them (OpenVLA: behind the
/// first token).
inline constexpr std::int32_t patches_token = -2;

/// Flow matching on the action expert.
struct ActionShape {
  DecoderShape expert;
  std::size_t horizon = 50;
  std::size_t dims = 32;
  std::size_t steps = 10;
  std::size_t cameras = 3;
  std::size_t state_dims = 32;
  bool causal_language = false;  // OxyGen's variant; the official mask is bidirectional
};

/// How a data set's actions were scaled to [-1, 1].
struct ActionStatistics {
  std::string dataset;
  std::vector<double> low, high;  // the 1st and 99th percentile
  std::vector<bool> scaled;       // false: left as it is (a gripper)
};

struct Architecture {
  Family family = Family::llama;
  std::optional<DecoderShape> text;
  std::optional<TowerShape> vision;
  std::optional<QwenVisionShape> qwen_vision;
  std::optional<TowerShape> second_vision;  // OpenVLA: SigLIP beside DINOv2, channels joined
  std::optional<ActionShape> action;
  std::optional<DiffusionShape> diffusion;
  std::optional<VaeShape> vae;
  std::vector<ActionStatistics> statistics;
  std::size_t action_tokens_end = 0;  // OpenVLA: ids below this stand for words
  std::int32_t image_token = -1;
  std::size_t pixel_shuffle = 1;      // SmolVLM's connector
  bool bidirectional_prefix = false;  // PaliGemma: the prompt's rows see each other

  /// Of a directory, or of a GGUF file.
  static Result<Architecture> load(const std::string& path);
  static Result<Architecture> parse(const std::string& json, const std::string& name);
};

}  // namespace sluice
