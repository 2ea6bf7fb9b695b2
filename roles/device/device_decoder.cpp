#include "roles/device/device_decoder.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "base/check.h"
#include "roles/device/device_block.h"

namespace sluice {

namespace {

using device::Bf16;
using device::Memory;

/// Parts that a sequence is cut into when few rows attend: enough blocks for a whole GPU.
constexpr std::size_t splits_few_rows = 16;
constexpr std::size_t rows_few = 32;

/// What a forward of `rows` rows of `sequences` sequences needs on the device.
struct Needs {
  std::size_t rows = 0, sequences = 0, pages_max = 0, choices = 0, history = 0, modulation = 0;

  bool covers(const Needs& other) const {
    return rows >= other.rows && sequences >= other.sequences && pages_max >= other.pages_max &&
           choices >= other.choices && history >= other.history && modulation >= other.modulation;
  }
  /// At least both; powers of two, so that growing ends.
  Needs with(const Needs& other) const {
    const auto up = [](std::size_t a, std::size_t b) { return std::bit_ceil(std::max(a, b)); };
    return {up(rows, other.rows),           up(sequences, other.sequences),
            up(pages_max, other.pages_max), up(choices, other.choices),
            up(history, other.history),     up(modulation, other.modulation)};
  }
};

struct Buffers {
  Memory hidden, normed, qkv, q, mixed, branch, inner, activated;  // rows
  Memory cosine, sine, sequence, place, visible, condition;        // of rows
  Memory modulation;  // of adaptive norms: layer by layer, then the last norm's
  Memory runs, pages, scratch;
  Memory logits, tokens, next, options, history;  // of choices
};

/// The host's side of the same, filled anew for each forward.
struct Staging {
  RopeTable rope;
  std::vector<std::uint32_t> sequence, place, visible, condition, pages;
  std::vector<device::RowRun> runs;
  std::size_t run_rows_max = 0;
};

template <typename T>
class Impl final : public DeviceDecoder {
 public:
  Impl(const DecoderShape& shape, device::Stream stream, std::unique_ptr<device::Products> products)
      : shape_(shape), stream_(stream), products_(std::move(products)) {}
  ~Impl() override { device::free_stream(stream_); }

  Result<void> load(const DecoderNames& names, const SafetensorsFile& file);
  const DecoderShape& shape() const override { return shape_; }
  Result<DeviceKv> make_kv(std::size_t page_tokens, std::size_t pages) const override;
  Result<void> forward(DeviceKv& kv, std::span<const Chunk> chunks, std::vector<float>& hidden,
                       const Conditions* conditions) override;
  Result<void> logits(std::span<const float> hidden, std::vector<float>& logits) override;
  Result<void> step(DeviceKv& kv, std::span<const DecodeStep> steps,
                    std::vector<std::int32_t>& next) override;

 private:
  const BlockShape& block() const { return shape_.block; }
  const DeviceLinear& head() const { return shape_.tied ? embedding_ : head_; }
  Result<void> grow(const Needs& needs);
  Result<void> place(DeviceKv& kv, std::span<const Chunk> chunks, Staging& staging) const;
  void upload(const Staging& staging);
  device::Places places() const;
  template <typename U>
  Result<void> apply(const DeviceLinear& linear, const T* x, U* y, std::size_t rows);
  std::size_t upload(const Conditions& conditions);
  device::Modulated modulated(std::size_t layer, std::size_t norm) const;
  Result<void> run_layers(DeviceKv& kv, std::size_t rows, std::size_t runs,
                          std::size_t run_rows_max);
  Result<void> run_layer(const device::Pages<T>& pages, std::size_t layer, std::size_t rows,
                         std::size_t runs, std::size_t run_rows_max);
  Result<void> run_step(DeviceKv& kv, std::size_t count);
  void upload_choices(std::span<const DecodeStep> steps);

