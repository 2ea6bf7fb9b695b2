#include "roles/model/architecture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "roles/model/json_reader.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, Family>, 16> families{{
    {"llama", Family::llama},
    {"qwen2", Family::qwen2},
    {"gemma", Family::gemma},
    {"siglip", Family::siglip},
    {"siglip_vision_model", Family::siglip},
    {"dinov2_with_registers", Family::dinov2},
    {"dinov2", Family::dinov2},
    {"paligemma", Family::paligemma},
    {"qwen2_5_vl", Family::qwen2_5_vl},
    {"smolvlm", Family::smolvlm},
    {"idefics3", Family::smolvlm},
    {"pi0", Family::pi0},
    {"pi05", Family::pi05},
    {"pi0.5", Family::pi05},
    {"pi0_openpi", Family::pi0},
    {"pi05_openpi", Family::pi05},
}};

void read_activation(JsonReader& reader, const char* key, kernels::Activation& to) {
  using kernels::Activation;
  std::string name = to == Activation::silu        ? "silu"
                     : to == Activation::gelu_tanh ? "gelu_pytorch_tanh"
                                                   : "gelu";
  reader.text(key, name);
  if (name == "silu" || name == "swish")
    to = Activation::silu;
  else if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    to = Activation::gelu_tanh;
  else if (name == "gelu")
    to = Activation::gelu_erf;
  else
    reader.say(key, "is '" + name + "'; silu, gelu and gelu_pytorch_tanh are supported");
}

/// `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` before it.
void read_rope(const Json& config, const std::string& place, std::string& problem, Rope& rope) {
  JsonReader top(config, place, problem);
  top.number("rope_theta", rope.theta);
  const Json* scaling = top.object("rope_parameters", true);
  if (scaling == nullptr) scaling = top.object("rope_scaling", true);
  if (scaling == nullptr) return;
  JsonReader reader(*scaling, place + "rope_parameters.", problem);
  reader.number("rope_theta", rope.theta);
  std::string kind = "default";
  reader.text("type", kind);
  reader.text("rope_type", kind);
  if (const Json* sections = reader.get("mrope_section", true)) {
    if (!sections->is_array() || sections->size() != 3)
      return reader.say("mrope_section", "must be three whole numbers");
    for (std::size_t i = 0; i < 3; ++i) {
      const Json& value = (*sections)[i];
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1024)
        return reader.say("mrope_section", "must be three whole numbers");
      rope.sections[i] = value.get<std::size_t>();
    }
  }
  if (kind == "default" || kind == "mrope") return;
  if (kind == "linear")
    rope.scaling = Rope::Scaling::linear;
  else if (kind == "llama3")
    rope.scaling = Rope::Scaling::llama3;
  else
    return reader.say("rope_type", "is '" + kind +
                                       "'; default, linear, llama3 and mrope are "
                                       "supported");
  reader.number("factor", rope.factor);
  reader.number("low_freq_factor", rope.low_freq_factor);
  reader.number("high_freq_factor", rope.high_freq_factor);
  reader.number("original_max_position_embeddings", rope.original_positions);
}

/// The family's defaults, as the public implementation has them.
DecoderShape text_defaults(Family family) {
  DecoderShape shape;
  shape.block.eps = 1e-6F;
  shape.rope.theta = 10000;
  shape.positions_max = 32768;
  if (family == Family::gemma) {
    shape.block.norm_plus_one = true;
    shape.block.activation = kernels::Activation::gelu_tanh;
    shape.block.head_dim = 256;
    shape.positions_max = 8192;
  }
  shape.block.qkv_bias = family == Family::qwen2;
  shape.tied = family == Family::gemma;
  return shape;
}

void check_heads(JsonReader& reader, const BlockShape& block) {
  if (!reader.problem().empty()) return;
  if (block.heads % block.kv_heads != 0)
    reader.say("num_key_value_heads", "must divide num_attention_heads");
  else if (block.head_dim % 2 != 0)
    reader.say("head_dim", "must be even");
}

