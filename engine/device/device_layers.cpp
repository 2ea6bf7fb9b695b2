#include "engine/device/device_layers.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace sluice {

namespace {

/// What the kernels' arithmetic reaches to.
constexpr std::size_t head_dim_most = 256;
constexpr std::size_t positions_most = std::size_t{1} << 24;
constexpr std::size_t vocabulary_most = std::size_t{1} << 24;
constexpr std::size_t page_tokens_most = std::size_t{1} << 16;

Error out_of_reach(std::size_t number, const char* of, std::size_t most) {
  return invalid_argument(std::to_string(number) + " " + of + "; a device's kernels take 1 to " +
                          std::to_string(most));
}

Result<void> check_shape(const DecoderShape& shape) {
  if (shape.block.head_dim > head_dim_most)
    return out_of_reach(shape.block.head_dim, "values of a head", head_dim_most);
  if (shape.positions_max > positions_most)
    return out_of_reach(shape.positions_max, "positions", positions_most);
  if (shape.vocabulary > vocabulary_most)
    return out_of_reach(shape.vocabulary, "tokens of a vocabulary", vocabulary_most);
  return {};
}

}  // namespace

/// The host's side of what is known of rows, filled anew for each placing.
template <typename T>
struct DeviceLayers<T>::Staging {
  RopeTable rope, cross_rope;
  std::vector<std::uint32_t> sequence, place, visible, before, condition, pages;
  std::vector<device::RowRun> runs;
};

template <typename T>
void DeviceLayers<T>::load(const DecoderNames& names, WeightLoader& load, Uploader& up,
                           bool normed) {
  if (const Result<void> fits = check_shape(shape_); !fits.ok()) return up.refuse(fits.error());
  for (std::size_t i = 0; i < shape_.layers; ++i) {
    const bool cross = shape_.cross_every != 0 && i % shape_.cross_every != 0;
    blocks_.push_back(up.block(
        Block::load(load, block(), names.block, names.layers + std::to_string(i) + ".", cross)));
  }
  if (normed && !block().adaptive)
    norm_ = up.norm(load.norm(names.norm, block().width, block().norm == NormKind::layer,
                              block().norm_plus_one));
}

template <typename T>
Result<DeviceKv> DeviceLayers<T>::make_kv(std::size_t page_tokens, std::size_t pages,
                                          std::size_t layers,
                                          const PageKeys::Secret& secret) const {
  static std::atomic<std::size_t> made_before = 0;
  if (page_tokens == 0 || page_tokens > page_tokens_most)
    return out_of_reach(page_tokens, "tokens of a page", page_tokens_most);
  const KvShape kv{.layers = layers == 0 ? shape_.layers : layers,
                   .row = block().kv_heads * block().head_dim,
                   .page_tokens = page_tokens,
                   .dtype = std::is_same_v<T, device::Bf16> ? Dtype::bf16 : Dtype::f32};
  const std::size_t bytes = kv.page_bytes() * pages;
  Result<device::Memory> store = device::Memory::allocate(bytes);
  if (!store.ok()) return store.error();
  DeviceKv made{KvPages(kv, pages, secret), std::move(store).value(), {}, ++made_before};
  if (shape_.cross_every == 0) return made;
  Result<device::Memory> across = device::Memory::allocate(bytes);
  if (!across.ok()) return across.error();
  made.across = std::move(across).value();
  return made;
}

template <typename T>
Result<void> DeviceLayers<T>::extend(DeviceKv& kv, std::span<const DeviceChunk> chunks) const {
  std::vector<CopyPage> copies;
  Result<void> extended;
  for (std::size_t c = 0; c < chunks.size() && extended.ok(); ++c) {
    KvSequence& sequence = *chunks[c].sequence;
    const std::size_t after = sequence.tokens() + chunks[c].count;
    extended = after > shape_.positions_max
                   ? Error{ErrorCode::exhausted, "the sequence would have more than " +
                                                     std::to_string(shape_.positions_max) +
                                                     " tokens, the most that the model reads"}
                   : kv.pages.extend(sequence, chunks[c].count, copies);
    if (extended.ok()) continue;
    for (const DeviceChunk& done : chunks.first(c))
      kv.pages.truncate(*done.sequence, done.sequence->tokens() - done.count);
  }
  copy_pages(kv, copies);
  return extended;
}

/// Whole pages, in order: before the forward writes anything.
template <typename T>
void DeviceLayers<T>::copy_pages(DeviceKv& kv, std::span<const CopyPage> copies) const {
  const KvShape& shape = kv.pages.shape();
  const std::size_t rows = shape.page_values() / shape.row;
  T* store = kv.store.as<T>();
  for (const CopyPage& copy : copies)
    device::gather_rows(store + copy.from * shape.page_values(), nullptr, rows, shape.row, 1,
                        store + copy.to * shape.page_values(), work_.stream());
}

