#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "engine/family/architecture_parts.h"

namespace sluice {

namespace {

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
    reader.error(key, "is '" + name + "'; gemma_2b, gemma_300m and dummy are known");
  }
  shape.embedding_scale = std::sqrt(static_cast<float>(block.width));
  return shape;
}

/// What all policies say of their actions, in lerobot's or openpi's words.
ActionShape read_actions(JsonReader& reader) {
  ActionShape action;
  reader.size("chunk_size", action.horizon, 4096);
  reader.size("action_horizon", action.horizon, 4096);
  reader.size("max_action_dim", action.dims, 4096);
  reader.size("action_dim", action.dims, 4096);
  action.state_dims = action.dims;
  reader.size("max_state_dim", action.state_dims, 4096);
  reader.size("num_steps", action.steps, 1000);
  reader.size("num_inference_steps", action.steps, 1000);
  reader.size("num_cameras", action.cameras, 16);
  return action;
}

using Defaults = std::initializer_list<std::pair<const char*, Json>>;
Json with_defaults(const Json* given, const Defaults& defaults) {
  Json whole = given != nullptr ? *given : Json::object();
  for (const auto& [key, value] : defaults)
    if (!whole.contains(key)) whole[key] = value;
  return whole;
}

}  // namespace

void read_statistics(const Json& all, const char* key, Architecture& made, std::string& problem) {
  JsonReader reader(all, "", problem);
  made.statistics.clear();
  for (const auto& [dataset, parts] : all.items()) {
    ActionStatistics statistics;
    statistics.dataset = dataset;
    const Json action = parts.is_object() ? parts.value("action", Json()) : Json();
    const auto numbers = [&, name = dataset](const char* part, std::vector<double>& to) {
      const Json list = action.is_object() ? action.value(part, Json()) : Json();
      if (list.is_array())
        for (const Json& value : list)
          if (value.is_number()) to.push_back(value.get<double>());
      if (!list.is_array() || to.size() != list.size() || to.size() > 1024)
        reader.error(key, "of '" + name + "' must have action." + part + ", numbers");
    };
    numbers("q01", statistics.low);
    numbers("q99", statistics.high);
    const Json mask = action.is_object() ? action.value("mask", Json()) : Json();
    for (std::size_t i = 0; i < statistics.low.size(); ++i)
      statistics.scaled.push_back(!mask.is_array() || i >= mask.size() || !mask[i].is_boolean() ||
                                  mask[i].get<bool>());
    if (statistics.low.size() != statistics.high.size())
      reader.error(key, "of '" + dataset + "' must have as many q01 as q99");
    made.statistics.push_back(std::move(statistics));
  }
}

void read_pi0(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  ActionShape action = read_actions(reader);
  const Json* vision = reader.object("vision_config", true);
  if (const Json* vlm = reader.object("vlm_config", true)) {  // transformers
    JsonReader inner(*vlm, "vlm_config.", problem);
    const Json* text = inner.object("text_config");
    const Json* expert = reader.object("dit_config");
    vision = inner.object("vision_config");
    if (!problem.empty()) return;
    made.text = read_text(*text, "vlm_config.text_config.", Family::gemma, problem);
    action.expert = read_text(*expert, "dit_config.", Family::gemma, problem);
  } else {
    std::string trunk = "gemma_2b";
    std::string expert = "gemma_300m";
    reader.text("paligemma_variant", trunk);
    reader.text("action_expert_variant", expert);
    made.text = gemma_variant(trunk, reader, "paligemma_variant");
    made.text->vocabulary = 257152;
    reader.size("vocab_size", made.text->vocabulary);
    action.expert = gemma_variant(expert, reader, "action_expert_variant");
  }
  action.expert.vocabulary = 0;
  action.expert.embedding_scale = 1;
  action.expert.block.adaptive = made.family == Family::pi05;
  if (action.expert.block.adaptive) action.expert.block.norm_plus_one = false;
  std::string language = "bidirectional";
  reader.text("language_attention", language);
  if (language != "bidirectional" && language != "causal")
    reader.error("language_attention", "must be bidirectional or causal");
  action.causal_language = language == "causal";
  made.vision = read_siglip(with_defaults(vision, {{"hidden_size", 1152},
                                                   {"num_hidden_layers", 27},
                                                   {"num_attention_heads", 16},
                                                   {"patch_size", 14},
                                                   {"intermediate_size", 4304},
                                                   {"image_size", 224}}),
                            "vision_config.", problem);
  if (!problem.empty()) return;
  const BlockShape& a = made.text->block;
  const BlockShape& b = action.expert.block;
  if (made.text->layers != action.expert.layers ||
      a.kv_heads * a.head_dim != b.kv_heads * b.head_dim)
    reader.error("action_expert_variant", "must have the trunk's layers and key width");
  made.action = std::move(action);
}