DecoderShape read_text(const Json& config, const std::string& place, Family family,
                       std::string& problem) {
  JsonReader reader(config, place, problem);
  DecoderShape shape = text_defaults(family);
  BlockShape& block = shape.block;
  reader.size("vocab_size", shape.vocabulary);
  reader.size("hidden_size", block.width, 1 << 16);
  reader.size("num_hidden_layers", shape.layers, 1024);
  reader.size("num_attention_heads", block.heads, 1024);
  block.kv_heads = block.heads;
  reader.size("num_key_value_heads", block.kv_heads, 1024);
  if (block.head_dim == 0 && block.heads != 0) block.head_dim = block.width / block.heads;
  reader.size("head_dim", block.head_dim, 4096);
  reader.size("intermediate_size", block.mlp, 1 << 20);
  reader.size("max_position_embeddings", shape.positions_max);
  reader.number("rms_norm_eps", block.eps);
  // Gemma's old files say hidden_act "gelu" and mean the tanh form.
  read_activation(reader, family == Family::gemma ? "hidden_activation" : "hidden_act",
                  block.activation);
  reader.flag("tie_word_embeddings", shape.tied);
  bool bias = false;
  reader.flag("attention_bias", bias);
  block.qkv_bias = block.qkv_bias || bias;
  block.out_bias = bias;
  reader.flag("mlp_bias", block.mlp_bias);
  bool window = false;
  reader.flag("use_sliding_window", window);
  if (window) reader.say("use_sliding_window", "is true; only full attention is supported");
  read_rope(config, place, problem, shape.rope);
  if (family == Family::gemma) shape.embedding_scale = std::sqrt(static_cast<float>(block.width));
  check_heads(reader, block);
  return shape;
}

TowerShape vision_defaults() {
  TowerShape shape;
  BlockShape& block = shape.block;
  block.norm = NormKind::layer;
  block.gated = false;
  block.activation = kernels::Activation::gelu_tanh;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  return shape;
}

void check_grid(JsonReader& reader, TowerShape& shape) {
  BlockShape& block = shape.block;
  if (!reader.problem().empty()) return;
  if (block.width % block.heads != 0)
    reader.say("num_attention_heads", "must divide hidden_size");
  else if (shape.side % shape.patch != 0)
    reader.say("patch_size", "must divide image_size");
  block.kv_heads = block.heads;
  block.head_dim = block.width / block.heads;
}

TowerShape read_siglip(const Json& config, const std::string& place, std::string& problem) {
  JsonReader reader(config, place, problem);
  TowerShape shape = vision_defaults();
  shape.block.width = 768;
  shape.layers = shape.block.heads = 12;
  shape.block.mlp = 3072;
  shape.side = 224;
  shape.patch = 16;
  reader.size("hidden_size", shape.block.width, 1 << 16);
  reader.size("num_hidden_layers", shape.layers, 1024);
  reader.size("num_attention_heads", shape.block.heads, 1024);
  reader.size("intermediate_size", shape.block.mlp, 1 << 20);
  reader.size("image_size", shape.side, 4096);
  reader.size("patch_size", shape.patch, 256);
  reader.number("layer_norm_eps", shape.block.eps);
  read_activation(reader, "hidden_act", shape.block.activation);
  check_grid(reader, shape);
  return shape;
}

TowerShape read_dinov2(const Json& config, const std::string& place, bool registers,
                       std::string& problem) {
  JsonReader reader(config, place, problem);
  TowerShape shape = vision_defaults();
  shape.block.activation = kernels::Activation::gelu_erf;
  shape.block.layer_scale = true;
  shape.class_token = shape.keep_extra = true;
  shape.block.width = 768;
  shape.layers = shape.block.heads = 12;
  shape.side = 224;
  shape.patch = 14;
  shape.registers = registers ? 4 : 0;
  std::size_t ratio = 4;
  reader.size("hidden_size", shape.block.width, 1 << 16);
  reader.size("num_hidden_layers", shape.layers, 1024);
  reader.size("num_attention_heads", shape.block.heads, 1024);
  reader.size("mlp_ratio", ratio, 64);
  reader.size("image_size", shape.side, 4096);
  reader.size("patch_size", shape.patch, 256);
  if (registers) reader.count("num_register_tokens", shape.registers, 1024);
  reader.number("layer_norm_eps", shape.block.eps);
  read_activation(reader, "hidden_act", shape.block.activation);
  reader.flag("qkv_bias", shape.block.qkv_bias);
  bool swiglu = false;
  reader.flag("use_swiglu_ffn", swiglu);
  if (swiglu) reader.say("use_swiglu_ffn", "is true; only the plain MLP is supported");
  shape.block.mlp = shape.block.width * ratio;
  check_grid(reader, shape);
  return shape;
}

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
    if (!list->is_array()) reader.say("fullatt_block_indexes", "must be a list of layers");
    for (const Json& value : *list) {
      if (!value.is_number_unsigned()) {
        reader.say("fullatt_block_indexes", "must be a list of layers");
        break;
      }
      shape.full_layers.push_back(value.get<std::size_t>());
    }
  }
  if (!problem.empty()) return shape;
  if (block.width % block.heads != 0 || block.width / block.heads % 4 != 0)
    reader.say("num_heads", "must divide hidden_size into heads of a multiple of 4");
  if (shape.window % (shape.patch * shape.merge) != 0)
    reader.say("window_size", "must be a multiple of patch_size times spatial_merge_size");
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
    reader.say("scale_factor", "must divide the picture's grid of " + std::to_string(grid));
}

