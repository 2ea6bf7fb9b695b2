// The decoder backbone: one ragged forward over any mix of sequences and numbers of tokens.
//
// A chunk is a piece of prompt, one decode step, or a block of latents whose rows see each other;
// all chunks of a call go through the layers together. Shape: embeddings and hidden rows are
// [tokens, width], f32. Keys are stored after RoPE. Thread: one caller at a time per pool.
// Source: omni-flow, sections 5.2 and 5.3; Llama for the layer.
#pragma once

#include <span>
#include <vector>

#include "roles/model/config.h"
#include "roles/model/kv.h"
#include "roles/model/weights.h"

namespace sluice {

/// New tokens of one sequence. A sequence stands in one chunk of a forward at most.
struct Chunk {
  KvSequence* sequence = nullptr;
  std::span<const float> embeddings;   // [count, width]
  bool block = false;                  // every row sees the whole chunk
};

class Backbone {
 public:
  static Result<Backbone> load(const ModelConfig& config, const SafetensorsFile& file);
  /// For benchmarks: the shape with random weights.
  static Backbone random(const ModelConfig& config, std::uint64_t seed);

  std::size_t width() const { return config_.width; }
  KvShape kv_shape(std::size_t page_tokens) const {
    return {config_.layers, config_.kv_heads * config_.head_dim, page_tokens};
  }

  /// Appends each chunk to its sequence and leaves the normed hidden rows in `hidden`, chunk after
  /// chunk. Errors: exhausted (pages, positions); then no sequence has changed.
  Result<void> forward(KvPool& pool, std::span<const Chunk> chunks,
                       std::vector<float>& hidden) const;

  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const;
  /// Logits [rows, vocabulary] of hidden rows (the head is tied to the embedding).
  void logits(std::span<const float> hidden, std::vector<float>& logits) const;
  /// Bytes of weights that one decode step reads.
  std::size_t stream_bytes() const;

 private:
  struct Layer {
    Norm input_norm, post_norm;
    Linear q, k, v, o, gate, up, down;
  };
  struct Rows;

  void attend(KvPool& pool, std::size_t layer, std::span<const Chunk> chunks, Rows& rows) const;
  void store(KvPool& pool, std::size_t layer, std::span<const Chunk> chunks, Rows& rows) const;

  ModelConfig config_;
  kernels::Weight embedding_;
  std::vector<Layer> layers_;
  std::vector<float> norm_;
};

}  // namespace sluice
