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

#include "engine/layers/convolution_codec.h"
#include "engine/layers/decoder.h"
#include "engine/layers/diffusion_transformer.h"
#include "engine/layers/latent_flow.h"
#include "engine/layers/qwen_vision.h"
#include "engine/layers/tower.h"
#include "engine/layers/vae_decoder.h"

namespace sluice {

enum class Family : std::uint8_t {
  llama,
  qwen2,
  gemma,
  smollm3,
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
  scenes,
};
std::string_view to_string(Family family);

/// What a family's checkpoints are made of, and so which roles can play them.
enum class FamilyKind : std::uint8_t {
  language,         // a decoder of tokens
  vision,           // a tower
  vision_language,  // both
  policy,           // both, and an action expert by flow matching
  action_tokens,    // both; actions are tokens
  drawer,           // both, and drawings by the decoder's trunk
  diffusion,
  codec,
};
/// The families of these kinds, in the order in which they are told to users.
std::vector<Family> families_of(std::initializer_list<FamilyKind> kinds);

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

/// How a talk is laid out where tokens tell turns apart and no template does: `bos`, then for each
/// turn `user`, what is said, `assistant`, the answer, `eos`. A picture's rows stand between
/// `image` and `image_end`; an answer that is `draw` stands for a drawing.
struct TurnTokens {
  std::int32_t bos = -1, eos = -1, user = -1, assistant = -1;
  std::int32_t image = -1, image_end = -1, draw = -1;

  /// What stands before a drawing that was asked for without words.
  std::vector<std::int32_t> wordless_drawing() const { return {bos, user, assistant, draw}; }
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
  std::optional<ConvolutionCodecShape> codec;
  std::optional<LatentFlowShape> flow;  // drawings by the trunk of `text`
  std::optional<TurnTokens> turns;
  std::vector<ActionStatistics> statistics;
  std::size_t action_tokens_end = 0;  // OpenVLA: ids below this stand for words
  std::size_t action_bins = 256;      // and the last of them for actions: edges, from -1 to 1
  std::int32_t image_token = -1;
  std::size_t pixel_shuffle = 1;      // so many neighbours squared of a tower are one row (SmolVLM)
  std::size_t projector_hidden = 0;   // of two layers with GELU between them; 0: one layer
  bool bidirectional_prefix = false;  // PaliGemma: the prompt's rows see each other
  /// What roles keep weights in when nobody says: small models lose more by rounding than they
  /// gain.
  kernels::WeightFormat usual_format = kernels::WeightFormat::bf16;

  /// Of a directory, or of a GGUF file.
  static Result<Architecture> load(const std::string& path);
  static Result<Architecture> parse(const std::string& json, const std::string& name);
};

}  // namespace sluice