template <typename T>
void DeviceLayers<T>::stage(std::span<const DeviceChunk> chunks, Staging& staging) {
  run_rows_max_ = 0;
  std::size_t longest = pages_max_;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const DeviceChunk& chunk = chunks[c];
    const std::size_t before = chunk.sequence->tokens() - chunk.count;
    const auto number = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
    std::vector<Position> positions(chunk.positions.begin(), chunk.positions.end());
    std::vector<Position> restarted;
    staging.runs.push_back({number(staging.place.size()), number(chunk.count)});
    for (std::size_t i = 0; i < chunk.count; ++i) {
      staging.place.push_back(number(before + i));
      staging.sequence.push_back(number(c));
      staging.before.push_back(number(before));
      staging.condition.push_back(chunk.condition);
      staging.visible.push_back(
          !chunk.visible.empty()
              ? chunk.visible[i]
              : number(before + (chunk.mask == Mask::block ? chunk.count : i + 1)));
      if (chunk.positions.empty())
        positions.push_back(Position::at(static_cast<std::int32_t>(before + i)));
      restarted.push_back(Position::at(static_cast<std::int32_t>(i)));
    }
    append_rope(shape_.rope, block().head_dim, positions, staging.rope);
    if (shape_.cross_every != 0)
      append_rope(shape_.rope, block().head_dim, restarted, staging.cross_rope);
    run_rows_max_ = std::max(run_rows_max_, chunk.count);
    longest = std::max(longest, chunk.sequence->pages().size());
  }
  rows_ = staging.place.size();
  runs_ = chunks.size();
  // By whole steps, so that a recording lives long.
  if (longest > pages_max_) {
    pages_max_ = std::bit_ceil(longest);
    ++moves_;
  }
  staging.pages.assign(chunks.size() * pages_max_, 0);
  for (std::size_t c = 0; c < chunks.size(); ++c)
    std::ranges::copy(chunks[c].sequence->pages(),
                      staging.pages.begin() + static_cast<std::ptrdiff_t>(c * pages_max_));
}

template <typename T>
Result<void> DeviceLayers<T>::make_room() {
  Room room;
  const BlockShape& s = block();
  const std::size_t heads = s.heads * s.head_dim;
  room.need(b_.hidden, rows_ * s.width * sizeof(float));
  for (device::Memory* rows : {&b_.normed, &b_.branch})
    room.need(*rows, rows_ * s.width * sizeof(T));
  room.need(b_.qkv, rows_ * s.head_shape().row() * sizeof(T));
  for (device::Memory* rows : {&b_.q, &b_.mixed}) room.need(*rows, rows_ * heads * sizeof(T));
  room.need(b_.inner, rows_ * s.mlp * (s.gated ? 2 : 1) * sizeof(T));
  if (s.gated) room.need(b_.activated, rows_ * s.mlp * sizeof(T));
  const kernels::HeadShape head_shape = s.head_shape();
  const std::size_t splits = device::attention_splits<T>(head_shape, rows_, runs_, run_rows_max_);
  room.need(b_.scratch, device::attention_scratch(head_shape, rows_, splits) * sizeof(float));
  if (room.moved()) ++moves_;
  return room.outcome();
}

/// Where the tables come to stand depends on how many rows and sequences there are, and a recording
/// is of one such number; `pages` is last, so that it moves none when a sequence has more.
template <typename T>
Result<void> DeviceLayers<T>::upload(const Staging& staging) {
  const DeviceTables::Filled tables[] = {{b_.cosine, staging.rope.cosine},
                                         {b_.sine, staging.rope.sine},
                                         {b_.cross_cosine, staging.cross_rope.cosine},
                                         {b_.cross_sine, staging.cross_rope.sine},
                                         {b_.sequence, staging.sequence},
                                         {b_.place, staging.place},
                                         {b_.visible, staging.visible},
                                         {b_.before, staging.before},
                                         {b_.condition, staging.condition},
                                         {b_.runs, staging.runs},
                                         {b_.pages, staging.pages}};
  return tables_.send(work_, tables);
}

template <typename T>
Result<void> DeviceLayers<T>::place(DeviceKv& kv, std::span<const DeviceChunk> chunks) {
  if (Result<void> extended = extend(kv, chunks); !extended.ok()) return extended;
  Staging staging;
  stage(chunks, staging);
  Result<void> done = make_room();
  if (done.ok()) done = upload(staging);
  if (done.ok()) return done;
  for (const DeviceChunk& chunk : chunks)
    kv.pages.truncate(*chunk.sequence, chunk.sequence->tokens() - chunk.count);
  return done;
}