  DecoderShape shape_;
  device::Stream stream_;
  std::unique_ptr<device::Products> products_;
  DeviceLinear embedding_, head_;
  std::vector<DeviceBlock> blocks_;
  DeviceNorm norm_;
  Needs has_;
  std::size_t conditions_ = 0;  // of the forward that runs; 0: norms are not adaptive
  Buffers b_;
  /// What a step of so many sequences does over one pool; null: done once, not yet recorded.
  std::map<std::pair<std::size_t, const void*>, std::unique_ptr<device::Graph>> recorded_;
};

template <typename T>
Result<void> Impl<T>::load(const DecoderNames& names, const SafetensorsFile& file) {
  constexpr bool narrow = std::is_same_v<T, Bf16>;
  WeightLoader loader(file, narrow ? kernels::WeightFormat::bf16 : kernels::WeightFormat::exact);
  Uploader up(stream_, narrow);
  const std::size_t width = block().width;
  const bool has_embedding = file.find(names.embedding + ".weight") != nullptr || !shape_.tied;
  const bool speaks = shape_.vocabulary != 0;
  if (speaks)
    embedding_ = up.linear(loader.linear(has_embedding ? names.embedding : names.head,
                                         shape_.vocabulary, width, false));
  if (speaks && !shape_.tied)
    head_ = up.linear(loader.linear(names.head, shape_.vocabulary, width, false));
  // Layer by layer: the host never holds the whole model.
  for (std::size_t i = 0; i < shape_.layers; ++i)
    blocks_.push_back(up.block(
        Block::load(loader, block(), names.block, names.layers + std::to_string(i) + ".")));
  if (!block().adaptive)
    norm_ = up.norm(
        loader.norm(names.norm, width, block().norm == NormKind::layer, block().norm_plus_one));
  if (Result<void> loaded = loader.outcome(); !loaded.ok()) return loaded;
  return up.outcome();
}

template <typename T>
Result<DeviceKv> Impl<T>::make_kv(std::size_t page_tokens, std::size_t pages) const {
  const KvShape kv{shape_.layers, block().kv_heads * block().head_dim, page_tokens};
  Result<Memory> store = Memory::allocate(kv.page_floats() * pages * sizeof(T));
  if (!store.ok()) return store.error();
  return DeviceKv{KvPages(kv, pages), std::move(store).value()};
}

template <typename T>
Result<void> Impl<T>::grow(const Needs& needs) {
  if (has_.covers(needs)) return {};
  const Needs n = has_.with(needs);
  recorded_.clear();  // they hold the old addresses
  Result<void> outcome;
  const auto make = [&](Memory& memory, std::size_t bytes) {
    if (!outcome.ok()) return;
    memory = Memory();
    Result<Memory> made = Memory::allocate(std::max<std::size_t>(bytes, 16));
    if (made.ok())
      memory = std::move(made).value();
    else
      outcome = made.error();
  };
  const std::size_t heads = block().heads * block().head_dim;
  const std::size_t inner = block().mlp * (block().gated ? 2 : 1);
  make(b_.hidden, n.rows * block().width * sizeof(float));
  make(b_.normed, n.rows * block().width * sizeof(T));
  make(b_.branch, n.rows * block().width * sizeof(T));
  make(b_.qkv, n.rows * block().head_shape().row() * sizeof(T));
  make(b_.q, n.rows * heads * sizeof(T));
  make(b_.mixed, n.rows * heads * sizeof(T));
  make(b_.inner, n.rows * inner * sizeof(T));
  make(b_.activated, n.rows * block().mlp * sizeof(T));
  for (Memory* table : {&b_.cosine, &b_.sine})
    make(*table, n.rows * block().head_dim / 2 * sizeof(float));
  for (Memory* numbers : {&b_.sequence, &b_.place, &b_.visible, &b_.condition})
    make(*numbers, n.rows * sizeof(std::uint32_t));
  make(b_.modulation, n.modulation * sizeof(float));
  make(b_.runs, n.sequences * sizeof(device::RowRun));
  make(b_.pages, n.sequences * n.pages_max * sizeof(std::uint32_t));
  const std::size_t few = std::min(n.rows, rows_few);
  make(b_.scratch, std::max(device::attention_scratch(block().head_shape(), n.rows, 1),
                            device::attention_scratch(block().head_shape(), few, splits_few_rows)) *
                       sizeof(float));
  make(b_.logits, n.choices * shape_.vocabulary * sizeof(float));
  make(b_.tokens, n.choices * sizeof(std::int32_t));
  make(b_.next, n.choices * sizeof(std::int32_t));
  make(b_.options, n.choices * sizeof(device::SampleRow));
  make(b_.history, n.history * sizeof(std::int32_t));
  has_ = outcome.ok() ? n : Needs();
  return outcome;
}

template <typename T>
Result<void> Impl<T>::place(DeviceKv& kv, std::span<const Chunk> chunks, Staging& staging) const {
  std::size_t pages_max = 0;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const Chunk& chunk = chunks[c];
    const std::size_t count = chunk.embeddings.size() / block().width;
    const std::size_t before = chunk.sequence->tokens;
    Result<void> extended =
        before + count > shape_.positions_max
            ? Error{ErrorCode::exhausted,
                    "the sequence would have " + std::to_string(before + count) +
                        " tokens, the model reads " + std::to_string(shape_.positions_max)}
            : kv.pages.extend(*chunk.sequence, count);
    if (!extended.ok()) {
      for (std::size_t back = 0; back < c; ++back)
        kv.pages.truncate(
            *chunks[back].sequence,
            chunks[back].sequence->tokens - chunks[back].embeddings.size() / block().width);
      return extended;
    }
    std::vector<Position> positions(chunk.positions.begin(), chunk.positions.end());
    staging.runs.push_back(
        {static_cast<std::uint32_t>(staging.place.size()), static_cast<std::uint32_t>(count)});
    for (std::size_t i = 0; i < count; ++i) {
      staging.place.push_back(static_cast<std::uint32_t>(before + i));
      staging.sequence.push_back(static_cast<std::uint32_t>(c));
      staging.condition.push_back(chunk.condition);
      staging.visible.push_back(
          !chunk.visible.empty()
              ? chunk.visible[i]
              : static_cast<std::uint32_t>(before + (chunk.mask == Mask::block ? count : i + 1)));
      if (chunk.positions.empty())
        positions.push_back(Position::at(static_cast<std::int32_t>(before + i)));
    }
    append_rope(shape_.rope, block().head_dim, positions, staging.rope);
    staging.run_rows_max = std::max(staging.run_rows_max, count);
    pages_max = std::max(pages_max, chunk.sequence->pages.size());
  }
  // Room to grow by whole steps, so that a recording lives long.
  pages_max = std::bit_ceil(std::max(pages_max, has_.pages_max));
  staging.pages.assign(chunks.size() * pages_max, 0);
  for (std::size_t c = 0; c < chunks.size(); ++c)
    std::ranges::copy(chunks[c].sequence->pages,
                      staging.pages.begin() + static_cast<std::ptrdiff_t>(c * pages_max));
  return {};
}

template <typename T>
void Impl<T>::upload(const Staging& staging) {
  const auto put = [&](const Memory& to, const auto& values) {
    device::copy_in(to.as<void>(), values.data(), values.size() * sizeof(values[0]), stream_);
  };
  put(b_.cosine, staging.rope.cosine);
  put(b_.sine, staging.rope.sine);
  put(b_.sequence, staging.sequence);
  put(b_.place, staging.place);
  put(b_.visible, staging.visible);
  put(b_.condition, staging.condition);
  put(b_.runs, staging.runs);
  put(b_.pages, staging.pages);
}

/// How many conditions there are.
template <typename T>
std::size_t Impl<T>::upload(const Conditions& conditions) {
  std::vector<float> all;
  for (const std::vector<float>& layer : conditions.layers)
    all.insert(all.end(), layer.begin(), layer.end());
  all.insert(all.end(), conditions.last.begin(), conditions.last.end());
  device::copy_in(b_.modulation.as<void>(), all.data(), all.size() * sizeof(float), stream_);
  return conditions.last.size() / (3 * block().width);
}

/// `layer` behind the last one: the last norm's, which has one part only.
template <typename T>
device::Modulated Impl<T>::modulated(std::size_t layer, std::size_t norm) const {
  if (conditions_ == 0) return {};
  const std::size_t width = block().width;
  const float* values = b_.modulation.as<float>() + layer * conditions_ * 6 * width;
  const bool last = layer == shape_.layers;
  return {values + norm * 3 * width, b_.condition.as<std::uint32_t>(), (last ? 3 : 6) * width};
}

template <typename T>
device::Places Impl<T>::places() const {
  return {b_.sequence.as<std::uint32_t>(), b_.place.as<std::uint32_t>(),
          b_.visible.as<std::uint32_t>(), b_.pages.as<std::uint32_t>(), has_.pages_max};
}

template <typename T>
template <typename U>
Result<void> Impl<T>::apply(const DeviceLinear& linear, const T* x, U* y, std::size_t rows) {
  const float* bias = linear.bias.as<float>();
  const T* weight = linear.weight.as<T>();
  if (rows <= device::matvec_rows) {
    device::matvec(x, weight, bias, y, rows, linear.out, linear.in, stream_);
    return {};
  }
  Result<void> done = products_->multiply(x, weight, y, rows, linear.out, linear.in, stream_);
  if (done.ok()) device::add_bias(y, bias, rows, linear.out, stream_);
  return done;
}

template <typename T>
Result<void> Impl<T>::run_layer(const device::Pages<T>& pages, std::size_t layer, std::size_t rows,
                                std::size_t runs, std::size_t run_rows_max) {
  const DeviceBlock& weights = blocks_[layer];
  const BlockShape& s = block();
  const bool rms = s.norm == NormKind::rms;
  auto* hidden = b_.hidden.as<float>();
  T* normed = b_.normed.as<T>();
  T* branch = b_.branch.as<T>();
  const auto norm = [&](const DeviceNorm& n, std::size_t which) {
    const float eps = which == 1 && s.eps2 != 0 ? s.eps2 : s.eps;
    device::norm_rows(hidden, rows, s.width, rms, n.weight.as<float>(), n.bias.as<float>(), eps,
                      modulated(layer, which), normed, stream_);
  };
  norm(weights.norm1, 0);
  if (auto done = apply(weights.qkv, normed, b_.qkv.as<T>(), rows); !done.ok()) return done;
  const bool turns = shape_.rope.theta != 0;
  device::rotate_and_store(
      s.head_shape(), b_.qkv.as<T>(), rows, turns ? b_.cosine.as<float>() : nullptr,
      turns ? b_.sine.as<float>() : nullptr, b_.q.as<T>(), pages, layer, places(), stream_);
  device::attention(s.head_shape(), b_.q.as<T>(), rows, b_.runs.as<device::RowRun>(), runs,
                    run_rows_max, pages, layer, places(), rows <= rows_few ? splits_few_rows : 1,
                    b_.scratch.as<float>(), b_.mixed.as<T>(), stream_);
  if (auto done = apply(weights.out, b_.mixed.as<T>(), branch, rows); !done.ok()) return done;
  device::add_rows(hidden, branch, rows, s.width, weights.scale1.as<float>(), modulated(layer, 0),
                   stream_);
  norm(weights.norm2, 1);
  if (auto done = apply(weights.up, normed, b_.inner.as<T>(), rows); !done.ok()) return done;
  T* activated = s.gated ? b_.activated.as<T>() : b_.inner.as<T>();
  if (s.gated)
    device::gated(s.activation, b_.inner.as<T>(), rows, s.mlp, activated, stream_);
  else
    device::activate(s.activation, activated, rows * s.mlp, stream_);
  if (auto done = apply(weights.down, activated, branch, rows); !done.ok()) return done;
  device::add_rows(hidden, branch, rows, s.width, weights.scale2.as<float>(), modulated(layer, 1),
                   stream_);
  return {};
}

template <typename T>
Result<void> Impl<T>::run_layers(DeviceKv& kv, std::size_t rows, std::size_t runs,
                                 std::size_t run_rows_max) {
  const device::Pages<T> pages{kv.store.as<T>(), shape_.layers, kv.pages.shape().row,
                               kv.pages.shape().page_tokens};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    if (auto done = run_layer(pages, layer, rows, runs, run_rows_max); !done.ok()) return done;
  return {};
}

template <typename T>
Result<void> Impl<T>::forward(DeviceKv& kv, std::span<const Chunk> chunks,
                              std::vector<float>& hidden, const Conditions* conditions) {
  SLUICE_CHECK((conditions != nullptr) == block().adaptive,
               "an adaptive decoder, and no other, takes a condition");
  Staging staging;
  if (Result<void> placed = place(kv, chunks, staging); !placed.ok()) return placed;
  const std::size_t rows = staging.place.size();
  if (rows == 0) return {};
  const std::size_t pages_max = staging.pages.size() / chunks.size();
  const std::size_t modulation =
      conditions == nullptr ? 0 : conditions->last.size() * (2 * conditions->layers.size() + 1);
  if (auto grown = grow({rows, chunks.size(), pages_max, 1, 1, modulation}); !grown.ok())
    return grown;
  SLUICE_CHECK(has_.pages_max == pages_max, "page tables are as wide as the buffers");
  upload(staging);
  conditions_ = conditions != nullptr ? upload(*conditions) : 0;
  std::size_t at = 0;
  for (const Chunk& chunk : chunks) {
    device::copy_in(b_.hidden.as<float>() + at, chunk.embeddings.data(),
                    chunk.embeddings.size_bytes(), stream_);
    at += chunk.embeddings.size();
  }
  if (auto done = run_layers(kv, rows, chunks.size(), staging.run_rows_max); !done.ok())
    return done;
  // The last norm in f32, into the rows themselves: a row is read whole before it is written.
  device::norm_rows(b_.hidden.as<float>(), rows, block().width, block().norm == NormKind::rms,
                    norm_.weight.as<float>(), norm_.bias.as<float>(), block().eps,
                    modulated(shape_.layers, 0), b_.hidden.as<float>(), stream_);
  hidden.resize(rows * block().width);
  device::copy_out(hidden.data(), b_.hidden.as<float>(), hidden.size() * sizeof(float), stream_);
  return device::synchronise(stream_);
}

template <typename T>
Result<void> Impl<T>::logits(std::span<const float> hidden, std::vector<float>& logits) {
  SLUICE_CHECK(shape_.vocabulary != 0, "a decoder without a vocabulary has no logits");
  const std::size_t rows = hidden.size() / block().width;
  if (auto grown = grow({rows, 1, 1, rows, 1, 0}); !grown.ok()) return grown;
  std::vector<T> narrowed(hidden.size());
  for (std::size_t i = 0; i < hidden.size(); ++i)
    if constexpr (std::is_same_v<T, Bf16>)
      narrowed[i] = device::narrow(hidden[i]);
    else
      narrowed[i] = hidden[i];
  device::copy_in(b_.normed.as<T>(), narrowed.data(), narrowed.size() * sizeof(T), stream_);
  if (auto done = apply(head(), b_.normed.as<T>(), b_.logits.as<float>(), rows); !done.ok())
    return done;
  logits.resize(rows * shape_.vocabulary);
  device::copy_out(logits.data(), b_.logits.as<float>(), logits.size() * sizeof(float), stream_);
  return device::synchronise(stream_);
}

template <typename T>
void Impl<T>::upload_choices(std::span<const DecodeStep> steps) {
  std::vector<std::int32_t> tokens, history;
  std::vector<device::SampleRow> options;
  for (const DecodeStep& step : steps) {
    const auto begin = static_cast<std::uint32_t>(history.size());
    history.insert(history.end(), step.history.begin(), step.history.end());
    tokens.push_back(step.token);
    options.push_back({step.sampling.temperature, step.sampling.top_p, step.sampling.min_p,
                       step.sampling.repetition_penalty,
                       static_cast<std::uint32_t>(step.sampling.top_k), begin,
                       static_cast<std::uint32_t>(history.size()), step.uniform});
  }
  device::copy_in(b_.tokens.as<void>(), tokens.data(), tokens.size() * sizeof(std::int32_t),
                  stream_);
  device::copy_in(b_.options.as<void>(), options.data(), options.size() * sizeof(options[0]),
                  stream_);
  device::copy_in(b_.history.as<void>(), history.data(), history.size() * sizeof(std::int32_t),
                  stream_);
}

/// From tokens to the next ones; everything it reads is in the buffers.
template <typename T>
Result<void> Impl<T>::run_step(DeviceKv& kv, std::size_t count) {
  device::embed(embedding_.weight.as<T>(), b_.tokens.as<std::int32_t>(), count, block().width,
                shape_.embedding_scale, b_.hidden.as<float>(), stream_);
  if (auto done = run_layers(kv, count, count, 1); !done.ok()) return done;
  device::norm_rows(b_.hidden.as<float>(), count, block().width, block().norm == NormKind::rms,
                    norm_.weight.as<float>(), norm_.bias.as<float>(), block().eps, {},
                    b_.normed.as<T>(), stream_);
  if (auto done = apply(head(), b_.normed.as<T>(), b_.logits.as<float>(), count); !done.ok())
    return done;
  device::sample(b_.logits.as<float>(), count, shape_.vocabulary,
                 b_.options.as<device::SampleRow>(), b_.history.as<std::int32_t>(),
                 b_.next.as<std::int32_t>(), stream_);
  return {};
}

template <typename T>
Result<void> Impl<T>::step(DeviceKv& kv, std::span<const DecodeStep> steps,
                           std::vector<std::int32_t>& next) {
  const std::vector<float> no_rows(block().width);  // `place` counts them; the device has them
  std::vector<Chunk> chunks;
  std::size_t history = 0;
  for (const DecodeStep& step : steps) {
    if (step.token < 0 || static_cast<std::size_t>(step.token) >= shape_.vocabulary)
      return invalid_argument("token " + std::to_string(step.token) +
                              " is outside the vocabulary of " + std::to_string(shape_.vocabulary));
    if (!step.sampling.bias.empty())
      return invalid_argument("a bias of logits is not supported on the device");
    chunks.push_back({step.sequence, no_rows, Mask::causal, {}, {&step.position, 1}});
    history += step.history.size();
  }
  if (steps.empty()) return {};
  Staging staging;
  if (Result<void> placed = place(kv, chunks, staging); !placed.ok()) return placed;
  const std::size_t count = steps.size();
  if (auto grown = grow(
          {count, count, staging.pages.size() / count, count, std::max<std::size_t>(history, 1)});
      !grown.ok())
    return grown;
  upload(staging);
  upload_choices(steps);
  const std::pair<std::size_t, const void*> key{count, kv.store.as<void>()};
  const auto known = recorded_.find(key);
  if (known == recorded_.end() || !device::records()) {
    // The first time everything is chosen and set up, which a recording must not do.
    if (auto done = run_step(kv, count); !done.ok()) return done;
    recorded_.try_emplace(key);
  } else {
    if (known->second == nullptr) {
      device::begin_recording(stream_);
      const Result<void> ran = run_step(kv, count);
      auto graph = device::end_recording(stream_);
      if (!ran.ok()) return ran;
      if (!graph.ok()) return graph.error();
      known->second = std::move(graph).value();
    }
    known->second->launch(stream_);
  }
  next.resize(count);
  device::copy_out(next.data(), b_.next.as<void>(), count * sizeof(std::int32_t), stream_);
  return device::synchronise(stream_);
}

template <typename T>
Result<std::unique_ptr<DeviceDecoder>> make(const DecoderShape& shape, const DecoderNames& names,
                                            const SafetensorsFile& file) {
  Result<device::Stream> stream = device::make_stream();
  if (!stream.ok()) return stream.error();
  auto products = device::make_products();
  if (!products.ok()) {
    device::free_stream(*stream);
    return products.error();
  }
  auto made = std::make_unique<Impl<T>>(shape, *stream, std::move(products).value());
  if (Result<void> loaded = made->load(names, file); !loaded.ok()) return loaded.error();
  return std::unique_ptr<DeviceDecoder>(std::move(made));
}

}  // namespace

Result<std::unique_ptr<DeviceDecoder>> DeviceDecoder::load(const DecoderShape& shape,
                                                           const DecoderNames& names,
                                                           const SafetensorsFile& file,
                                                           Precision precision) {
  if (const Result<device::About> about = device::find_device(); !about.ok()) return about.error();
  if (shape.cross_every != 0)
    return invalid_argument("an expert that attends across does not run on the device yet");
  if (shape.block.head_dim > 256)
    return invalid_argument("heads of " + std::to_string(shape.block.head_dim) +
                            " values; the device's attention takes 256");
  return precision == Precision::exact ? make<float>(shape, names, file)
                                       : make<Bf16>(shape, names, file);
}

}  // namespace sluice