void read_smolvla(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  ActionShape action = read_actions(reader);
  // The file names its SmolVLM2 only; these are its sizes, unless they are given.
  const Json* vlm = reader.object("vlm_config", true);
  const Json none = Json::object();
  JsonReader inner(vlm != nullptr ? *vlm : none, "vlm_config.", problem);
  const Json text = with_defaults(inner.object("text_config", true), {{"vocab_size", 49280},
                                                                      {"hidden_size", 960},
                                                                      {"num_hidden_layers", 32},
                                                                      {"num_attention_heads", 15},
                                                                      {"num_key_value_heads", 5},
                                                                      {"head_dim", 64},
                                                                      {"intermediate_size", 2560},
                                                                      {"rms_norm_eps", 1e-5}});
  const Json vision =
      with_defaults(inner.object("vision_config", true), {{"image_size", 512}, {"patch_size", 16}});
  made.text = read_text(text, "vlm_config.text_config.", Family::llama, problem);
  made.vision = read_siglip(vision, "vlm_config.vision_config.", problem);
  made.pixel_shuffle = 4;
  inner.size("scale_factor", made.pixel_shuffle, 16);
  std::size_t layers = 16;
  reader.size("num_vlm_layers", layers, 1024);
  std::size_t every = 2;
  reader.size("self_attn_every_n_layers", every, 1024);
  double multiplier = 0.75;
  reader.number("expert_width_multiplier", multiplier);
  std::string mode = "cross_attn";
  reader.text("attention_mode", mode);
  if (mode != "cross_attn")
    reader.error("attention_mode", "is '" + mode + "'; cross_attn is supported");
  if (const Json* own = reader.get("num_expert_layers", true))
    if (!own->is_number_integer() ||
        (own->get<std::int64_t>() > 0 && own->get<std::size_t>() != layers))
      reader.error("num_expert_layers", "must be -1 or as many as num_vlm_layers");
  if (!problem.empty()) return;
  made.text->layers = std::min(layers, made.text->layers);
  made.text->rope = Rope{};
  made.text->rope.theta = 10000;  // its code has it fixed; the file's is for the language model
  made.text->embedding_scale = std::sqrt(static_cast<float>(made.text->block.width));
  action.expert = *made.text;
  action.expert.vocabulary = 0;
  action.expert.cross_every = every;
  const double width = static_cast<double>(made.text->block.width) * multiplier;
  if (width < 2 || width > 1 << 16) reader.error("expert_width_multiplier", "is out of range");
  action.expert.block.width = static_cast<std::size_t>(std::clamp(width, 2.0, 65536.0));
  // lerobot's rule: two thirds of four times the width, up to a multiple of 256.
  action.expert.block.mlp = (4 * (2 * action.expert.block.width / 3) + 255) / 256 * 256;
  reader.size("expert_intermediate_size", action.expert.block.mlp, 1 << 20);
  if (made.vision->side / made.vision->patch % made.pixel_shuffle != 0)
    reader.error("vlm_config.scale_factor", "must divide the picture's grid");
  made.action = std::move(action);
}

void read_openvla(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  std::string backbone = "dinosiglip-vit-so-224px";
  reader.text("vision_backbone_id", backbone);
  if (!backbone.starts_with("dinosiglip-vit-so"))
    reader.error("vision_backbone_id", "is '" + backbone + "'; dinosiglip-vit-so is supported");
  std::size_t side = 224;
  if (const Json* sizes = reader.get("image_sizes", true))
    if (sizes->is_array() && !sizes->empty() && sizes->front().is_number_unsigned())
      side = std::clamp<std::size_t>(sizes->front().get<std::size_t>(), 1, 4096);
  const Json text = with_defaults(reader.object("text_config", true), {{"vocab_size", 32064},
                                                                       {"hidden_size", 4096},
                                                                       {"num_hidden_layers", 32},
                                                                       {"num_attention_heads", 32},
                                                                       {"intermediate_size", 11008},
                                                                       {"rms_norm_eps", 1e-6}});
  const Json dino = with_defaults(reader.object("dino_config", true), {{"hidden_size", 1024},
                                                                       {"num_hidden_layers", 24},
                                                                       {"num_attention_heads", 16},
                                                                       {"image_size", side}});
  const Json siglip =
      with_defaults(reader.object("siglip_config", true), {{"hidden_size", 1152},
                                                           {"num_hidden_layers", 27},
                                                           {"num_attention_heads", 16},
                                                           {"intermediate_size", 4304},
                                                           {"patch_size", 14},
                                                           {"hidden_act", "gelu"},  // timm's
                                                           {"image_size", side}});
  made.text = read_text(text, "text_config.", Family::llama, problem);
  made.vision = read_dinov2(dino, "dino_config.", true, problem);
  made.second_vision = read_siglip(siglip, "siglip_config.", problem);
  if (!problem.empty()) return;
  for (TowerShape* tower : {&*made.vision, &*made.second_vision}) {
    tower->layers -= tower->layers > 1 ? 1 : 0;  // the output before the last layer
    tower->final_norm = false;
    tower->keep_extra = false;
    tower->class_position = false;
  }
  if (made.vision->patches() != made.second_vision->patches() ||
      made.vision->side != made.second_vision->side)
    reader.error("image_sizes", "must give both towers the same patches");
  made.image_token = patches_token;
  std::size_t padding = 64;
  reader.count("pad_to_multiple_of", padding, 1 << 20);
  if (padding >= made.text->vocabulary)
    reader.error("pad_to_multiple_of", "must be below vocab_size");
  made.action_tokens_end = made.text->vocabulary - std::min(padding, made.text->vocabulary);
  reader.size("n_action_bins", made.action_bins, 1 << 16);
  if (made.action_bins < 2) reader.error("n_action_bins", "must be 2 at least");
  if (const Json* statistics = reader.object("norm_stats", true))
    read_statistics(*statistics, "norm_stats", made, problem);
}

}  // namespace sluice
