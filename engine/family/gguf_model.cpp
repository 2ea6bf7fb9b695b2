#include "engine/family/gguf_model.h"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace sluice {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kinds[] = {"llama", "qwen2", "gemma"};

Error corrupt(const GgufFile& file, const std::string& what) {
  return {ErrorCode::corrupt, file.name() + ": " + what};
}

/// What is no number would be left out of the configuration, and computed with a default.
Result<void> check_finite(const GgufFile& file, const std::string& key) {
  const auto value = file.number(key);
  if (!value.has_value() || std::isfinite(*value)) return {};
  return corrupt(file, key + " is " + (std::isnan(*value) ? "NaN" : "infinite") +
                           "; it must be a number above 0");
}

/// Tensors of blocks behind the last one that is computed: the count is wrong, and so would be
/// every answer.
Result<void> check_blocks(const GgufFile& file, const std::string& kind, std::size_t blocks) {
  std::uint64_t last = 0;
  std::string of;
  for (const auto& [name, tensor] : file.tensors()) {
    if (!name.starts_with("blk.")) continue;
    const char* end = name.data() + name.size();
    std::uint32_t number = 0;
    const auto [stop, failed] = std::from_chars(name.data() + 4, end, number);
    if (failed != std::errc() || stop == end || *stop != '.') continue;
    if (number < blocks || (!of.empty() && number <= last)) continue;
    last = number;
    of = name;
  }
  if (of.empty()) return {};
  return corrupt(file, kind + ".block_count is " + std::to_string(blocks) +
                           ", but the file has tensors of " + std::to_string(last + 1) +
                           " blocks (" + of + ")");
}

/// A key of a config.json, and what the file calls it, behind its kind.
struct Key {
  const char* config;
  const char* file;
  bool is_whole = true;
  bool is_needed = false;
};
constexpr Key keys[] = {{"hidden_size", "embedding_length", true, true},
                        {"num_hidden_layers", "block_count", true, true},
                        {"num_attention_heads", "attention.head_count", true, true},
                        {"num_key_value_heads", "attention.head_count_kv"},
                        {"intermediate_size", "feed_forward_length", true, true},
                        {"max_position_embeddings", "context_length"},
                        {"head_dim", "attention.key_length"},
                        {"rms_norm_eps", "attention.layer_norm_rms_epsilon", false, true},
                        {"rope_theta", "rope.freq_base", false}};

/// What is said of a config.json, in the file's own keys.
Error in_keys_of_file(const GgufFile& file, const std::string& kind, const Error& error) {
  if (!error.message.starts_with(file.name())) return error;
  std::string what = error.message.substr(file.name().size());
  for (const Key& key : keys) {
    const std::string own = kind + "." + key.file;
    for (std::size_t at = what.find(key.config); at != std::string::npos;
         at = what.find(key.config, at + own.size()))
      what.replace(at, std::string_view(key.config).size(), own);
  }
  const std::string head = kind + ".attention.key_length";
  if (what.find(head) != std::string::npos && !file.has(head))
    what += "; without it each head has " + kind + ".embedding_length / " + kind +
            ".attention.head_count";
  return {error.code, file.name() + what};
}

