#include "engine/layers/decoder.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "engine/layers/page_rows.h"
#include "engine/layers/token_step.h"
#include "kernels/attention.h"
#include "kernels/layout.h"
#include "kernels/parallel.h"

namespace sluice {

/// Scratch of one forward.
struct Decoder::Rows : BlockRows {
  std::vector<std::uint32_t> place;     // in the sequence
  std::vector<std::uint32_t> sequence;  // index of the row's chunk
  std::vector<std::uint32_t> visible;   // tokens the row sees
  std::vector<std::uint32_t> condition;
  std::vector<Position> positions;  // of a chunk
  PageRows pages;
  std::vector<KvSequence*> sequences;    // of the chunks
  std::vector<float> last;               // normed
  std::vector<RopeTable> of_chunk;       // of all tokens of each sequence, for keys before RoPE
  std::vector<std::vector<float>> keys;  // of a layer, gathered and turned
  std::vector<CrossKeys> made;           // for chunks that bring none
  std::vector<const CrossKeys*> across;  // of each chunk
  Conditions joined;                     // of chunks that bring tables of their own
  kernels::FewRowsProduct product;       // of a row alone
  /// Vectors keep their memory.
  void clear();
  /// Page tables of the chunks, which stay as they are for all layers.
  void lay_out(KvPool& pool, std::span<const Chunk> chunks);
};

void Decoder::Rows::lay_out(KvPool& pool, std::span<const Chunk> chunks) {
  sequences.clear();
  for (const Chunk& chunk : chunks) sequences.push_back(chunk.sequence);
  pages.lay_out(pool, sequences, sequence, place);
}

void Decoder::Rows::clear() {
  place.clear();
  sequence.clear();
  visible.clear();
  condition.clear();
  for (RopeTable* table : {&rope, &cross_rope}) {
    table->cosine.clear();
    table->sine.clear();
  }
  of_chunk.clear();
  made.clear();
  across.clear();
}

Linear load_embedding(WeightLoader& load, const SafetensorsFile& file, const DecoderNames& names,
                      const DecoderShape& shape) {
  const bool of_its_own = file.find(names.embedding + ".weight") != nullptr || !shape.tied;
  return load.linear(of_its_own ? names.embedding : names.head, shape.vocabulary, shape.block.width,
                     false);
}

Result<Decoder> Decoder::load(const DecoderShape& shape, const DecoderNames& names,
                              const SafetensorsFile& file, kernels::WeightFormat format,
                              WeightArena* arena) {
  Decoder made;
  made.shape_ = shape;
  made.narrow_ = format != kernels::WeightFormat::exact;
  made.frequencies_ = rope_frequencies(shape.rope, shape.block.head_dim);
  WeightLoader load(file, format, arena);
  if (shape.vocabulary != 0) {
    made.embedding_ = load_embedding(load, file, names, shape).weight;
    if (!shape.tied && shape.head)
      made.head_ = load.linear(names.head, shape.vocabulary, shape.block.width, false).weight;
  }
  for (std::size_t i = 0; i < shape.layers; ++i)
    made.blocks_.push_back(Block::load(load, shape.block, names.block,
                                       names.layers + std::to_string(i) + ".",
                                       shape.cross_every != 0 && i % shape.cross_every != 0));
  if (!shape.block.adaptive)
    made.norm_ = load.norm(names.norm, shape.block.width, shape.block.norm == NormKind::layer,
                           shape.block.norm_plus_one);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

Result<Decoder> Decoder::load_embedding_alone(const DecoderShape& shape, const DecoderNames& names,
                                              const SafetensorsFile& file,
                                              kernels::WeightFormat format, WeightArena* arena) {
  Decoder made;
  made.shape_ = shape;
  WeightLoader load(file, format, arena);
  made.embedding_ = load_embedding(load, file, names, shape).weight;
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

std::size_t Decoder::stream_bytes() const {
  std::size_t bytes = shape_.tied ? embedding_.stream_bytes() : head_.stream_bytes();
  for (const Block& block : blocks_) bytes += block.stream_bytes();
  return bytes;
}

void append_embedded(const kernels::Weight& embedding, float scale,
                     std::span<const std::int32_t> tokens, std::vector<float>& rows) {
  for (const std::int32_t token : tokens) {
    SLUICE_CHECK(token >= 0 && static_cast<std::size_t>(token) < embedding.out(),
                 "a token outside the vocabulary");
    const std::size_t at = rows.size();
    rows.resize(at + embedding.in());
    embedding.read_row(static_cast<std::size_t>(token), std::span(rows).subspan(at));
    for (std::size_t i = at; i < rows.size(); ++i) rows[i] *= scale;
  }
}

void Decoder::embed(std::span<const std::int32_t> tokens, std::vector<float>& rows) const {
  append_embedded(embedding_, shape_.embedding_scale, tokens, rows);
}

void Decoder::logits(std::span<const float> hidden, std::vector<float>& logits) const {
  const std::size_t rows = hidden.size() / width();
  logits.resize(rows * shape_.vocabulary);
  kernels::matmul_cpu(hidden, shape_.tied ? embedding_ : head_, {}, logits, rows);
}

Result<void> Decoder::place(KvPool& pool, std::span<const Chunk> chunks, std::vector<float>& hidden,
                            Rows& rows) const {
  hidden.clear();
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const std::size_t count = chunk.embeddings.size() / width();
    const std::size_t before = chunk.sequence->tokens();
    Result<void> extended =
        before + count > shape_.positions_max
            ? Error{ErrorCode::exhausted,
                    "the sequence would have more than " + std::to_string(shape_.positions_max) +
                        " tokens, the most that the model reads: ask for less, or start a new "
                        "session"}
            : pool.extend(*chunk.sequence, count);
    if (!extended.ok()) {
      for (std::size_t back = 0; back < c; ++back)
        pool.truncate(*chunks[back].sequence,
                      chunks[back].sequence->tokens() - chunks[back].embeddings.size() / width());
      return extended;
    }
    std::vector<Position>& positions = rows.positions;
    positions.assign(chunk.positions.begin(), chunk.positions.end());
    for (std::size_t i = 0; i < count; ++i) {
      rows.place.push_back(static_cast<std::uint32_t>(before + i));
      rows.sequence.push_back(static_cast<std::uint32_t>(c));
      rows.condition.push_back(chunk.condition);
      rows.visible.push_back(
          !chunk.visible.empty()
              ? chunk.visible[i]
              : static_cast<std::uint32_t>(before + (chunk.mask == Mask::block ? count : i + 1)));
      if (chunk.positions.empty())
        positions.push_back(Position::at(static_cast<std::int32_t>(before + i)));
    }
    append_rope(shape_.rope, frequencies_, positions, rows.rope);
    if (pool.shape().keys_before_rope) {
      KvSequence& sequence = *chunk.sequence;
      sequence.positions.insert(sequence.positions.end(), positions.begin(), positions.end());
      append_rope(shape_.rope, frequencies_, sequence.positions, rows.of_chunk.emplace_back());
    }
    if (shape_.cross_every != 0) {
      for (std::size_t i = 0; i < count; ++i)
        positions[i] = Position::at(static_cast<std::int32_t>(i));
      append_rope(shape_.rope, frequencies_, positions, rows.cross_rope);
    }
    hidden.insert(hidden.end(), chunk.embeddings.begin(), chunk.embeddings.end());
  }
  rows.count = rows.place.size();
  return {};
}

void Decoder::attend(KvPool& pool, std::span<const Chunk> chunks, Rows& rows) const {
  rows.mixed.resize(rows.q.size());
  const BlockShape& block = shape_.block;
  const std::size_t page_tokens = pool.shape().page_tokens;
  const kernels::AttentionShape shape{block.heads, block.kv_heads, block.head_dim, page_tokens,
                                      narrow_};
  if (!pool.shape().keys_before_rope || !rows.turns)
    return rows.pages.attend(shape, rows.q, rows.sequence, rows.visible, rows.mixed);
  const std::size_t width = pool.shape().row;
  rows.keys.resize(chunks.size());
  std::vector<std::vector<const float*>> keys(chunks.size()), values(chunks.size());
  std::vector<kernels::PagedSequence> turned;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const kernels::PagedSequence& stored = rows.pages.tables()[c];
    for (std::size_t page = 0; page < stored.keys.size(); ++page) {
      keys[c].push_back(stored.keys[page] + stored.offset);
      values[c].push_back(stored.values[page] + stored.offset);
    }
    // Whole pages, so that values stay where they are.
    rows.keys[c].resize(keys[c].size() * page_tokens * width);
    const auto there = std::span(rows.keys[c]).first(chunks[c].sequence->tokens() * width);
    kernels::pages_to_rows_cpu(keys[c], page_tokens, width, there);
    kernels::rotate_keys_cpu(there, block.kv_heads, block.head_dim, rows.of_chunk[c].cosine,
                             rows.of_chunk[c].sine);
    for (std::size_t page = 0; page < keys[c].size(); ++page)
      keys[c][page] = &rows.keys[c][page * page_tokens * width];
    turned.push_back({keys[c], values[c]});
  }
  kernels::attention_cpu(shape, rows.q, rows.sequence, rows.visible, turned, rows.mixed);
}

CrossKeys Decoder::cross_keys(KvPool& pool, const KvSequence& sequence, std::size_t tokens) const {
  const std::size_t width = pool.shape().row;
  CrossKeys made;
  made.tokens = tokens;
  made.layers.resize(blocks_.size());
  std::vector<float> keys(tokens * width), values(tokens * width);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    if (!block.is_cross()) continue;
    pool.read(sequence, layer, keys, values);
    apply(block.cross_k, keys, made.layers[layer].keys);
    apply(block.cross_v, values, made.layers[layer].values);
  }
  return made;
}

