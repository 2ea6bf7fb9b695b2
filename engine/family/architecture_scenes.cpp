// models/scenes: a language model with a tower, a codec of pictures, and drawings by its own trunk.
#include "engine/family/architecture_parts.h"

namespace sluice {

namespace {

void read_layers(const Json& list, const std::string& place, std::string& problem,
                 std::vector<CodecLayer>& to, int depth = 0) {
  if (!list.is_array() || list.size() > 256 || depth > 4) {
    if (problem.empty()) problem = "'" + place + "' must be a short list of layers";
    return;
  }
  for (const Json& item : list) {
    CodecLayer layer;
    std::string op;
    JsonReader reader(item, place + ".", problem);
    reader.text("op", op);
    if (op == "conv") {
      layer.kind = CodecLayer::Kind::conv;
      reader.text("name", layer.name);
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

void read_trunk(JsonReader& reader, Architecture& made) {
  DecoderShape shape;
  BlockShape& block = shape.block;
  reader.size("vocab_size", shape.vocabulary);
  reader.size("hidden_size", block.width);
  reader.size("num_hidden_layers", shape.layers, 1024);
  reader.size("num_attention_heads", block.heads, 1024);
  reader.size("num_key_value_heads", block.kv_heads, 1024);
  reader.size("head_dim", block.head_dim, 1024);
  reader.size("intermediate_size", block.mlp);
  reader.size("max_position_embeddings", shape.positions_max);
  reader.number("rms_norm_eps", block.eps);
  reader.number("rope_theta", shape.rope.theta);
  reader.flag("tie_word_embeddings", shape.tied);
  made.text = shape;
  TurnTokens turns;
  reader.token("bos_token_id", turns.bos);
  reader.token("eos_token_id", turns.eos);
  reader.token("user_token_id", turns.user);
  reader.token("assistant_token_id", turns.assistant);
  reader.token("image_token_id", turns.image);
  reader.token("image_end_token_id", turns.image_end);
  reader.token("draw_token_id", turns.draw);
  made.turns = turns;
  reader.token("pad_token_id", made.image_token);
}

void read_tower(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "vision_config.", problem);
  TowerShape shape;
  BlockShape& block = shape.block;
  block.norm = NormKind::layer;
  block.activation = kernels::Activation::gelu_tanh;
  block.gated = false;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  reader.size("image_size", shape.side, 4096);
  reader.size("patch_size", shape.patch, 256);
  reader.size("hidden_size", block.width);
  reader.size("num_hidden_layers", shape.layers, 1024);
  reader.size("num_attention_heads", block.heads, 1024);
  reader.size("intermediate_size", block.mlp);
  reader.number("layer_norm_eps", block.eps);
  made.pixel_shuffle = 0;  // required
  reader.size("merge", made.pixel_shuffle, 16);
  reader.size("merger_size", made.projector_hidden);
  if (!problem.empty()) return;
  block.kv_heads = block.heads;
  block.head_dim = block.width / block.heads;
  made.vision = shape;
}

void read_flow(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "denoiser.", problem);
  LatentFlowShape shape;
  reader.size("tokens", shape.tokens, 4096);
  reader.size("token_dim", shape.token_values, 4096);
  reader.size("time_dim", shape.time_values, 4096);
  reader.size("steps", shape.steps, 1000);
  reader.number("min_period", shape.min_period);
  reader.number("max_period", shape.max_period);
  reader.number("guidance", shape.guidance);
  std::string predicts;
  reader.text("prediction", predicts);
  if (predicts != "x0" && predicts != "velocity")
    reader.error("prediction", "must be x0 or velocity");
  shape.predicts_x0 = predicts == "x0";
  shape.width = made.text->block.width;
  made.flow = shape;
}

void read_codec(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "codec.", problem);
  ConvolutionCodecShape shape;
  reader.size("channels", shape.channels, 1024);
  reader.size("latent_size", shape.latent, 1024);
  reader.size("patch", shape.patch, 16);
  if (const Json* list = reader.get("encoder"))
    read_layers(*list, "codec.encoder", problem, shape.encoder);
  if (const Json* list = reader.get("decoder"))
    read_layers(*list, "codec.decoder", problem, shape.decoder);
  made.codec = shape;
}

/// Tokens that the vocabulary has no row for.
std::string unknown_token(const Architecture& a) {
  const TurnTokens& turns = *a.turns;
  const std::pair<const char*, std::int32_t> tokens[] = {
      {"bos_token_id", turns.bos},     {"eos_token_id", turns.eos},
      {"user_token_id", turns.user},   {"assistant_token_id", turns.assistant},
      {"image_token_id", turns.image}, {"image_end_token_id", turns.image_end},
      {"draw_token_id", turns.draw},   {"pad_token_id", a.image_token}};
  for (const auto& [key, id] : tokens)
    if (static_cast<std::size_t>(id) >= a.text->vocabulary)
      return std::string("'") + key + "' is " + std::to_string(id) + ", and vocab_size is " +
             std::to_string(a.text->vocabulary);
  return "";
}

/// Sizes that must fit each other.
std::string mismatch(const Architecture& a) {
  const BlockShape& block = a.text->block;
  if (block.heads % block.kv_heads != 0)
    return "num_key_value_heads must divide num_attention_heads";
  if (block.head_dim % 2 != 0) return "head_dim must be even";
  if (a.vision->block.width % a.vision->block.heads != 0)
    return "vision heads must divide the vision width";
  if (a.vision->side % (a.vision->patch * a.pixel_shuffle) != 0)
    return "patch_size times merge must divide image_size";
  if (a.flow->time_values < 4) return "denoiser.time_dim must be at least 4";
  if (a.codec->latent % a.codec->patch != 0 || a.codec->tokens() != a.flow->tokens ||
      a.codec->token_values() != a.flow->token_values)
    return "denoiser tokens do not fit the codec's latent";
  return "";
}

}  // namespace

void read_scenes(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  read_trunk(reader, made);
  if (const Json* vision = reader.object("vision_config")) read_tower(*vision, made, problem);
  if (const Json* flow = reader.object("denoiser")) read_flow(*flow, made, problem);
  if (const Json* codec = reader.object("codec")) read_codec(*codec, made, problem);
  if (!problem.empty()) return;
  made.codec->side = made.vision->side;
  made.usual_format = kernels::WeightFormat::exact;
  problem = mismatch(made);
  if (problem.empty()) problem = unknown_token(made);
}

}  // namespace sluice
