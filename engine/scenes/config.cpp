#include "engine/scenes/config.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/checkpoint/json_reader.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

using Reader = JsonReader;

void read_layers(const Json& list, const std::string& place, std::string& problem,
                 std::vector<CodecLayer>& to, int depth = 0) {
  if (!list.is_array() || list.size() > 256 || depth > 4) {
    if (problem.empty()) problem = "'" + place + "' must be a short list of layers";
    return;
  }
  for (const Json& item : list) {
    CodecLayer layer;
    const std::string op = item.is_object() ? item.value("op", std::string()) : std::string();
    Reader reader(item, place + ".", problem);
    if (op == "conv") {
      layer.kind = CodecLayer::Kind::conv;
      const Json* name = reader.get("name");
      if (name != nullptr && name->is_string()) layer.name = name->get<std::string>();
      reader.size("in", layer.in, 1 << 14);
      reader.size("out", layer.out, 1 << 14);
      reader.size("stride", layer.stride, 2);
    } else if (op == "upsample2x") {
      layer.kind = CodecLayer::Kind::upsample2x;
    } else if (op == "residual") {
      layer.kind = CodecLayer::Kind::residual;
      if (const Json* body = reader.get("body"))
        read_layers(*body, place + ".body", problem, layer.body, depth + 1);
    } else if (op != "silu") {
      reader.error("op", "is '" + op + "'; conv, silu, upsample2x and residual are known");
    }
    to.push_back(std::move(layer));
  }
}

void read_parts(const Json& file, ModelConfig& config, std::string& problem) {
  Reader top(file, "", problem);
  if (const Json* vision = top.object("vision_config")) {
    Reader reader(*vision, "vision_config.", problem);
    reader.size("image_size", config.vision.image, 4096);
    reader.size("patch_size", config.vision.patch, 256);
    reader.size("hidden_size", config.vision.width);
    reader.size("num_hidden_layers", config.vision.layers, 1024);
    reader.size("num_attention_heads", config.vision.heads, 1024);
    reader.size("intermediate_size", config.vision.mlp);
    reader.size("merge", config.vision.merge, 16);
    reader.size("merger_size", config.vision.merger);
    reader.number("layer_norm_eps", config.vision.eps);
  }
  if (const Json* denoiser = top.object("denoiser")) {
    Reader reader(*denoiser, "denoiser.", problem);
    reader.size("tokens", config.denoiser.tokens, 4096);
    reader.size("token_dim", config.denoiser.token_dim, 4096);
    reader.size("time_dim", config.denoiser.time_dim, 4096);
    reader.size("steps", config.denoiser.steps, 1000);
    reader.number("min_period", config.denoiser.min_period);
    reader.number("max_period", config.denoiser.max_period);
    reader.number("guidance", config.denoiser.guidance);
    const std::string predicts = denoiser->value("prediction", std::string());
    if (predicts != "x0" && predicts != "velocity")
      reader.error("prediction", "must be x0 or velocity");
    config.denoiser.predicts_x0 = predicts == "x0";
  }
  if (const Json* codec = top.object("codec")) {
    Reader reader(*codec, "codec.", problem);
    reader.size("channels", config.codec.channels, 1024);
    reader.size("latent_size", config.codec.latent, 1024);
    reader.size("patch", config.codec.patch, 16);
    if (const Json* list = reader.get("encoder"))
      read_layers(*list, "codec.encoder", problem, config.codec.encoder);
    if (const Json* list = reader.get("decoder"))
      read_layers(*list, "codec.decoder", problem, config.codec.decoder);
  }
}

/// Sizes that must fit each other.
std::string mismatch(const ModelConfig& c) {
  if (c.heads % c.kv_heads != 0) return "num_key_value_heads must divide num_attention_heads";
  if (c.head_dim % 2 != 0) return "head_dim must be even";
  if (c.vision.width % c.vision.heads != 0) return "vision heads must divide the vision width";
  if (c.vision.image % (c.vision.patch * c.vision.merge) != 0)
    return "patch_size times merge must divide image_size";
  const std::size_t side = c.codec.latent / c.codec.patch;
  if (side * c.codec.patch != c.codec.latent || side * side != c.denoiser.tokens ||
      c.denoiser.token_dim != c.codec.channels * c.codec.patch * c.codec.patch)
    return "denoiser tokens do not fit the codec's latent";
  return "";
}

}  // namespace

DecoderShape ModelConfig::decoder() const {
  DecoderShape shape;
  shape.block.width = width;
  shape.block.heads = heads;
  shape.block.kv_heads = kv_heads;
  shape.block.head_dim = head_dim;
  shape.block.mlp = mlp;
  shape.block.eps = rms_eps;
  shape.layers = layers;
  shape.vocabulary = vocabulary;
  shape.positions_max = positions_max;
  shape.rope.theta = rope_theta;
  return shape;
}

DecoderNames ModelConfig::decoder_names() {
  return {"model.embed_tokens", "model.layers.", "model.norm", "lm_head"};
}

Result<ModelConfig> ModelConfig::load(const std::string& directory) {
  const std::string path = directory + "/config.json";
  const Result<std::string> text = read_whole_file(path, config_bytes_max);
  return text.ok() ? parse(*text, path) : text.error();
}

Result<ModelConfig> ModelConfig::parse(const std::string& json, const std::string& name) {
  const Json file = Json::parse(json, nullptr, false);
  if (!file.is_object()) return Error{ErrorCode::corrupt, name + ": not a JSON object"};
  ModelConfig config;
  std::string problem;
  Reader top(file, "", problem);
  top.size("vocab_size", config.vocabulary);
  top.size("hidden_size", config.width);
  top.size("num_hidden_layers", config.layers, 1024);
  top.size("num_attention_heads", config.heads, 1024);
  top.size("num_key_value_heads", config.kv_heads, 1024);
  top.size("head_dim", config.head_dim, 1024);
  top.size("intermediate_size", config.mlp);
  top.size("max_position_embeddings", config.positions_max);
  top.number("rms_norm_eps", config.rms_eps);
  top.number("rope_theta", config.rope_theta);
  top.token("bos_token_id", config.bos);
  top.token("eos_token_id", config.eos);
  top.token("user_token_id", config.user);
  top.token("assistant_token_id", config.assistant);
  top.token("image_token_id", config.image);
  top.token("image_end_token_id", config.image_end);
  top.token("draw_token_id", config.draw);
  read_parts(file, config, problem);
  if (problem.empty()) problem = mismatch(config);
  if (!problem.empty()) return Error{ErrorCode::corrupt, name + ": " + problem};
  return config;
}

}  // namespace sluice