void Decoder::look_across(KvPool& pool, std::span<const Chunk> chunks, Rows& rows) const {
  rows.made.resize(chunks.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const KvSequence& sequence = *chunks[c].sequence;
    const std::size_t before = sequence.tokens() - chunks[c].embeddings.size() / width();
    if (chunks[c].across == nullptr) rows.made[c] = cross_keys(pool, sequence, before);
    rows.across.push_back(chunks[c].across != nullptr ? chunks[c].across : &rows.made[c]);
    SLUICE_CHECK(rows.across[c]->tokens == before, "cross keys of another prefix");
  }
}

void Decoder::attend_across(std::size_t layer, Rows& rows) const {
  const std::vector<const CrossKeys*>& across = rows.across;
  std::vector<const float*> keys(across.size()), values(across.size());
  std::vector<kernels::PagedSequence> sequences;
  std::size_t longest = 1;
  for (std::size_t c = 0; c < across.size(); ++c) {
    keys[c] = across[c]->layers[layer].keys.data();
    values[c] = across[c]->layers[layer].values.data();
    sequences.push_back({{&keys[c], 1}, {&values[c], 1}});
    longest = std::max(longest, across[c]->tokens);
  }
  std::vector<std::uint32_t> visible;
  for (const std::uint32_t c : rows.sequence)
    visible.push_back(static_cast<std::uint32_t>(across[c]->tokens));
  rows.mixed.resize(rows.q.size());
  const BlockShape& block = shape_.block;
  kernels::attention_cpu({block.heads, block.kv_heads, block.head_dim, longest, narrow_}, rows.q,
                         rows.sequence, visible, sequences, rows.mixed);
}

