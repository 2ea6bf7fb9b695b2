#include "engine/family/model.h"

#include <algorithm>
#include <filesystem>

#include "engine/checkpoint/identity.h"
#include "engine/checkpoint/loaded_parts.h"
#include "engine/family/gguf_model.h"

namespace sluice {

namespace {

// Where transformers (4.x and 5.x), openpi and lerobot keep the parts; a fixture adds "weight.".
constexpr std::string_view text_prefixes[] = {
    "model.",
    "model.language_model.",
    "language_model.model.",
    "model.text_model.",
    "",
    "paligemma_with_expert.paligemma.model.language_model.",
    "paligemma_with_expert.paligemma.language_model.model.",
    "model.paligemma_with_expert.paligemma.model.language_model.",
    "weight.paligemma_with_expert.paligemma.model.language_model.",
    "paligemma_with_expert.paligemma.model.language_model.model.",
    "model.vlm_with_expert.vlm.model.text_model.",
};
constexpr std::string_view vision_prefixes[] = {
    "",
    "vision_model.",
    "vision_tower.",
    "vision_tower.vision_model.",
    "model.vision_tower.",
    "model.vision_tower.vision_model.",
    "model.vision_model.",
    "paligemma_with_expert.paligemma.model.vision_tower.vision_model.",
    "paligemma_with_expert.paligemma.vision_tower.vision_model.",
    "model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.",
    "weight.paligemma_with_expert.paligemma.model.vision_tower.vision_model.",
    "dinov2.",
    "paligemma_with_expert.paligemma.model.vision_tower.",
    "model.vlm_with_expert.vlm.model.vision_model.",
};
constexpr std::string_view projector_prefixes[] = {
    "",
    "model.",
    "paligemma_with_expert.paligemma.model.",
    "paligemma_with_expert.paligemma.",
    "model.paligemma_with_expert.paligemma.model.",
    "weight.paligemma_with_expert.paligemma.model.",
    "model.vlm_with_expert.vlm.model.",
};
constexpr std::string_view head_prefixes[] = {
    "",
    "language_model.",
    "model.",
    "paligemma_with_expert.paligemma.",
    "model.paligemma_with_expert.paligemma.",
    "weight.paligemma_with_expert.paligemma.",
    "model.vlm_with_expert.vlm.",
};
constexpr std::string_view qwen_prefixes[] = {"visual.", "model.visual."};

/// The positions of one picture's rows (M-RoPE), from `from` on.
void place_picture(const Grid& grid, std::size_t merge, std::int32_t from,
                   std::vector<Position>& positions) {
  const auto rows = static_cast<std::int32_t>(grid[1] / merge);
  const auto columns = static_cast<std::int32_t>(grid[2] / merge);
  for (std::int32_t t = 0; t < static_cast<std::int32_t>(grid[0]); ++t)
    for (std::int32_t h = 0; h < rows; ++h)
      for (std::int32_t w = 0; w < columns; ++w)
        positions.push_back({from + t, from + h, from + w});
}

std::size_t rows_of(const Grid& grid, std::size_t merge) {
  return std::size_t{grid[0]} * (grid[1] / merge) * (grid[2] / merge);
}

}  // namespace

std::string find_prefix(const SafetensorsFile& file, std::span<const std::string_view> candidates,
                        std::string_view tensor) {
  for (const std::string_view candidate : candidates)
    if (file.find(std::string(candidate) + std::string(tensor)) != nullptr)
      return std::string(candidate);
  return std::string(candidates.front());
}

Result<SafetensorsFile> open_weights(const std::string& directory) {
  if (is_gguf(directory)) {
    const Result<GgufFile> file = GgufFile::open(directory);
    if (!file.ok()) return file.error();
    const Result<Architecture> architecture = gguf_architecture(*file);
    if (!architecture.ok()) return architecture.error();
    return gguf_tensors(*file, *architecture);
  }
  std::error_code ignored;
  for (const char* name : {"/model.safetensors", "/diffusion_pytorch_model.safetensors"}) {
    const std::string index = directory + name + ".index.json";
    if (std::filesystem::exists(index, ignored)) return SafetensorsFile::open_index(index);
    if (std::filesystem::exists(directory + name, ignored))
      return SafetensorsFile::open(directory + name);
  }
  return SafetensorsFile::open(directory + "/model.safetensors");
}

Result<Model> Model::open(const std::string& directory, kernels::WeightFormat format,
                          ModelParts parts, const Check& check) {
  Model made;
  made.format_ = format;
  made.directory_ = directory;
  // First, so that what is read of files that change meanwhile is nobody's afterwards.
  made.files_ = checkpoint_identity(directory);
  Result<Architecture> architecture = Architecture::load(directory);
  if (!architecture.ok()) return architecture.error();
  made.architecture_ = std::move(architecture).value();
  auto file = LoadedParts::here().get<SafetensorsFile>(
      made.name_of("file"), [&] { return open_weights(directory); }, made.said("file"));
  if (!file.ok()) return file.error();
  made.file_ = std::move(file).value();
  if (check)
    if (Result<void> may = check(made.architecture_, *made.file_); !may.ok()) return may.error();
  if (Result<void> loaded = made.load_parts(parts); !loaded.ok()) return loaded.error();
  return made;
}

Result<Model> Model::load(Architecture architecture, SafetensorsFile file,
                          kernels::WeightFormat format, ModelParts parts) {
  Model made;
  made.architecture_ = std::move(architecture);
  made.file_ = std::make_shared<const SafetensorsFile>(std::move(file));
  made.format_ = format;
  if (Result<void> loaded = made.load_parts(parts); !loaded.ok()) return loaded.error();
  return made;
}

std::string Model::name_of(const std::string& part) const {
  return files_.empty() ? std::string() : files_ + part;
}

std::string Model::name_in_format(const std::string& part) const {
  return name_of(part + " at precision " + std::to_string(static_cast<int>(format_)));
}

DecoderNames find_decoder(const SafetensorsFile& file, DecoderShape& shape) {
  const std::string at = find_prefix(file, text_prefixes, "layers.0.input_layernorm.weight");
  const std::string head = find_prefix(file, head_prefixes, "lm_head.weight") + "lm_head";
  if (file.find(head + ".weight") == nullptr) shape.tied = true;
  return {at + "embed_tokens", at + "layers.", at + "norm", head};
}

TowerNames find_tower(const SafetensorsFile& file, const Architecture& architecture) {
  if (architecture.second_vision.has_value())
    return TowerNames::timm("vision_backbone.featurizer.");
  if (architecture.family == Family::scenes)
    return {"vision.patch_embedding", "vision.position_embedding", "", "", "vision.layers.",
            "vision.post_layernorm",  BlockNames::siglip()};
  if (architecture.family == Family::dinov2)
    return TowerNames::dinov2(find_prefix(file, vision_prefixes, "embeddings.cls_token"));
  return TowerNames::siglip(
      find_prefix(file, vision_prefixes, "embeddings.patch_embedding.weight"));
}

Linear load_projector(WeightLoader& load, const SafetensorsFile& file,
                      const Architecture& architecture) {
  const bool shuffled = architecture.pixel_shuffle > 1;
  const std::size_t n = architecture.pixel_shuffle;
  const std::string name =
      shuffled ? "connector.modality_projection.proj" : "multi_modal_projector.linear";
  return load.linear(find_prefix(file, projector_prefixes, name + ".weight") + name,
                     architecture.text->block.width, architecture.vision->block.width * n * n,
                     !shuffled);
}

namespace {

/// A part that the architecture may have. `load` gives it, of its shape and an arena, where the
/// process has none of the name. `said`: the part, for people.
template <typename Part, typename Shape, typename Load>
Result<void> take_part(const std::string& name, const std::string& said,
                       const std::optional<Shape>& shape, std::shared_ptr<const Part>& to,
                       const Load& load) {
  if (!shape.has_value()) return {};
  auto taken = LoadedParts::here().get_weights<Part>(
      name, said, [&](WeightArena* arena) { return load(*shape, arena); });
  if (!taken.ok()) return taken.error();
  to = std::move(taken).value();
  return {};
}

}  // namespace

Result<void> Model::load_parts(ModelParts parts) {
  Result<void> loaded;
  if (parts == ModelParts::all || parts == ModelParts::around_decoder)
    loaded = load_decoders(parts == ModelParts::all);
  if (loaded.ok() && parts != ModelParts::codec) loaded = load_towers();
  if (!loaded.ok() || parts == ModelParts::pictures) return loaded;
  loaded = take_part(name_of("vae"), said("vae"), architecture_.vae, vae_,
                     [&](const VaeShape& shape, WeightArena* arena) {
                       return VaeDecoder::load(shape, *file_, arena);
                     });
  if (!loaded.ok()) return loaded;
  return take_part(name_of("codec"), said("codec"), architecture_.codec, codec_,
                   [&](const ConvolutionCodecShape& shape, WeightArena* arena) {
                     return ConvolutionCodec::load(shape, *file_, arena);
                   });
}

/// And what draws over them. `whole`: the language decoder's layers too.
Result<void> Model::load_decoders(bool whole) {
  DecoderNames names;
  if (architecture_.text.has_value())
    names = find_decoder(*file_, *architecture_.text);  // may find it tied
  const std::string text = whole ? "text" : "text embedding";
  Result<void> loaded = take_part(
      name_in_format(text), said(text), architecture_.text, text_,
      [&](const DecoderShape& shape, WeightArena* arena) {
        return whole ? Decoder::load(shape, names, *file_, format_, arena)
                     : Decoder::load_embedding_alone(shape, names, *file_, format_, arena);
      });
  if (loaded.ok())
    loaded = take_part(name_in_format("diffusion"), said("diffusion"), architecture_.diffusion,
                       diffusion_, [&](const DiffusionShape& shape, WeightArena* arena) {
                         return DiffusionTransformer::load(shape, *file_, format_, arena);
                       });
  if (!loaded.ok()) return loaded;
  return take_part(name_of("flow"), said("flow"), architecture_.flow, flow_,
                   [&](const LatentFlowShape& shape, WeightArena* arena) {
                     return LatentFlow::load(shape, *file_, arena);
                   });
}

/// And what makes their rows rows of the decoder.
Result<void> Model::load_towers() {
  Result<void> loaded = take_part(name_in_format("vision"), said("vision"), architecture_.vision,
                                  vision_, [&](const TowerShape& shape, WeightArena* arena) {
                                    return Tower::load(shape, find_tower(*file_, architecture_),
                                                       *file_, format_, arena);
                                  });
  if (loaded.ok())
    loaded = take_part(
        name_in_format("second vision"), said("second vision"), architecture_.second_vision,
        second_vision_, [&](const TowerShape& shape, WeightArena* arena) {
          return Tower::load(shape, TowerNames::timm("vision_backbone.fused_featurizer."), *file_,
                             format_, arena);
        });
  if (loaded.ok())
    loaded = take_part(
        name_in_format("qwen vision"), said("qwen vision"), architecture_.qwen_vision, qwen_vision_,
        [&](const QwenVisionShape& shape, WeightArena* arena) {
          return QwenVision::load(shape, find_prefix(*file_, qwen_prefixes, "merger.ln_q.weight"),
                                  *file_, format_, arena);
        });
  if (!loaded.ok() || !architecture_.text.has_value()) return loaded;
  return take_part(name_in_format("projectors"), said("projectors"), architecture_.vision,
                   projectors_,
                   [&](const TowerShape&, WeightArena* arena) { return load_projectors(arena); });
}

Result<Model::Projectors> Model::load_projectors(WeightArena* arena) const {
  WeightLoader load(*file_, format_, arena);
  Projectors made;
  if (const std::size_t inner = architecture_.projector_hidden; inner != 0) {
    const std::size_t n = architecture_.pixel_shuffle;
    made.first =
        load.linear("vision.merger.fc1", inner, architecture_.vision->block.width * n * n, true);
    made.second = load.linear("vision.merger.fc2", architecture_.text->block.width, inner, true);
  } else if (!architecture_.second_vision.has_value()) {
    made.first = load_projector(load, *file_, architecture_);
  } else {
    const std::size_t out = architecture_.text->block.width;
    const std::size_t joined =
        architecture_.vision->block.width + architecture_.second_vision->block.width;
    made.first = load.linear("projector.fc1", 4 * joined, joined, true);
    made.second = load.linear("projector.fc2", out, 4 * joined, true);
    made.third = load.linear("projector.fc3", out, out, true);
  }
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

/// OpenVLA: each picture has six channels, three for each tower.
std::vector<float> Model::fused_features(std::span<const float> pixels) const {
  const std::size_t side = vision_->shape().side;
  const std::size_t plane = 3 * side * side;
  std::vector<float> parts[2], seen[2];
  for (std::size_t at = 0; at < pixels.size(); at += plane) {
    const auto part = pixels.subspan(at, plane);
    parts[at / plane % 2].insert(parts[at / plane % 2].end(), part.begin(), part.end());
  }
  vision_->encode(parts[0], seen[0]);
  second_vision_->encode(parts[1], seen[1]);
  const std::size_t a = vision_->shape().block.width;
  const std::size_t b = second_vision_->shape().block.width;
  std::vector<float> joined, x, y;
  for (std::size_t row = 0; row < seen[0].size() / a; ++row) {
    joined.insert(joined.end(), &seen[0][row * a], &seen[0][row * a] + a);
    joined.insert(joined.end(), &seen[1][row * b], &seen[1][row * b] + b);
  }
  apply(projectors_->first, joined, x);
  kernels::activate_cpu(kernels::Activation::gelu_erf, x);
  apply(projectors_->second, x, y);
  kernels::activate_cpu(kernels::Activation::gelu_erf, y);
  apply(projectors_->third, y, x);
  return x;
}

Result<std::size_t> Model::check_pictures(std::span<const float> pixels,
                                          std::span<const Grid> grids) const {
  if (qwen_vision_ != nullptr) {
    const QwenVisionShape& shape = qwen_vision_->shape();
    std::size_t patches = 0;
    for (const Grid& grid : grids) {
      if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] % shape.merge != 0 ||
          grid[2] % shape.merge != 0)
        return invalid_argument("a picture's grid must have height and width in multiples of " +
                                std::to_string(shape.merge) + " patches");
      patches += std::size_t{grid[0]} * grid[1] * grid[2];
    }
    if (patches * shape.patch_values() != pixels.size())
      return invalid_argument("the grids stand for " + std::to_string(patches) +
                              " patches, pixel_values holds " +
                              std::to_string(pixels.size() / shape.patch_values()));
    return std::size_t{1};
  }
  if (vision_ == nullptr) return invalid_argument("this model takes no pictures");
  const TowerShape& shape = vision_->shape();
  const std::size_t channels = has_two_towers() ? 6 : 3;
  if (pixels.size() % (channels * shape.side * shape.side) != 0)
    return invalid_argument("pictures must be " + std::to_string(channels) + " x " +
                            std::to_string(shape.side) + " x " + std::to_string(shape.side));
  return pixels.size() / (channels * shape.side * shape.side);
}

