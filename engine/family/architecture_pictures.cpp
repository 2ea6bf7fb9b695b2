// diffusers' configurations: `_class_name` tells what it is.
#include "engine/family/architecture_parts.h"

namespace sluice {

namespace {

void read_kinds(JsonReader& reader, const char* key, const char* only, std::size_t count) {
  const Json* list = reader.get(key, true);
  if (list == nullptr) return;
  bool right = list->is_array() && list->size() == count;
  if (right)
    for (const Json& kind : *list) right = right && kind.is_string() && kind == only;
  if (!right)
    reader.error(key, "must be " + std::to_string(count) + " times '" + only +
                          "'; others are not supported");
}

}  // namespace

void read_dit(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  DiffusionShape shape;
  BlockShape& block = shape.trunk.block;
  block.norm = NormKind::layer;
  block.adaptive = true;
  block.gated = false;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  block.heads = 16;
  block.head_dim = 72;
  block.eps = 1e-6F;
  block.eps2 = 1e-5F;
  shape.trunk.layers = 28;
  reader.size("num_attention_heads", block.heads, 1024);
  reader.size("attention_head_dim", block.head_dim, 4096);
  reader.size("num_layers", shape.trunk.layers, 1024);
  reader.size("sample_size", shape.side, 1024);
  reader.size("patch_size", shape.patch, 64);
  reader.size("in_channels", shape.channels, 1024);
  shape.out_channels = shape.channels;
  reader.size("out_channels", shape.out_channels, 2048);
  reader.size("num_embeds_ada_norm", shape.classes);
  reader.flag("attention_bias", block.qkv_bias);
  reader.number("norm_eps", block.eps2);
  std::string activation = "gelu-approximate";
  reader.text("activation_fn", activation);
  if (activation == "gelu-approximate")
    block.activation = kernels::Activation::gelu_tanh;
  else if (activation == "gelu")
    block.activation = kernels::Activation::gelu_erf;
  else
    reader.error("activation_fn",
                 "is '" + activation + "'; gelu and gelu-approximate are supported");
  std::string norm = "ada_norm_zero";
  reader.text("norm_type", norm);
  if (norm != "ada_norm_zero") reader.error("norm_type", "must be ada_norm_zero");
  bool affine = false;
  reader.flag("norm_elementwise_affine", affine);
  if (affine)
    reader.error("norm_elementwise_affine",
                 "is true; only norms without weights are "
                 "supported");
  block.kv_heads = block.heads;
  block.width = block.heads * block.head_dim;
  block.mlp = 4 * block.width;
  if (block.width % 4 != 0)
    reader.error("attention_head_dim", "times the heads must be a multiple of 4");
  else if (shape.side % shape.patch != 0)
    reader.error("patch_size", "must divide sample_size");
  else if (shape.out_channels < shape.channels)
    reader.error("out_channels", "must be at least in_channels");
  shape.trunk.positions_max = shape.patches();
  made.diffusion = shape;
}

void read_vae(const Json& config, Architecture& made, std::string& problem) {
  JsonReader reader(config, "", problem);
  VaeShape shape;
  reader.size("latent_channels", shape.latent_channels, 1024);
  reader.size("out_channels", shape.out_channels, 1024);
  reader.size("norm_num_groups", shape.groups, 1 << 12);
  reader.size("layers_per_block", shape.residuals, 64);
  reader.flag("use_post_quant_conv", shape.post_convolution);
  reader.flag("mid_block_add_attention", shape.attention);
  reader.number("scaling_factor", shape.scaling);
  if (const Json* shift = reader.get("shift_factor", true)) {
    if (!shift->is_number())
      reader.error("shift_factor", "must be a number");
    else
      shape.shift = shift->get<float>();
  }
  if (reader.get("latents_mean", true) != nullptr || reader.get("latents_std", true) != nullptr)
    reader.error("latents_mean", "and latents_std are not supported");
  std::string activation = "silu";
  reader.text("act_fn", activation);
  if (activation != "silu") reader.error("act_fn", "must be silu");
  if (const Json* list = reader.get("block_out_channels", true)) {
    shape.channels.clear();
    bool right = list->is_array() && !list->empty() && list->size() <= 8;
    if (right)
      for (const Json& value : *list) {
        right = right && value.is_number_unsigned() && value.get<std::uint64_t>() <= 1 << 14 &&
                value.get<std::uint64_t>() % shape.groups == 0 && value.get<std::uint64_t>() != 0;
        if (right) shape.channels.push_back(value.get<std::size_t>());
      }
    if (!right) reader.error("block_out_channels", "must be 1 to 8 multiples of norm_num_groups");
  } else if (shape.channels.front() % shape.groups != 0) {
    reader.error("norm_num_groups", "must divide the 64 channels that are the default");
  }
  read_kinds(reader, "up_block_types", "UpDecoderBlock2D", shape.channels.size());
  made.vae = shape;
}

}  // namespace sluice
