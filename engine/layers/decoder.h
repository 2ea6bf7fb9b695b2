// A decoder over paged KV: one ragged forward over any mix of sequences and numbers of tokens.
//
// A chunk is a piece of prompt, one decode step, or a block whose rows see each other; all chunks
// of a call go through the layers together. An expert that attends to another decoder's keys
// (openpi's action expert) is a decoder of the same KV shape over the same sequence.
// Shape: embeddings and hidden rows are [tokens, width], f32. Keys are stored after RoPE, or before
// it where the pool says so.
// Thread: one caller at a time per pool. Source: omni-flow, sections 5.2 and 5.3.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/layers/block.h"
#include "engine/layers/kv.h"

namespace sluice {

struct DecoderShape {
  BlockShape block;
  std::size_t layers = 0;
  std::size_t vocabulary = 0;  // 0: neither embedding nor head (an expert)
  std::size_t positions_max = 0;
  float embedding_scale = 1;
  bool tied = true;  // the head is the embedding
  /// SmolVLA's expert: of so many layers the first attends as usual, the others to the keys and
  /// values that are in the sequence before the forward, projected once more. 0: none.
  std::size_t cross_every = 0;
  bool head = true;  // has a head at all
  Rope rope;
  std::vector<bool> layers_without_rope;  // by layer; empty: all turn their queries and keys

  bool turns(std::size_t layer) const {
    return rope.theta != 0 && (layers_without_rope.empty() || !layers_without_rope[layer]);
  }
};

/// Where the parts stand in a checkpoint. `head` may be the only copy of a tied embedding.
struct DecoderNames {
  std::string embedding;  // "model.embed_tokens"
  std::string layers;     // "model.layers."
  std::string norm;       // "model.norm"
  std::string head;       // "lm_head"
  BlockNames block = BlockNames::llama();
};

/// The matrix whose rows are the tokens'; of a tied one the head may be the only copy.
Linear load_embedding(WeightLoader& load, const SafetensorsFile& file, const DecoderNames& names,
                      const DecoderShape& shape);

enum class Mask : std::uint8_t { causal, block };

/// What the cross layers of an expert read of one sequence: keys and values of all its tokens,
/// projected. Stays right for as long as the sequence is the same up to there.
struct CrossKeys {
  struct Layer {
    std::vector<float> keys, values;  // [tokens, row]; empty: attends as usual
  };
  std::size_t tokens = 0;
  std::vector<Layer> layers;
};

/// What adaptive norms add, for every layer and the last norm: [layers][conditions, 6 * width],
/// and [conditions, 3 * width].
struct Conditions {
  std::vector<std::vector<float>> layers;
  std::vector<float> last;
};

/// New tokens of one sequence. A sequence stands in one chunk of a forward at most.
struct Chunk {
  KvSequence* sequence = nullptr;
  std::span<const float> embeddings;         // [count, width]
  Mask mask = Mask::causal;                  // block: every row sees the whole chunk
  std::span<const std::uint32_t> visible{};  // instead of `mask`: how many tokens each row sees
  std::span<const Position> positions{};     // none: the tokens' places in the sequence
  std::uint32_t condition = 0;               // of an adaptive decoder
  /// Of the tokens before this chunk, for many forwards over one prefix; null: made anew.
  const CrossKeys* across = nullptr;
  const Conditions* conditions = nullptr;  // where `condition` stands; null: in the forward's
};

/// Appends the tokens' rows of an embedding, times `scale`. Requires: tokens within it.
void append_embedded(const kernels::Weight& embedding, float scale,
                     std::span<const std::int32_t> tokens, std::vector<float>& rows);

class Decoder {
 public:
  static Result<Decoder> load(const DecoderShape& shape, const DecoderNames& names,
                              const SafetensorsFile& file,
                              kernels::WeightFormat format = kernels::WeightFormat::exact,
                              WeightArena* arena = nullptr);
  /// No more than `embed` needs: the rest runs on another device.
  static Result<Decoder> load_embedding_alone(
      const DecoderShape& shape, const DecoderNames& names, const SafetensorsFile& file,
      kernels::WeightFormat format = kernels::WeightFormat::exact, WeightArena* arena = nullptr);

  const DecoderShape& shape() const { return shape_; }
  std::size_t width() const { return shape_.block.width; }
  KvShape kv_shape(std::size_t page_tokens, Dtype dtype = Dtype::f32) const {
    return {.layers = shape_.layers,
            .row = shape_.block.kv_heads * shape_.block.head_dim,
            .page_tokens = page_tokens,
            .dtype = dtype};
  }

  /// Called with each layer's number and the rows that enter it; for comparisons.
  using Watch = std::function<void(std::size_t layer, std::span<const float> hidden)>;

  /// Appends each chunk to its sequence and leaves the normed hidden rows in `hidden`, chunk after
  /// chunk. `conditions`: of an adaptive decoder's chunks that bring none. Errors: exhausted
  /// (pages, positions); then no sequence has changed.
  Result<void> forward(KvPool& pool, std::span<const Chunk> chunks, std::vector<float>& hidden,
                       const Conditions* conditions = nullptr, const Watch& watch = {}) const;

  /// The same for keys and values alone: the last layer ends when it has written them.
  Result<void> fill(KvPool& pool, std::span<const Chunk> chunks) const;

  /// Of the sequence's first tokens.
  CrossKeys cross_keys(KvPool& pool, const KvSequence& sequence, std::size_t tokens) const;
  /// True when some layers read `CrossKeys`.
  bool attends_across() const { return shape_.cross_every != 0; }

  /// Appends rows. Requires: tokens within the vocabulary.
  void embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const;
  /// Logits [rows, vocabulary] of hidden rows.
  void logits(std::span<const float> hidden, std::vector<float>& logits) const;
  /// Bytes of weights that one decode step reads.
  std::size_t stream_bytes() const;

 private:
  struct Rows;
  enum class Until : std::uint8_t { keys, rows };
  Result<void> run(KvPool& pool, std::span<const Chunk> chunks, std::vector<float>& hidden,
                   const Conditions* shared, const Watch& watch, Until until) const;
  Result<void> place(KvPool& pool, std::span<const Chunk> chunks, std::vector<float>& hidden,
                     Rows& rows) const;
  /// A row alone goes its own way through the layers (`TokenStep`).
  bool steps_alone(const KvPool& pool) const;
  void step(KvPool& pool, std::span<float> hidden, Rows& rows) const;
  void attend(KvPool& pool, std::span<const Chunk> chunks, Rows& rows) const;
  const Conditions* join_conditions(std::span<const Chunk> chunks, const Conditions* shared,
                                    Rows& rows) const;
  void look_across(KvPool& pool, std::span<const Chunk> chunks, Rows& rows) const;
  void attend_across(std::size_t layer, Rows& rows) const;

  DecoderShape shape_;
  bool narrow_ = false;               // attention's products too
  std::vector<double> frequencies_;   // of RoPE
  kernels::Weight embedding_, head_;  // no head of its own: the embedding's
  std::vector<Block> blocks_;
  Norm norm_;
};

}  // namespace sluice