/// One table for all rows: the chunks' own where they have the same one, else a condition of each
/// chunk. Requires: the rows are placed.
const Conditions* Decoder::join_conditions(std::span<const Chunk> chunks, const Conditions* shared,
                                           Rows& rows) const {
  const auto table_of = [&](const Chunk& chunk) {
    return chunk.conditions != nullptr ? chunk.conditions : shared;
  };
  const bool same = std::ranges::all_of(
      chunks, [&](const Chunk& chunk) { return table_of(chunk) == table_of(chunks.front()); });
  if (same) return chunks.empty() ? shared : table_of(chunks.front());
  Conditions& joined = rows.joined;
  joined.layers.resize(blocks_.size());
  const auto copy = [&](const std::vector<float>& from, std::size_t condition, std::size_t count,
                        std::size_t chunk, std::vector<float>& to) {
    to.resize(chunks.size() * count);
    std::copy_n(&from[condition * count], count, &to[chunk * count]);
  };
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Conditions* table = table_of(chunks[c]);
    SLUICE_CHECK(table != nullptr, "some chunks of a forward have a condition, others none");
    for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
      copy(table->layers[layer], chunks[c].condition, 6 * width(), c, joined.layers[layer]);
    copy(table->last, chunks[c].condition, 3 * width(), c, joined.last);
  }
  rows.condition = rows.sequence;
  return &joined;
}

