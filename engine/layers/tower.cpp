#include "engine/layers/tower.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/huge_vector.h"

namespace sluice {

namespace {

template <typename T>
std::ptrdiff_t signed_of(T value) {
  return static_cast<std::ptrdiff_t>(value);
}

void attend(const BlockShape& shape, bool narrow, const Segments& segments, BlockRows& rows) {
  kernels::AttentionShape attention{shape.heads, shape.kv_heads, shape.head_dim, rows.count,
                                    narrow};
  std::span<const float> q = rows.q;
  const float* k = rows.keys.data();
  const float* v = rows.values.data();
  if (rows.unsplit()) {
    attention.q_stride = attention.kv_stride = shape.head_shape().row();
    q = rows.qkv;
    k = rows.qkv.data() + shape.heads * shape.head_dim;
    v = k + shape.kv_heads * shape.head_dim;
  }
  std::vector<const float*> keys, values;
  std::vector<std::uint32_t> segment, visible;
  for (std::size_t s = 0; s + 1 < segments.size(); ++s) {
    keys.push_back(k + segments[s] * attention.kv_row());
    values.push_back(v + segments[s] * attention.kv_row());
    const std::uint32_t length = segments[s + 1] - segments[s];
    segment.insert(segment.end(), length, static_cast<std::uint32_t>(s));
    visible.insert(visible.end(), length, length);
  }
  std::vector<kernels::PagedSequence> sequences;
  for (std::size_t s = 0; s < keys.size(); ++s)
    sequences.push_back({{&keys[s], 1}, {&values[s], 1}});
  rows.mixed.resize(rows.count * shape.heads * shape.head_dim);
  // A segment is one page.
  kernels::attention_cpu(attention, q, segment, visible, sequences, rows.mixed);
}

}  // namespace

TowerNames TowerNames::siglip(const std::string& prefix) {
  return {prefix + "embeddings.patch_embedding",
          prefix + "embeddings.position_embedding.weight",
          "",
          "",
          prefix + "encoder.layers.",
          prefix + "post_layernorm",
          BlockNames::siglip()};
}

TowerNames TowerNames::dinov2(const std::string& prefix) {
  return {prefix + "embeddings.patch_embeddings.projection",
          prefix + "embeddings.position_embeddings",
          prefix + "embeddings.cls_token",
          prefix + "embeddings.register_tokens",
          prefix + "encoder.layer.",
          prefix + "layernorm",
          BlockNames::dinov2()};
}

TowerNames TowerNames::timm(const std::string& prefix) {
  return {prefix + "patch_embed.proj", prefix + "pos_embed", prefix + "cls_token",
          prefix + "reg_token",        prefix + "blocks.",   prefix + "norm",
          BlockNames::timm()};
}

void run_blocks(const BlockShape& shape, std::span<const Block> blocks,
                const std::function<const Segments&(std::size_t layer)>& segments, BlockRows& rows,
                std::vector<float>& hidden, const RowsWatch& watch) {
  const std::size_t row = shape.kv_heads * shape.head_dim;
  const std::size_t own = rows.rope.cosine.empty() ? 0 : rows.count;
  rows.keys.resize(own * row);
  rows.values.resize(own * row);
  rows.k.resize(own);
  rows.v.resize(own);
  for (std::size_t i = 0; i < own; ++i) {
    rows.k[i] = rows.keys.data() + i * row;
    rows.v[i] = rows.values.data() + i * row;
  }
  for (std::size_t layer = 0; layer < blocks.size(); ++layer) {
    if (watch) watch(layer, hidden);
    blocks[layer].project(shape, hidden, nullptr, rows);
    const bool narrow = blocks[layer].out.weight.format() != kernels::WeightFormat::exact;
    attend(shape, narrow, segments(layer), rows);
    blocks[layer].finish(shape, hidden, nullptr, rows);
  }
}

void cut_patches(std::span<const float> pixels, std::size_t channels, std::size_t side,
                 std::size_t patch, std::span<float> rows) {
  float* to = rows.data();
  for (std::size_t image = 0; image < pixels.size(); image += channels * side * side)
    for (std::size_t py = 0; py < side; py += patch)
      for (std::size_t px = 0; px < side; px += patch)
        for (std::size_t channel = 0; channel < channels; ++channel)
          for (std::size_t y = 0; y < patch; ++y) {
            const float* from = &pixels[image + (channel * side + py + y) * side + px];
            to = std::copy_n(from, patch, to);
          }
}

std::vector<float> merge_neighbours(std::span<const float> rows, std::size_t grid,
                                    std::size_t channels, std::size_t n) {
  std::vector<float> merged;
  merged.reserve(rows.size());
  for (std::size_t image = 0; image < rows.size(); image += grid * grid * channels)
    for (std::size_t y = 0; y < grid; y += n)
      for (std::size_t x = 0; x < grid; x += n)
        for (std::size_t dy = 0; dy < n; ++dy) {
          const auto from = rows.begin() + signed_of(image + ((y + dy) * grid + x) * channels);
          merged.insert(merged.end(), from, from + signed_of(n * channels));
        }
  return merged;
}

std::vector<float> split_neighbours(std::span<const float> rows, std::size_t grid,
                                    std::size_t channels, std::size_t n) {
  std::vector<float> split(rows.size());
  std::size_t at = 0;
  for (std::size_t y = 0; y < grid; y += n)
    for (std::size_t x = 0; x < grid; x += n)
      for (std::size_t dy = 0; dy < n; ++dy)
        for (std::size_t i = 0; i < n * channels; ++i)
          split[((y + dy) * grid + x) * channels + i] = rows[at++];
  return split;
}

Result<Tower> Tower::load(const TowerShape& shape, const TowerNames& names,
                          const SafetensorsFile& file, kernels::WeightFormat format,
                          WeightArena* arena) {
  Tower made;
  made.shape_ = shape;
  WeightLoader load(file, format, arena);
  const std::size_t width = shape.block.width;
  made.patch_ = load.linear(names.patch, width, 3 * shape.patch * shape.patch, true);
  const bool placed = shape.class_token && shape.class_position;
  made.positions_ = load.values(names.positions, (shape.patches() + (placed ? 1 : 0)) * width);
  if (shape.class_token) made.class_token_ = load.values(names.class_token, width);
  if (shape.registers != 0) made.registers_ = load.values(names.registers, shape.registers * width);
  for (std::size_t i = 0; i < shape.layers; ++i)
    made.blocks_.push_back(
        Block::load(load, shape.block, names.block, names.layers + std::to_string(i) + "."));
  if (shape.final_norm) made.norm_ = load.norm(names.norm, width, true);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

TowerPass Tower::begin(std::span<const float> pixels) const {
  const std::size_t width = shape_.block.width;
  const std::size_t images = pixels.size() / (3 * shape_.side * shape_.side);
  SLUICE_CHECK(pixels.size() == images * 3 * shape_.side * shape_.side,
               "pictures must have the tower's size");
  thread_local kernels::HugeVector<float> cut, embedded;  // kept: tens of megabytes
  cut.resize(pixels.size());
  cut_patches(pixels, 3, shape_.side, shape_.patch, cut);
  apply(patch_, cut, embedded);
  const std::size_t one = shape_.patches() * width;
  const std::size_t first = shape_.class_token && shape_.class_position ? width : 0;
  TowerPass pass;
  pass.segments = {0};
  pass.hidden.resize(images * (shape_.patches() + shape_.extra()) * width);
  auto to = pass.hidden.begin();
  for (std::size_t image = 0; image < images; ++image) {
    for (std::size_t i = 0; i < class_token_.size(); ++i)
      *to++ = class_token_[i] + (first != 0 ? positions_[i] : 0.0F);
    to = std::copy(registers_.begin(), registers_.end(), to);
    to = std::transform(&embedded[image * one], &embedded[image * one] + one, &positions_[first],
                        to, std::plus<>());
    pass.segments.push_back(
        static_cast<std::uint32_t>((to - pass.hidden.begin()) / signed_of(width)));
  }
  return pass;
}

void Tower::advance(TowerPass& pass, std::size_t layers, const RowsWatch& watch) const {
  SLUICE_CHECK(pass.layer + layers <= blocks_.size(), "a tower has so many layers");
  thread_local BlockRows rows;  // kept, as in `begin`
  rows.count = pass.hidden.size() / shape_.block.width;
  RowsWatch from_here;
  if (watch)
    from_here = [&](std::size_t layer, std::span<const float> hidden) {
      watch(pass.layer + layer, hidden);
    };
  run_blocks(
      shape_.block, std::span(blocks_).subspan(pass.layer, layers),
      [&](std::size_t) -> const Segments& { return pass.segments; }, rows, pass.hidden, from_here);
  pass.layer += layers;
}

void Tower::finish(TowerPass& pass, std::vector<float>& features) const {
  SLUICE_CHECK(pass.layer == blocks_.size(), "a picture goes through all layers");
  const std::size_t width = shape_.block.width;
  if (shape_.final_norm) {
    std::vector<float> normed(pass.hidden.size());
    apply_norm(shape_.block.norm, norm_, shape_.block.eps, width, pass.hidden, normed);
    pass.hidden.swap(normed);
  }
  features.clear();
  const std::size_t skip = shape_.keep_extra ? 0 : shape_.extra() * width;
  for (std::size_t image = 0; image + 1 < pass.segments.size(); ++image)
    features.insert(features.end(),
                    pass.hidden.begin() + signed_of(pass.segments[image] * width + skip),
                    pass.hidden.begin() + signed_of(pass.segments[image + 1] * width));
}

void Tower::encode(std::span<const float> pixels, std::vector<float>& features,
                   const RowsWatch& watch) const {
  TowerPass pass = begin(pixels);
  advance(pass, blocks_.size(), watch);
  finish(pass, features);
}

}  // namespace sluice