/// openpi's named variants.
DecoderShape gemma_variant(const std::string& name, JsonReader& reader, const char* key) {
  DecoderShape shape = text_defaults(Family::gemma);
  BlockShape& block = shape.block;
  block.heads = 8;
  block.kv_heads = 1;
  if (name == "gemma_2b" || name == "gemma_2b_lora") {
    shape.layers = 18;
    block.width = 2048;
    block.mlp = 16384;
  } else if (name == "gemma_300m" || name == "gemma_300m_lora") {
    shape.layers = 18;
    block.width = 1024;
    block.mlp = 4096;
  } else if (name == "dummy") {
    shape.layers = 4;
    block.width = 64;
    block.mlp = 128;
    block.head_dim = 16;
  } else {
    reader.say(key, "is '" + name + "'; gemma_2b, gemma_300m and dummy are known");
  }
  shape.embedding_scale = std::sqrt(static_cast<float>(block.width));
  return shape;
}

void read_policy(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  std::string trunk = "gemma_2b";
  std::string expert = "gemma_300m";
  reader.text("paligemma_variant", trunk);
  reader.text("action_expert_variant", expert);
  made.text = gemma_variant(trunk, reader, "paligemma_variant");
  made.text->vocabulary = 257152;
  reader.size("vocab_size", made.text->vocabulary);
  ActionShape action;
  action.expert = gemma_variant(expert, reader, "action_expert_variant");
  action.expert.block.adaptive = made.family == Family::pi05;
  if (action.expert.block.adaptive) action.expert.block.norm_plus_one = false;
  action.expert.embedding_scale = 1;
  reader.size("chunk_size", action.horizon, 4096);      // lerobot
  reader.size("action_horizon", action.horizon, 4096);  // openpi
  reader.size("max_action_dim", action.dims, 4096);
  reader.size("action_dim", action.dims, 4096);
  reader.size("num_inference_steps", action.steps, 1000);
  reader.size("num_cameras", action.cameras, 16);
  std::string language = "bidirectional";
  reader.text("language_attention", language);
  if (language != "bidirectional" && language != "causal")
    reader.say("language_attention", "must be bidirectional or causal");
  action.causal_language = language == "causal";
  Json vision = Json::object();
  if (const Json* given = reader.object("vision_config", true)) vision = *given;
  const std::pair<const char*, int> siglip[] = {
      {"hidden_size", 1152}, {"num_hidden_layers", 27},   {"num_attention_heads", 16},
      {"patch_size", 14},    {"intermediate_size", 4304}, {"image_size", 224}};
  for (const auto& [key, value] : siglip)
    if (!vision.contains(key)) vision[key] = value;
  made.vision = read_siglip(vision, "vision_config.", problem);
  if (!problem.empty()) return;
  const BlockShape& a = made.text->block;
  const BlockShape& b = action.expert.block;
  if (made.text->layers != action.expert.layers ||
      a.kv_heads * a.head_dim != b.kv_heads * b.head_dim)
    reader.say("action_expert_variant", "must have the trunk's layers and key width");
  made.action = std::move(action);
}

}  // namespace

std::string_view to_string(Family family) {
  for (const auto& [name, value] : families)
    if (value == family) return name;
  return "";
}

Result<Architecture> Architecture::load(const std::string& directory) {
  const std::string path = directory + "/config.json";
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorCode::not_found, path + ": cannot be read"};
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

Result<Architecture> Architecture::parse(const std::string& json, const std::string& name) {
  const Json config = Json::parse(json, nullptr, false);
  if (!config.is_object()) return Error{ErrorCode::corrupt, name + ": not a JSON object"};
  std::string problem;
  std::string type;
  JsonReader reader(config, "", problem);
  reader.text(config.contains("model_type") ? "model_type" : "type", type);
  const auto known = std::ranges::find(families, type, [](const auto& f) { return f.first; });
  if (problem.empty() && known == families.end()) {
    std::string all;
    for (const auto& family : families)
      all += (all.empty() ? "" : ", ") + std::string(family.first);
    return invalid_argument(name + ": 'model_type' is '" + type + "'; supported are " + all);
  }
  Architecture made;
  if (problem.empty()) {
    made.family = known->second;
    switch (made.family) {
      case Family::llama:
      case Family::qwen2:
      case Family::gemma:
        made.text = read_text(config, "", made.family, problem);
        break;
      case Family::siglip:
        if (const Json* vision = type == "siglip" ? reader.object("vision_config") : &config)
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
        read_policy(config, made, problem);
        break;
    }
  }
  if (!problem.empty()) return Error{ErrorCode::corrupt, name + ": " + problem};
  return made;
}

}  // namespace sluice