bool Decoder::steps_alone(const KvPool& pool) const {
  return TokenStep::runs(shape_.block) && !attends_across() && !pool.shape().keys_before_rope;
}

void Decoder::step(KvPool& pool, std::span<float> hidden, Rows& rows) const {
  const BlockShape& block = shape_.block;
  const kernels::AttentionShape attention{block.heads, block.kv_heads, block.head_dim,
                                          pool.shape().page_tokens, narrow_};
  TokenStep step({block, attention, blocks_, shape_.layers_without_rope, kernels::thread_count(),
                  rows.visible.front(), hidden, rows, rows.pages, rows.product});
  const auto next = [&] { return step.next(); };
  kernels::parallel_relay(next, [&](std::size_t begin, std::size_t end) { step.part(begin, end); });
}

Result<void> Decoder::run(KvPool& pool, std::span<const Chunk> chunks, std::vector<float>& hidden,
                          const Conditions* shared, const Watch& watch, Until until) const {
  SLUICE_CHECK(blocks_.size() == shape_.layers, "only the embedding of this decoder is here");
  // Kept from call to call: a prefill's rows are tens of megabytes, which would be cleared anew.
  thread_local Rows rows;
  rows.clear();
  rows.keys_unrotated = pool.shape().keys_before_rope;
  if (rows.keys_unrotated && shape_.cross_every != 0)
    return invalid_argument("an expert that attends across reads keys after RoPE");
  if (rows.keys_unrotated && pool.shape().dtype != Dtype::f32)
    return invalid_argument("keys before RoPE are kept in f32");
  if (Result<void> placed = place(pool, chunks, hidden, rows); !placed.ok()) return placed;
  const Conditions* conditions = join_conditions(chunks, shared, rows);
  SLUICE_CHECK((conditions != nullptr) == shape_.block.adaptive,
               "an adaptive decoder, and no other, takes a condition");
  if (attends_across()) look_across(pool, chunks, rows);
  rows.lay_out(pool, chunks);
  if (rows.count == 1 && until == Until::rows && !watch && steps_alone(pool)) {
    step(pool, hidden, rows);
    rows.last.resize(hidden.size());
    apply_norm(shape_.block.norm, norm_, shape_.block.eps, width(), hidden, rows.last);
    hidden.swap(rows.last);
    return {};
  }
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    if (watch) watch(layer, hidden);
    rows.pages.enter(layer, rows.k, rows.v);
    rows.turns = shape_.turns(layer);
    Modulation modulation;
    if (conditions != nullptr) modulation = {conditions->layers[layer], rows.condition};
    const Modulation* adaptive = conditions != nullptr ? &modulation : nullptr;
    blocks_[layer].project(shape_.block, hidden, adaptive, rows);
    if (!blocks_[layer].is_cross()) rows.pages.store();
    if (until == Until::keys && layer + 1 == blocks_.size()) return {};
    if (blocks_[layer].is_cross())
      attend_across(layer, rows);
    else
      attend(pool, chunks, rows);
    blocks_[layer].finish(shape_.block, hidden, adaptive, rows);
  }
  rows.last.resize(hidden.size());
  apply_norm(shape_.block.norm, norm_, shape_.block.eps, width(), hidden, rows.last);
  hidden.swap(rows.last);
  if (conditions == nullptr) return {};
  for (std::size_t row = 0; row < rows.count; ++row) {
    const auto last = std::span(conditions->last).subspan(rows.condition[row] * 3 * width());
    kernels::modulate_cpu(std::span(hidden).subspan(row * width(), width()), last.first(width()),
                          last.subspan(width(), width()));
  }
  return {};
}

Result<void> Decoder::fill(KvPool& pool, std::span<const Chunk> chunks) const {
  std::vector<float> hidden;
  return run(pool, chunks, hidden, nullptr, {}, Until::keys);
}

Result<void> Decoder::forward(KvPool& pool, std::span<const Chunk> chunks,
                              std::vector<float>& hidden, const Conditions* conditions,
                              const Watch& watch) const {
  return run(pool, chunks, hidden, conditions, watch, Until::rows);
}

}  // namespace sluice