template <typename T>
Result<void> DeviceLayers<T>::bring(const Conditions& conditions) {
  std::vector<float> all;
  for (const std::vector<float>& layer : conditions.layers)
    all.insert(all.end(), layer.begin(), layer.end());
  all.insert(all.end(), conditions.last.begin(), conditions.last.end());
  Room room;
  room.need(b_.modulation, all.size() * sizeof(float));
  if (!room.outcome().ok()) return room.outcome();
  work_.put(b_.modulation, all);
  const std::size_t count = conditions.last.size() / (3 * block().width);
  if (room.moved() || count != conditions_) ++moves_;
  conditions_ = count;
  return {};
}

template <typename T>
device::Places DeviceLayers<T>::places(bool across) const {
  return {b_.sequence.as<std::uint32_t>(), b_.place.as<std::uint32_t>(),
          (across ? b_.before : b_.visible).as<std::uint32_t>(), b_.pages.as<std::uint32_t>(),
          pages_max_};
}

template <typename T>
device::Pages<T> DeviceLayers<T>::pages(const DeviceKv& kv, bool across) const {
  const KvShape& shape = kv.pages.shape();
  return {(across ? kv.across : kv.store).as<T>(), shape.layers, shape.row, shape.page_tokens};
}

/// `layer` behind the last one: the last norm's, which has one part only.
template <typename T>
device::Modulated DeviceLayers<T>::modulated(std::size_t layer, std::size_t norm,
                                             const std::uint32_t* condition) const {
  if (!block().adaptive) return {};
  const std::size_t width = block().width;
  const float* values = b_.modulation.as<float>() + layer * conditions_ * 6 * width;
  const bool last = layer == shape_.layers;
  return {values + norm * 3 * width,
          condition != nullptr ? condition : b_.condition.as<std::uint32_t>(),
          (last ? 3 : 6) * width};
}

template <typename T>
Result<void> DeviceLayers<T>::look_across(DeviceKv& kv, std::span<const DeviceChunk> chunks) {
  if (shape_.cross_every == 0) return {};
  std::size_t longest = 0;
  for (const DeviceChunk& chunk : chunks)
    longest = std::max(longest, chunk.sequence->tokens() - chunk.count);
  const std::size_t row = kv.pages.shape().row;
  Room room;
  room.need(b_.gathered, longest * row * sizeof(T));
  room.need(b_.projected, longest * row * sizeof(T));
  if (!room.outcome().ok()) return room.outcome();
  T* gathered = b_.gathered.as<T>();
  T* projected = b_.projected.as<T>();
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    if (!blocks_[layer].is_cross()) continue;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const std::size_t tokens = chunks[c].sequence->tokens() - chunks[c].count;
      const std::uint32_t* listed = b_.pages.as<std::uint32_t>() + c * pages_max_;
      for (const bool values : {false, true}) {
        device::pages_to_rows(pages(kv, false), layer, values, listed, tokens, gathered,
                              work_.stream());
        const DeviceLinear& linear = values ? blocks_[layer].cross_v : blocks_[layer].cross_k;
        if (auto done = work_.apply(linear, gathered, projected, tokens); !done.ok()) return done;
        device::rows_to_pages(projected, pages(kv, true), layer, values, listed, tokens,
                              work_.stream());
      }
    }
  }
  return {};
}

/// From [q | k | v], without the bias, to what the rows mix, or no further than the pages.
template <typename T>
void DeviceLayers<T>::attend(DeviceKv& kv, std::size_t layer, const float* bias, bool mixes) {
  const bool across = blocks_[layer].is_cross();
  const kernels::HeadShape heads = block().head_shape();
  const std::size_t stored = layer % kv.pages.shape().layers;
  const bool turns = shape_.turns(layer);
  const DeviceTable cosine = across ? b_.cross_cosine : b_.cosine;
  const DeviceTable sine = across ? b_.cross_sine : b_.sine;
  kernels::HeadShape split = heads;
  if (across) split.kv_heads = 0;  // there are queries only
  device::rotate_and_store(split, b_.qkv.as<T>(), bias, rows_, turns ? cosine.as<float>() : nullptr,
                           turns ? sine.as<float>() : nullptr, b_.q.as<T>(), pages(kv, false),
                           stored, places(false), work_.stream());
  if (!mixes) return;
  const std::size_t splits = device::attention_splits<T>(heads, rows_, runs_, run_rows_max_);
  device::attention(heads, b_.q.as<T>(), rows_, b_.runs.as<device::RowRun>(), runs_, run_rows_max_,
                    pages(kv, across), stored, places(across), splits, b_.scratch.as<float>(),
                    b_.mixed.as<T>(), work_.stream());
}