Result<std::vector<float>> Model::features(std::span<const float> pixels,
                                           std::span<const Grid> grids) const {
  const Result<std::size_t> fits = check_pictures(pixels, grids);
  if (!fits.ok()) return fits.error();
  if (has_two_towers()) return fused_features(pixels);
  std::vector<float> seen;
  if (qwen_vision_ != nullptr) {
    qwen_vision_->encode(pixels, grids, seen);
    return seen;
  }
  vision_->encode(pixels, seen);
  return project(std::move(seen));
}

std::vector<float> Model::project(std::vector<float> seen) const {
  if (projectors_ == nullptr) return seen;
  const TowerShape& shape = vision_->shape();
  if (architecture_.pixel_shuffle > 1)
    seen = merge_neighbours(seen, shape.side / shape.patch, shape.block.width,
                            architecture_.pixel_shuffle);
  std::vector<float> rows;
  apply(projectors_->first, seen, rows);
  if (architecture_.projector_hidden == 0) return rows;
  kernels::activate_cpu(kernels::Activation::gelu_tanh, rows);
  apply(projectors_->second, rows, seen);
  return seen;
}

Result<Prompt> Model::prompt(std::span<const std::int32_t> tokens, std::span<const float>& features,
                             std::span<const Grid>& grids) const {
  Prompt made;
  made.mask = architecture_.bidirectional_prefix ? Mask::block : Mask::causal;
  const bool by_grid = qwen_vision_ != nullptr;
  for (std::size_t i = 0; i < tokens.size();) {
    const std::int32_t token = tokens[i];
    const bool image = architecture_.image_token != -1 && token == architecture_.image_token;
    if (!image && (token < 0 || static_cast<std::size_t>(token) >= text_->shape().vocabulary))
      return invalid_argument("token " + std::to_string(token) + " at " + std::to_string(i) +
                              " is outside the vocabulary of " +
                              std::to_string(text_->shape().vocabulary));
    std::size_t count = 1;
    if (!image) {
      text_->embed({&token, 1}, made.rows);
      made.positions.push_back(Position::at(made.next_position++));
    } else {
      if (by_grid && grids.empty())
        return invalid_argument("there are more pictures in the tokens than in image_grid_thw");
      if (by_grid) count = rows_of(grids.front(), qwen_vision_->shape().merge);
      const bool whole =
          i + count <= tokens.size() &&
          std::ranges::all_of(tokens.subspan(i, count), [&](std::int32_t t) { return t == token; });
      if (!whole || features.size() < count * text_->width())
        return invalid_argument(
            "the image tokens from " + std::to_string(i) + " on are not as many as the " +
            (by_grid ? "picture's grid gives: " + std::to_string(count) : "features are"));
      made.rows.insert(made.rows.end(), features.begin(),
                       features.begin() + static_cast<std::ptrdiff_t>(count * text_->width()));
      features = features.subspan(count * text_->width());
      if (by_grid) {
        place_picture(grids.front(), qwen_vision_->shape().merge, made.next_position,
                      made.positions);
        const Grid& grid = grids.front();
        const auto merge = static_cast<std::uint32_t>(qwen_vision_->shape().merge);
        made.next_position +=
            static_cast<std::int32_t>(std::max({grid[0], grid[1] / merge, grid[2] / merge}));
        grids = grids.subspan(1);
      } else {
        made.positions.push_back(Position::at(made.next_position++));
      }
    }
    i += count;
  }
  return made;
}

}  // namespace sluice
