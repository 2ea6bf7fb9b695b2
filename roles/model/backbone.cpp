#include "roles/model/backbone.h"

#include <cstring>
#include <numeric>
#include <string>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"

namespace sluice {

namespace {

void project(const Linear& linear, std::span<const float> x, std::vector<float>& y,
             std::size_t rows) {
  y.resize(rows * linear.weight.out());
  kernels::matmul_cpu(x, linear.weight, linear.bias, y, rows);
}

Linear random_linear(std::size_t out, std::size_t in, std::uint64_t& state) {
  Tensor tensor = std::move(Tensor::zeros(Dtype::bf16, {static_cast<std::int64_t>(out),
                                                        static_cast<std::int64_t>(in)}))
                      .value();
  for (std::uint16_t& value : tensor.bf16()) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    value = bf16_from_f32((static_cast<float>(state >> 40) / 16777216.0F - 0.5F) * 0.06F);
  }
  return {std::move(kernels::Weight::from(tensor)).value(), {}};
}

}  // namespace

/// Scratch of one forward.
struct Backbone::Rows {
  std::size_t count = 0;
  std::vector<std::int32_t> positions;
  std::vector<std::uint32_t> sequence;  // index of the row's chunk
  std::vector<std::uint32_t> limit;     // tokens the row sees
  std::vector<float> normed, q, k, v, mixed, out, gate, up;
};