template <typename T>
Result<void> DeviceLayers<T>::run_layer(DeviceKv& kv, std::size_t layer, Until until,
                                        const std::uint32_t* condition) {
  const DeviceBlock& weights = blocks_[layer];
  const BlockShape& s = block();
  const device::Modulated first = modulated(layer, 0, condition);
  const Result<const float*> bias =
      multiply_normed(weights.qkv, norm_of(weights.norm1, s.eps, first), b_.qkv);
  if (!bias.ok()) return bias.error();
  const bool ends = until == Until::keys && layer + 1 == blocks_.size();
  attend(kv, layer, *bias, !ends);
  if (ends) return {};
  if (auto done = add(weights.out, b_.mixed, weights.scale1, first); !done.ok()) return done;
  const device::Modulated second = modulated(layer, 1, condition);
  if (auto done = project_up(weights, norm_of(weights.norm2, s.eps2 != 0 ? s.eps2 : s.eps, second));
      !done.ok())
    return done;
  return add(weights.down, s.gated ? b_.activated : b_.inner, weights.scale2, second);
}

/// Of the hidden rows with what was added to them last.
template <typename T>
Result<const float*> DeviceLayers<T>::multiply_normed(const DeviceLinear& linear,
                                                      const device::Norm& norm,
                                                      const device::Memory& to) {
  return work_.multiply_normed(linear, norm, std::exchange(waiting_, {}), b_.normed.as<T>(),
                               to.as<T>(), rows_);
}

/// The norm, the wide product and its activation.
template <typename T>
Result<void> DeviceLayers<T>::project_up(const DeviceBlock& weights, const device::Norm& norm) {
  const BlockShape& s = block();
  T* inner = b_.inner.as<T>();
  T* activated = b_.activated.as<T>();
  if (s.gated && device::fits_normed<T>(rows_, s.width)) {
    const DeviceLinear& up = weights.up;
    device::matvec_gated(norm, s.activation, up.weight.as<T>(), up.bias.as<float>(), activated,
                         rows_, s.mlp, s.width, work_.stream());
    return {};
  }
  const Result<const float*> bias = multiply_normed(weights.up, norm, b_.inner);
  if (!bias.ok()) return bias.error();
  if (s.gated)
    device::gated(s.activation, inner, *bias, rows_, s.mlp, activated, work_.stream());
  else
    device::activate(s.activation, inner, *bias, rows_, s.mlp, work_.stream());
  return {};
}

/// A branch goes to the hidden rows: of few rows at once, else before the next norm.
template <typename T>
Result<void> DeviceLayers<T>::add(const DeviceLinear& linear, const device::Memory& x,
                                  const device::Memory& scale, const device::Modulated& modulated) {
  if (rows_ <= device::matvec_rows<T>) {
    work_.matvec_added(linear, x.as<T>(), scale.as<float>(), modulated, hidden(), rows_);
    return {};
  }
  T* branch = b_.branch.as<T>();
  const Result<const float*> bias = work_.multiply(linear, x.as<T>(), branch, rows_);
  if (!bias.ok()) return bias.error();
  waiting_ = {branch, *bias, scale.as<float>(), modulated};
  return {};
}

template <typename T>
Result<void> DeviceLayers<T>::run(DeviceKv& kv, Until until, const std::uint32_t* condition) {
  SLUICE_CHECK(!block().adaptive || conditions_ != 0, "an adaptive decoder takes a condition");
  waiting_ = {};
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer)
    if (auto done = run_layer(kv, layer, until, condition); !done.ok()) return done;
  if (waiting_.rows != nullptr)
    device::add_rows(hidden(), waiting_, rows_, block().width, work_.stream());
  return {};
}

template <typename T>
device::Norm DeviceLayers<T>::norm_of(const DeviceNorm& norm, float eps,
                                      const device::Modulated& modulated) const {
  return {
      hidden(), block().norm == NormKind::rms, norm.weight.as<float>(), norm.bias.as<float>(), eps,
      modulated};
}

template <typename T>
device::Norm DeviceLayers<T>::last_norm(const std::uint32_t* condition) const {
  return norm_of(norm_, block().eps, modulated(shape_.layers, 0, condition));
}

template class DeviceLayers<float>;
template class DeviceLayers<device::Bf16>;

}  // namespace sluice
