// A checkpoint directory, loaded: its parts, and prompts of tokens and pictures for its decoder.
//
// Shape: features [rows, decoder width], in the order of the pictures. Thread: immutable after
// `open`. Owns: its parts, together with other models over the same files (`LoadedParts`).
// Errors: not_found, corrupt, invalid_argument as `Architecture` and `SafetensorsFile`.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/family/architecture.h"

namespace sluice {

/// Rows for a decoder, and how they stand to each other.
struct Prompt {
  std::vector<float> rows;
  std::vector<Position> positions;
  Mask mask = Mask::causal;
  std::int32_t next_position = 0;
};

/// `model.safetensors` or diffusers' `diffusion_pytorch_model.safetensors`, or the index of either;
/// the tensors of a GGUF file.
Result<SafetensorsFile> open_weights(const std::string& path);

/// Where a checkpoint's language decoder stands. A file without a head has it tied.
DecoderNames find_decoder(const SafetensorsFile& file, DecoderShape& shape);
/// And its vision tower; of two, the first.
TowerNames find_tower(const SafetensorsFile& file, const Architecture& architecture);
/// What makes a tower's rows (of `pixel_shuffle` squared neighbours) rows of the decoder. Requires:
/// both, and one tower only.
Linear load_projector(WeightLoader& load, const SafetensorsFile& file,
                      const Architecture& architecture);
/// The candidate under which a tensor stands. None: the first, so that a loader says what is
/// missing.
std::string find_prefix(const SafetensorsFile& file, std::span<const std::string_view> candidates,
                        std::string_view tensor);

/// Which parts of a checkpoint are loaded.
enum class ModelParts : std::uint8_t {
  all,
  around_decoder,  // all but the decoder's layers, which run elsewhere: `text` embeds, and no more
  pictures,        // what `features` needs: no decoder
  codec,           // what makes latents of pictures, or pictures of latents
};

class Model {
 public:
  /// Says whether a checkpoint may be loaded that has been opened.
  using Check = std::function<Result<void>(const Architecture&, const SafetensorsFile&)>;

  /// `config.json`, and weights as `open_weights` finds them. A part that a model of this process
  /// has of the same files, in the same precision where it is kept in several, is not loaded again.
  /// `check`: asked before anything is loaded.
  static Result<Model> open(const std::string& directory,
                            kernels::WeightFormat format = kernels::WeightFormat::exact,
                            ModelParts parts = ModelParts::all, const Check& check = {});
  /// Of what the caller has: nobody shares its parts.
  static Result<Model> load(Architecture architecture, SafetensorsFile file,
                            kernels::WeightFormat format = kernels::WeightFormat::exact,
                            ModelParts parts = ModelParts::all);
  kernels::WeightFormat format() const { return format_; }
  /// Of a part in the model's precision, or in the only one there is, among those of the process
  /// (`LoadedParts`). Empty: nobody shares its parts.
  std::string name_in_format(const std::string& part) const;
  std::string name_of(const std::string& part) const;
  /// `checkpoint_identity` of what it was opened from, taken before anything of it was read. Empty:
  /// it is of what the caller had.
  const std::string& files() const { return files_; }
  /// A part of it, for people: "text of /models/chat".
  std::string said(const std::string& part) const { return part + " of " + directory_; }

  const Architecture& architecture() const { return architecture_; }
  const SafetensorsFile& file() const { return *file_; }
  bool has_two_towers() const { return second_vision_ != nullptr; }
  /// Requires: the architecture has one.
  const Decoder& text() const { return *text_; }
  const Tower& vision() const { return *vision_; }
  const QwenVision& qwen_vision() const { return *qwen_vision_; }
  const DiffusionTransformer& diffusion() const { return *diffusion_; }
  const VaeDecoder& vae() const { return *vae_; }
  const ConvolutionCodec& codec() const { return *codec_; }
  const LatentFlow& flow() const { return *flow_; }

  /// Pictures, preprocessed as the family does it, to rows that stand for image tokens.
  /// `grids`: of a tower for any size; else pictures have the tower's size.
  Result<std::vector<float>> features(std::span<const float> pixels,
                                      std::span<const Grid> grids) const;
  /// Whether they are what `features` takes; how many pictures of the tower's size they hold, or
  /// one for a tower of any size.
  Result<std::size_t> check_pictures(std::span<const float> pixels,
                                     std::span<const Grid> grids) const;
  /// Rows of the tower to rows of the decoder, where there is one. Requires: one tower.
  std::vector<float> project(std::vector<float> seen) const;
  /// Image tokens take the features' rows one after the other; `grids` gives their places (M-RoPE).
  /// Both lose what was used. Errors: invalid_argument (tokens outside the vocabulary, image tokens
  /// and features that do not fit).
  Result<Prompt> prompt(std::span<const std::int32_t> tokens, std::span<const float>& features,
                        std::span<const Grid>& grids) const;

 private:
  /// Of a tower's rows to the decoder's; the second of two or three, the last OpenVLA's.
  struct Projectors {
    Linear first, second, third;
  };

  Result<void> load_parts(ModelParts parts);
  Result<void> load_decoders(bool whole);
  Result<void> load_towers();
  Result<Projectors> load_projectors(WeightArena* arena) const;
  std::vector<float> fused_features(std::span<const float> pixels) const;

  std::string files_;      // which; empty: nobody shares its parts
  std::string directory_;  // that it was opened from
  Architecture architecture_;
  std::shared_ptr<const SafetensorsFile> file_;
  kernels::WeightFormat format_ = kernels::WeightFormat::exact;
  // Null: it has none, or none was asked for.
  std::shared_ptr<const Decoder> text_;
  std::shared_ptr<const Tower> vision_, second_vision_;
  std::shared_ptr<const QwenVision> qwen_vision_;
  std::shared_ptr<const DiffusionTransformer> diffusion_;
  std::shared_ptr<const VaeDecoder> vae_;
  std::shared_ptr<const ConvolutionCodec> codec_;
  std::shared_ptr<const LatentFlow> flow_;
  std::shared_ptr<const Projectors> projectors_;
};

}  // namespace sluice