/// The keys of a config.json, as far as the file has them.
Result<Json> config_of(const GgufFile& file, const std::string& kind) {
  const std::string at = kind + ".";
  Json config = {{"model_type", kind}};
  for (const Key& key : keys) {
    if (key.is_whole) {
      if (const auto value = file.whole(at + key.file)) config[key.config] = *value;
    } else if (const auto value = file.number(at + key.file)) {
      config[key.config] = *value;
    }
    if (key.is_needed && !config.contains(key.config))
      return corrupt(file, "the metadata of " + kind + " does not tell '" + at + key.file +
                               "', or not as one number");
  }
  if (file.has(at + "attention.head_count_kv") && !config.contains("num_key_value_heads"))
    return invalid_argument(file.name() + ": " + at +
                            "attention.head_count_kv differs from layer to layer, which is not "
                            "supported");
  // What Gemma's own configuration calls the tanh form of GELU is its default here.
  const GgufFile::Tensor* embedding = file.find("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2)
    return corrupt(file, "there is no matrix 'token_embd.weight'");
  config["vocab_size"] = static_cast<std::uint64_t>(embedding->shape[0]);
  config["tie_word_embeddings"] = file.find("output.weight") == nullptr;
  return config;
}

/// What is in a file but would be computed wrongly here.
Result<void> check_options(const GgufFile& file, const std::string& kind) {
  const std::string at = kind + ".";
  const auto refuse = [&](const std::string& what) {
    return Result<void>(invalid_argument(file.name() + ": " + what + " is not supported"));
  };
  if (file.whole(at + "expert_count").value_or(0) != 0) return refuse("a mixture of experts");
  if (file.whole("split.count").value_or(1) > 1)
    return Error{ErrorCode::invalid_argument,
                 file.name() +
                     ": this is one of several files; join them with llama.cpp's "
                     "llama-gguf-split --merge"};
  if (file.has(at + "attention.sliding_window")) return refuse("a sliding window");
  const std::string_view scaling = file.text(at + "rope.scaling.type").value_or("none");
  if (scaling != "none" && scaling != "linear")
    return refuse("RoPE scaling of type '" + std::string(scaling) + "'");
  return {};
}

/// Llama 3's scaling, as factors by which each frequency is divided.
Result<void> read_factors(const GgufFile& file, Rope& rope, std::size_t head_dim) {
  const GgufFile::Tensor* factors = file.find("rope_freqs.weight");
  if (factors == nullptr) return {};
  if (factors->type != kernels::BlockType::f32 || factors->shape.size() != 1 ||
      static_cast<std::size_t>(factors->shape[0]) != head_dim / 2)
    return corrupt(file, "'rope_freqs.weight' must be F32, one for each pair of a head");
  rope.divisors.resize(head_dim / 2);
  kernels::read_blocks(factors->type, reinterpret_cast<const std::uint8_t*>(factors->bytes.data()),
                       rope.divisors);
  for (const float divisor : rope.divisors)
    if (!(divisor > 0)) return corrupt(file, "'rope_freqs.weight' must be above zero");
  return {};
}

struct Name {
  std::string_view from, to;
};
constexpr Name names_of_file[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Name names_of_block[] = {
    {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},   {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};

/// "blk.3.attn_q.weight" as "model.layers.3.self_attn.q_proj.weight"; another name as it is.
std::string name_in_transformers(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return name;
  const std::string stem = name.substr(0, dot);
  const std::string end = name.substr(dot);
  for (const auto& [from, to] : names_of_file)
    if (stem == from) return std::string(to) + end;
  const std::size_t second = stem.find('.', 4);
  if (!stem.starts_with("blk.") || second == std::string::npos) return name;
  for (const auto& [from, to] : names_of_block)
    if (stem.substr(second + 1) == from)
      return "model.layers." + stem.substr(4, second - 3) + std::string(to) + end;
  return name;
}

}  // namespace

Result<Architecture> gguf_architecture(const GgufFile& file) {
  const std::string kind(file.text("general.architecture").value_or(""));
  bool known = false;
  for (const std::string_view one : kinds) known = known || one == kind;
  if (!known)
    return invalid_argument(file.name() + ": general.architecture is '" + kind +
                            "'; supported are llama, qwen2 and gemma");
  if (auto checked = check_options(file, kind); !checked.ok()) return checked.error();
  for (const char* key : {".attention.layer_norm_rms_epsilon", ".rope.freq_base"})
    if (auto finite = check_finite(file, kind + key); !finite.ok()) return finite.error();
  const Result<Json> config = config_of(file, kind);
  if (!config.ok()) return config.error();
  Result<Architecture> made = Architecture::parse(config->dump(), file.name());
  if (!made.ok()) return in_keys_of_file(file, kind, made.error());
  DecoderShape& text = *made->text;
  if (auto all = check_blocks(file, kind, text.layers); !all.ok()) return all.error();
  text.block.norm_plus_one = false;
  text.block.qkv_bias = file.find("blk.0.attn_q.bias") != nullptr;
  text.block.out_bias = file.find("blk.0.attn_output.bias") != nullptr;
  text.block.mlp_bias = file.find("blk.0.ffn_up.bias") != nullptr;
  if (file.whole(kind + ".rope.dimension_count").value_or(text.block.head_dim) !=
      text.block.head_dim)
    return invalid_argument(file.name() + ": RoPE over a part of each head is not supported");
  if (file.text(kind + ".rope.scaling.type").value_or("none") == "linear") {
    const std::string factor = kind + ".rope.scaling.factor";
    if (auto finite = check_finite(file, factor); !finite.ok()) return finite.error();
    text.rope.scaling = Rope::Scaling::linear;
    text.rope.factor = file.number(factor).value_or(1);
    if (!(text.rope.factor > 0)) return corrupt(file, factor + " must be above zero");
  }
  if (auto read = read_factors(file, text.rope, text.block.head_dim); !read.ok())
    return read.error();
  return made;
}

Result<SafetensorsFile> gguf_tensors(const GgufFile& file, const Architecture& architecture) {
  const std::size_t head =
      architecture.family == Family::llama ? architecture.text->block.head_dim : 0;
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : file.tensors()) {
    TensorView view;
    view.name = name_in_transformers(name);
    view.dtype = kernels::layout_of(tensor.type).name;
    view.shape = tensor.shape;
    view.bytes = tensor.bytes;
    view.in_place = tensor.shape.size() == 2;
    const bool turned = view.name.find(".q_proj.") != std::string::npos ||
                        view.name.find(".k_proj.") != std::string::npos;
    if (turned && head != 0) {
      if (static_cast<std::size_t>(tensor.shape[0]) % head != 0)
        return corrupt(file, "tensor '" + name + "' has " + std::to_string(tensor.shape[0]) +
                                 " rows, no whole heads of " + std::to_string(head));
      // Of a vector each value is a row of its own, and a block of several goes through more rows.
      const kernels::BlockLayout& layout = kernels::layout_of(tensor.type);
      if (tensor.shape.size() == 1 && layout.values != 1)
        return corrupt(file, "tensor '" + name + "' has one dimension and blocks of " +
                                 std::to_string(layout.values) + " values (" +
                                 std::string(layout.name) +
                                 "), whose order within a head cannot be changed; write it as "
                                 "F32, F16 or BF16");
      view.interleaved = head;
    }
    views.push_back(std::move(view));
  }
  return SafetensorsFile::of(std::move(views), file.owner());
}

}  // namespace sluice
