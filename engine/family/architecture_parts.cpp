#include "engine/family/architecture_parts.h"

#include <cmath>

namespace sluice {

namespace {

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
      return reader.error("mrope_section", "must be three whole numbers");
    for (std::size_t i = 0; i < 3; ++i) {
      const Json& value = (*sections)[i];
      if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1024)
        return reader.error("mrope_section", "must be three whole numbers");
      rope.sections[i] = value.get<std::size_t>();
    }
  }
  if (kind == "default" || kind == "mrope") return;
  if (kind == "linear")
    rope.scaling = Rope::Scaling::linear;
  else if (kind == "llama3")
    rope.scaling = Rope::Scaling::llama3;
  else
    return reader.error("rope_type", "is '" + kind +
                                         "'; default, linear, llama3 and mrope are "
                                         "supported");
  reader.number("factor", rope.factor);
  reader.number("low_freq_factor", rope.low_freq_factor);
  reader.number("high_freq_factor", rope.high_freq_factor);
  reader.number("original_max_position_embeddings", rope.original_positions);
}

/// SmolLM3: `no_rope_layers` says 1 for a layer with rotary positions and 0 for one without; where
/// it is missing, each `no_rope_layer_interval`-th has none.
void read_layers_without_rope(JsonReader& reader, DecoderShape& shape) {
  std::size_t interval = 4;
  reader.size("no_rope_layer_interval", interval, 1024);
  if (!reader.problem().empty()) return;
  shape.layers_without_rope.resize(shape.layers);
  for (std::size_t i = 0; i < shape.layers; ++i)
    shape.layers_without_rope[i] = (i + 1) % interval == 0;
  const Json* list = reader.get("no_rope_layers", true);
  if (list == nullptr) return;
  const std::string wanted =
      "must be a list of " + std::to_string(shape.layers) + " numbers, 1 (with RoPE) or 0";
  if (!list->is_array() || list->size() < shape.layers)
    return reader.error("no_rope_layers", wanted);
  for (std::size_t i = 0; i < shape.layers; ++i) {
    const Json& value = (*list)[i];
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1)
      return reader.error("no_rope_layers", wanted);
    shape.layers_without_rope[i] = value.get<std::uint64_t>() == 0;
  }
}

void check_heads(JsonReader& reader, const BlockShape& block) {
  if (!reader.problem().empty()) return;
  if (block.heads % block.kv_heads != 0)
    reader.error("num_key_value_heads", "must divide num_attention_heads");
  else if (block.head_dim % 2 != 0)
    reader.error("head_dim", "must be even");
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
    reader.error("num_attention_heads", "must divide hidden_size");
  else if (shape.side % shape.patch != 0)
    reader.error("patch_size", "must divide image_size");
  block.kv_heads = block.heads;
  block.head_dim = block.width / block.heads;
}

}  // namespace

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
    reader.error(key, "is '" + name + "'; silu, gelu and gelu_pytorch_tanh are supported");
}

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
  shape.tied = family == Family::gemma || family == Family::smollm3;
  if (family == Family::smollm3) shape.rope.theta = 2000000;
  return shape;
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
  if (window) reader.error("use_sliding_window", "is true; only full attention is supported");
  read_rope(config, place, problem, shape.rope);
  if (family == Family::smollm3) read_layers_without_rope(reader, shape);
  if (family == Family::gemma) shape.embedding_scale = std::sqrt(static_cast<float>(block.width));
  check_heads(reader, block);
  return shape;
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
  if (swiglu) reader.error("use_swiglu_ffn", "is true; only the plain MLP is supported");
  shape.block.mlp = shape.block.width * ratio;
  check_grid(reader, shape);
  return shape;
}

}  // namespace sluice