Result<Backbone> Backbone::load(const ModelConfig& config, const SafetensorsFile& file) {
  Backbone made;
  made.config_ = config;
  WeightLoader load(file);
  const std::size_t q = config.heads * config.head_dim;
  const std::size_t kv = config.kv_heads * config.head_dim;
  made.embedding_ =
      load.linear("model.embed_tokens", config.vocabulary, config.width, false).weight;
  for (std::size_t i = 0; i < config.layers; ++i) {
    const std::string at = "model.layers." + std::to_string(i) + ".";
    Layer layer;
    layer.input_norm = load.norm(at + "input_layernorm", config.width, false);
    layer.post_norm = load.norm(at + "post_attention_layernorm", config.width, false);
    layer.q = load.linear(at + "self_attn.q_proj", q, config.width, false);
    layer.k = load.linear(at + "self_attn.k_proj", kv, config.width, false);
    layer.v = load.linear(at + "self_attn.v_proj", kv, config.width, false);
    layer.o = load.linear(at + "self_attn.o_proj", config.width, q, false);
    layer.gate = load.linear(at + "mlp.gate_proj", config.mlp, config.width, false);
    layer.up = load.linear(at + "mlp.up_proj", config.mlp, config.width, false);
    layer.down = load.linear(at + "mlp.down_proj", config.width, config.mlp, false);
    made.layers_.push_back(std::move(layer));
  }
  made.norm_ = load.values("model.norm.weight", config.width);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Backbone Backbone::random(const ModelConfig& config, std::uint64_t seed) {
  Backbone made;
  made.config_ = config;
  const std::size_t q = config.heads * config.head_dim;
  const std::size_t kv = config.kv_heads * config.head_dim;
  made.embedding_ = random_linear(config.vocabulary, config.width, seed).weight;
  made.norm_.assign(config.width, 1.0F);
  for (std::size_t i = 0; i < config.layers; ++i)
    made.layers_.push_back({{made.norm_, {}},
                            {made.norm_, {}},
                            random_linear(q, config.width, seed),
                            random_linear(kv, config.width, seed),
                            random_linear(kv, config.width, seed),
                            random_linear(config.width, q, seed),
                            random_linear(config.mlp, config.width, seed),
                            random_linear(config.mlp, config.width, seed),
                            random_linear(config.width, config.mlp, seed)});
  return made;
}

std::size_t Backbone::stream_bytes() const {
  std::size_t bytes = embedding_.stream_bytes();
  for (const Layer& layer : layers_)
    for (const Linear* linear :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      bytes += linear->weight.stream_bytes();
  return bytes;
}

void Backbone::embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const {
  for (const std::int32_t token : tokens) {
    SLUICE_CHECK(token >= 0 && static_cast<std::size_t>(token) < config_.vocabulary,
                 "a token outside the vocabulary");
    const float* from = embedding_.f32() + static_cast<std::size_t>(token) * config_.width;
    rows.insert(rows.end(), from, from + config_.width);
  }
}

void Backbone::logits(std::span<const float> hidden, std::vector<float>& logits) const {
  const std::size_t rows = hidden.size() / config_.width;
  logits.resize(rows * config_.vocabulary);
  kernels::matmul_cpu(hidden, embedding_, {}, logits, rows);
}

void Backbone::store(KvPool& pool, std::size_t layer, std::span<const Chunk> chunks,
                     Rows& rows) const {
  const std::size_t width = pool.shape().row;
  const std::size_t page_tokens = pool.shape().page_tokens;
  for (std::size_t row = 0; row < rows.count; ++row) {
    const auto at = static_cast<std::size_t>(rows.positions[row]);
    const std::uint32_t page = chunks[rows.sequence[row]].sequence->pages[at / page_tokens];
    const std::size_t offset = at % page_tokens * width;
    std::memcpy(pool.keys(page, layer) + offset, rows.k.data() + row * width, width * 4);
    std::memcpy(pool.values(page, layer) + offset, rows.v.data() + row * width, width * 4);
  }
}

void Backbone::attend(KvPool& pool, std::size_t layer, std::span<const Chunk> chunks,
                      Rows& rows) const {
  std::vector<std::vector<const float*>> keys(chunks.size());
  std::vector<std::vector<const float*>> values(chunks.size());
  std::vector<kernels::PagedSequence> sequences;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (const std::uint32_t page : chunks[c].sequence->pages) {
      keys[c].push_back(pool.keys(page, layer));
      values[c].push_back(pool.values(page, layer));
    }
    sequences.push_back({keys[c], values[c]});
  }
  rows.mixed.resize(rows.q.size());
  kernels::attention_cpu(
      {config_.heads, config_.kv_heads, config_.head_dim, pool.shape().page_tokens}, rows.q,
      rows.sequence, rows.limit, sequences, rows.mixed);
}

Result<void> Backbone::forward(KvPool& pool, std::span<const Chunk> chunks,
                               std::vector<float>& hidden) const {
  Rows rows;
  hidden.clear();
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const std::size_t count = chunk.embeddings.size() / config_.width;
    const std::size_t before = chunk.sequence->tokens;
    Result<void> extended =
        before + count > config_.positions_max
            ? Error{ErrorCode::exhausted,
                    "the sequence would have " + std::to_string(before + count) +
                        " tokens, the model reads " + std::to_string(config_.positions_max) +
                        "; start a new session"}
            : pool.extend(*chunk.sequence, count);
    if (!extended.ok()) {
      for (std::size_t back = 0; back < c; ++back)
        pool.truncate(*chunks[back].sequence, chunks[back].sequence->tokens -
                                                  chunks[back].embeddings.size() / config_.width);
      return extended;
    }
    for (std::size_t i = 0; i < count; ++i) {
      rows.positions.push_back(static_cast<std::int32_t>(before + i));
      rows.sequence.push_back(static_cast<std::uint32_t>(c));
      rows.limit.push_back(static_cast<std::uint32_t>(before + (chunk.block ? count : i + 1)));
    }
    hidden.insert(hidden.end(), chunk.embeddings.begin(), chunk.embeddings.end());
  }
  rows.count = rows.positions.size();
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    rows.normed.resize(hidden.size());
    kernels::rms_norm_cpu(hidden, layer.input_norm.weight, config_.rms_eps, rows.normed);
    project(layer.q, rows.normed, rows.q, rows.count);
    project(layer.k, rows.normed, rows.k, rows.count);
    project(layer.v, rows.normed, rows.v, rows.count);
    kernels::rope_cpu(rows.q, rows.positions, config_.heads, config_.head_dim, config_.rope_theta);
    kernels::rope_cpu(rows.k, rows.positions, config_.kv_heads, config_.head_dim,
                      config_.rope_theta);
    store(pool, l, chunks, rows);
    attend(pool, l, chunks, rows);
    project(layer.o, rows.mixed, rows.out, rows.count);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += rows.out[i];
    kernels::rms_norm_cpu(hidden, layer.post_norm.weight, config_.rms_eps, rows.normed);
    project(layer.gate, rows.normed, rows.gate, rows.count);
    project(layer.up, rows.normed, rows.up, rows.count);
    kernels::silu_cpu(rows.gate);
    for (std::size_t i = 0; i < rows.gate.size(); ++i) rows.gate[i] *= rows.up[i];
    project(layer.down, rows.gate, rows.out, rows.count);
    for (std::size_t i = 0; i < hidden.size(); ++i) hidden[i] += rows.out[i];
  }
  rows.normed.resize(hidden.size());
  kernels::rms_norm_cpu(hidden, norm_, config_.rms_eps, rows.normed);
  hidden.swap(rows.normed);
  return {};
}

}  // namespace sluice
