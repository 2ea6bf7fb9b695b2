#include "engine/family/architecture.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "base/file.h"
#include "engine/family/architecture_parts.h"
#include "engine/family/gguf_model.h"

namespace sluice {

namespace {

/// A family under a name that configurations give it; of several the first is the one we use.
struct FamilyName {
  std::string_view name;
  Family family;
  FamilyKind kind;
};

constexpr FamilyName families[] = {
    {"llama", Family::llama, FamilyKind::language},
    {"qwen2", Family::qwen2, FamilyKind::language},
    {"gemma", Family::gemma, FamilyKind::language},
    {"smollm3", Family::smollm3, FamilyKind::language},
    {"siglip", Family::siglip, FamilyKind::vision},
    {"siglip_vision_model", Family::siglip, FamilyKind::vision},
    {"dinov2_with_registers", Family::dinov2, FamilyKind::vision},
    {"dinov2", Family::dinov2, FamilyKind::vision},
    {"paligemma", Family::paligemma, FamilyKind::vision_language},
    {"qwen2_5_vl", Family::qwen2_5_vl, FamilyKind::vision_language},
    {"smolvlm", Family::smolvlm, FamilyKind::vision_language},
    {"idefics3", Family::smolvlm, FamilyKind::vision_language},
    {"pi0", Family::pi0, FamilyKind::policy},
    {"pi05", Family::pi05, FamilyKind::policy},
    {"pi0.5", Family::pi05, FamilyKind::policy},
    {"smolvla", Family::smolvla, FamilyKind::policy},
    {"openvla", Family::openvla, FamilyKind::action_tokens},
    {"pi0_openpi", Family::pi0, FamilyKind::policy},
    {"pi05_openpi", Family::pi05, FamilyKind::policy},
    {"DiTTransformer2DModel", Family::dit, FamilyKind::diffusion},
    {"AutoencoderKL", Family::vae, FamilyKind::codec},
    {"scenes", Family::scenes, FamilyKind::drawer},
};

QwenVisionShape read_qwen_vision(const Json& config, std::string& problem) {
  JsonReader reader(config, "vision_config.", problem);
  QwenVisionShape shape;
  BlockShape& block = shape.block;
  block.activation = kernels::Activation::silu;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  shape.layers = 32;
  block.width = 3584;
  block.heads = 16;
  block.mlp = 3420;
  shape.out_width = 3584;
  reader.size("depth", shape.layers, 1024);
  reader.size("hidden_size", block.width, 1 << 16);
  reader.size("num_heads", block.heads, 1024);
  reader.size("intermediate_size", block.mlp, 1 << 20);
  reader.size("out_hidden_size", shape.out_width, 1 << 16);
  reader.size("patch_size", shape.patch, 256);
  reader.size("temporal_patch_size", shape.temporal, 16);
  reader.size("spatial_merge_size", shape.merge, 16);
  reader.size("window_size", shape.window, 1 << 16);
  read_activation(reader, "hidden_act", block.activation);
  shape.full_layers = {7, 15, 23, 31};
  if (const Json* list = reader.get("fullatt_block_indexes", true)) {
    shape.full_layers.clear();
    if (!list->is_array()) reader.error("fullatt_block_indexes", "must be a list of layers");
    for (const Json& value : *list) {
      if (!value.is_number_unsigned()) {
        reader.error("fullatt_block_indexes", "must be a list of layers");
        break;
      }
      shape.full_layers.push_back(value.get<std::size_t>());
    }
  }
  if (!problem.empty()) return shape;
  if (block.width % block.heads != 0 || block.width / block.heads % 4 != 0)
    reader.error("num_heads", "must divide hidden_size into heads of a multiple of 4");
  if (shape.window % (shape.patch * shape.merge) != 0)
    reader.error("window_size", "must be a multiple of patch_size times spatial_merge_size");
  block.kv_heads = block.heads;
  block.head_dim = block.width / block.heads;
  return shape;
}

void read_multimodal(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  const bool qwen = made.family == Family::qwen2_5_vl;
  // Before transformers 4.52, Qwen2.5-VL kept the text's keys at the top.
  const Json* text = reader.object("text_config", qwen);
  const Json* vision = reader.object("vision_config");
  if (!problem.empty()) return;
  const Family language = made.family == Family::paligemma ? Family::gemma
                          : qwen                           ? Family::qwen2
                                                           : Family::llama;
  made.text = read_text(text != nullptr ? *text : config, text != nullptr ? "text_config." : "",
                        language, problem);
  if (made.family != Family::paligemma) reader.flag("tie_word_embeddings", made.text->tied);
  if (qwen) {
    if (made.text->rope.sections == std::array<std::size_t, 3>{})
      made.text->rope.sections = {16, 24, 24};
    made.qwen_vision = read_qwen_vision(*vision, problem);
    made.image_token = 151655;
    reader.token("image_token_id", made.image_token);
  } else {
    made.vision = read_siglip(*vision, "vision_config.", problem);
    made.image_token = made.family == Family::paligemma ? 256000 : 128257;
    reader.token("image_token_index", made.image_token);
    reader.token("image_token_id", made.image_token);
  }
  made.bidirectional_prefix = made.family == Family::paligemma;
  if (made.family != Family::smolvlm) return;
  made.pixel_shuffle = 2;
  reader.size("scale_factor", made.pixel_shuffle, 16);
  const std::size_t grid = made.vision->side / std::max<std::size_t>(made.vision->patch, 1);
  if (problem.empty() && grid % made.pixel_shuffle != 0)
    reader.error("scale_factor", "must divide the picture's grid of " + std::to_string(grid));
}

/// A configuration of no family that we would look for is said to be that.
Result<void> check_tells_family(const Json& config, const std::string& name) {
  if (config.contains("model_type") || config.contains("_class_name") || config.contains("type"))
    return {};
  return invalid_argument(name +
                          ": it does not say of which family the checkpoint is: it has no "
                          "'model_type', '_class_name' or 'type'");
}

/// `type`: as the configuration writes the family, which `made` knows.
void read_family(const Json& config, const std::string& type, Architecture& made,
                 std::string& problem) {
  switch (made.family) {
    case Family::llama:
    case Family::qwen2:
    case Family::gemma:
    case Family::smollm3:
      made.text = read_text(config, "", made.family, problem);
      break;
    case Family::siglip:
      if (const Json* vision =
              type == "siglip" ? JsonReader(config, "", problem).object("vision_config") : &config)
        made.vision = read_siglip(*vision, type == "siglip" ? "vision_config." : "", problem);
      break;
    case Family::dinov2:
      made.vision = read_dinov2(config, "", type != "dinov2", problem);
      break;
    case Family::paligemma:
    case Family::qwen2_5_vl:
    case Family::smolvlm:
      read_multimodal(config, made, problem);
      break;
    case Family::pi0:
    case Family::pi05:
      read_pi0(config, made, problem);
      break;
    case Family::smolvla:
      read_smolvla(config, made, problem);
      break;
    case Family::openvla:
      read_openvla(config, made, problem);
      break;
    case Family::dit:
      read_dit(config, made, problem);
      break;
    case Family::vae:
      read_vae(config, made, problem);
      break;
    case Family::scenes:
      read_scenes(config, made, problem);
      break;
  }
}

/// A robot's own training leaves its statistics beside the weights, and the server that comes with
/// OpenVLA takes them in place of the configuration's.
Result<Architecture> with_own_statistics(Result<Architecture> made, const std::string& directory) {
  std::error_code failed;
  const std::string path = directory + "/dataset_statistics.json";
  if (!made.ok() || made->family != Family::openvla || !std::filesystem::exists(path, failed))
    return made;
  const Result<std::string> text = read_whole_file(path, config_bytes_max);
  if (!text.ok()) return text.error();
  const Json all = Json::parse(*text, nullptr, false);
  if (!all.is_object()) return Error{ErrorCode::corrupt, path + ": not a JSON object"};
  std::string problem;
  read_statistics(all, "statistics", *made, problem);
  if (!problem.empty()) return Error{ErrorCode::corrupt, path + ": " + problem};
  return made;
}

}  // namespace

std::string_view to_string(Family family) {
  const auto* known = std::ranges::find(families, family, &FamilyName::family);
  return known != std::end(families) ? known->name : "";
}

std::vector<Family> families_of(std::initializer_list<FamilyKind> kinds) {
  std::vector<Family> all;
  for (const FamilyName& one : families)
    if (std::ranges::find(kinds, one.kind) != kinds.end() &&
        std::ranges::find(all, one.family) == all.end())
      all.push_back(one.family);
  return all;
}

Result<Architecture> Architecture::load(const std::string& directory) {
  if (is_gguf(directory)) {
    const Result<GgufFile> file = GgufFile::open(directory);
    return file.ok() ? gguf_architecture(*file) : Result<Architecture>(file.error());
  }
  const std::string path = directory + "/config.json";
  const Result<std::string> text = read_whole_file(path, config_bytes_max);
  return text.ok() ? with_own_statistics(parse(*text, path), directory) : text.error();
}

Result<Architecture> Architecture::parse(const std::string& json, const std::string& name) {
  const Json config = Json::parse(json, nullptr, false);
  if (!config.is_object()) return Error{ErrorCode::corrupt, name + ": not a JSON object"};
  if (Result<void> told = check_tells_family(config, name); !told.ok()) return told.error();
  std::string problem;
  std::string type;
  JsonReader reader(config, "", problem);
  const char* key = config.contains("model_type")    ? "model_type"
                    : config.contains("_class_name") ? "_class_name"
                                                     : "type";
  reader.text(key, type);
  const auto* known = std::ranges::find(families, type, &FamilyName::name);
  if (problem.empty() && known == std::end(families)) {
    std::string all;
    for (const FamilyName& one : families) all += (all.empty() ? "" : ", ") + std::string(one.name);
    return invalid_argument(name + ": '" + key + "' is '" + type + "'; supported are " + all);
  }
  Architecture made;
  if (problem.empty()) {
    made.family = known->family;
    read_family(config, type, made, problem);
  }
  if (!problem.empty()) return Error{ErrorCode::corrupt, name + ": " + problem};
  return made;
}

}  // namespace sluice
