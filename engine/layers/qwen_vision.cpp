#include "engine/layers/qwen_vision.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace sluice {

namespace {

/// One frame of a picture: windows row by row, the last ones narrower.
void lay_out(const QwenVisionShape& shape, std::uint32_t first, std::uint32_t h, std::uint32_t w,
             QwenVisionPass& layout, std::vector<Position>& positions) {
  const auto merge = static_cast<std::uint32_t>(shape.merge);
  const std::uint32_t rows = h / merge;
  const std::uint32_t columns = w / merge;
  const auto side = static_cast<std::uint32_t>(shape.window / shape.patch / shape.merge);
  for (std::uint32_t wy = 0; wy < rows; wy += side)
    for (std::uint32_t wx = 0; wx < columns; wx += side) {
      for (std::uint32_t y = wy; y < std::min(rows, wy + side); ++y)
        for (std::uint32_t x = wx; x < std::min(columns, wx + side); ++x) {
          layout.unit.push_back(first + y * columns + x);
          for (std::uint32_t dy = 0; dy < merge; ++dy)
            for (std::uint32_t dx = 0; dx < merge; ++dx)
              positions.push_back({0, static_cast<std::int32_t>(y * merge + dy),
                                   static_cast<std::int32_t>(x * merge + dx)});
        }
      layout.windows.push_back(static_cast<std::uint32_t>(positions.size()));
    }
  layout.pictures.push_back(static_cast<std::uint32_t>(positions.size()));
}

/// Half of the rotation goes by row, half by column, with the frequencies of a quarter head each.
void rotations(const QwenVisionShape& shape, std::span<const Position> positions,
               RopeTable& table) {
  Rope rope;
  rope.theta = 10000;
  const std::size_t half = shape.block.head_dim / 2;
  const std::vector<double> frequencies = rope_frequencies(rope, half);
  for (const Position& position : positions)
    for (const std::int32_t place : {position.h, position.w})
      for (const double frequency : frequencies) {
        table.cosine.push_back(static_cast<float>(std::cos(place * frequency)));
        table.sine.push_back(static_cast<float>(std::sin(place * frequency)));
      }
}

}  // namespace

Result<QwenVision> QwenVision::load(const QwenVisionShape& shape, const std::string& prefix,
                                    const SafetensorsFile& file, kernels::WeightFormat format,
                                    WeightArena* arena) {
  QwenVision made;
  made.shape_ = shape;
  WeightLoader load(file, format, arena);
  const std::size_t width = shape.block.width;
  const std::size_t merged = shape.merge * shape.merge * width;
  made.patch_ = load.linear(prefix + "patch_embed.proj", width, shape.patch_values(), false);
  for (std::size_t i = 0; i < shape.layers; ++i)
    made.blocks_.push_back(Block::load(load, shape.block, BlockNames::qwen_vision(),
                                       prefix + "blocks." + std::to_string(i) + "."));
  made.merge_norm_ = load.norm(prefix + "merger.ln_q", width, false);
  made.merge1_ = load.linear(prefix + "merger.mlp.0", merged, merged, true);
  made.merge2_ = load.linear(prefix + "merger.mlp.2", shape.out_width, merged, true);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  return made;
}

QwenVisionPass QwenVision::begin(std::span<const float> patches,
                                 std::span<const Grid> grids) const {
  QwenVisionPass pass;
  std::vector<Position> positions;  // of each patch, in the tower's order
  std::uint32_t first = 0;
  const auto merge = static_cast<std::uint32_t>(shape_.merge);
  for (const auto& [t, h, w] : grids)
    for (std::uint32_t frame = 0; frame < t; ++frame) {
      lay_out(shape_, first, h, w, pass, positions);
      first += h / merge * (w / merge);
    }
  const std::size_t unit_values = shape_.merge * shape_.merge * shape_.block.width;
  std::vector<float> embedded;
  apply(patch_, patches, embedded);
  pass.hidden.reserve(embedded.size());
  for (const std::uint32_t unit : pass.unit)
    pass.hidden.insert(pass.hidden.end(), &embedded[unit * unit_values],
                       &embedded[unit * unit_values] + unit_values);
  rotations(shape_, positions, pass.rope);
  return pass;
}

void QwenVision::advance(QwenVisionPass& pass, std::size_t layers, const RowsWatch& watch) const {
  SLUICE_CHECK(pass.layer + layers <= blocks_.size(), "a tower has so many layers");
  BlockRows rows;
  rows.count = pass.hidden.size() / shape_.block.width;
  rows.rope = std::move(pass.rope);
  RowsWatch from_here;
  if (watch)
    from_here = [&](std::size_t layer, std::span<const float> hidden) {
      watch(pass.layer + layer, hidden);
    };
  run_blocks(
      shape_.block, std::span(blocks_).subspan(pass.layer, layers),
      [&](std::size_t layer) -> const Segments& {
        const bool full =
            std::ranges::find(shape_.full_layers, pass.layer + layer) != shape_.full_layers.end();
        return full ? pass.pictures : pass.windows;
      },
      rows, pass.hidden, from_here);
  pass.rope = std::move(rows.rope);
  pass.layer += layers;
}

void QwenVision::finish(QwenVisionPass& pass, std::vector<float>& features) const {
  SLUICE_CHECK(pass.layer == blocks_.size(), "a picture goes through all layers");
  std::vector<float> normed(pass.hidden.size()), merged, out;
  apply_norm(NormKind::rms, merge_norm_, shape_.block.eps, shape_.block.width, pass.hidden, normed);
  apply(merge1_, normed, merged);
  kernels::activate_cpu(kernels::Activation::gelu_erf, merged);
  apply(merge2_, merged, out);
  features.resize(out.size());
  for (std::size_t i = 0; i < pass.unit.size(); ++i)
    std::copy_n(&out[i * shape_.out_width], shape_.out_width,
                &features[pass.unit[i] * shape_.out_width]);
}

void QwenVision::encode(std::span<const float> patches, std::span<const Grid> grids,
                        std::vector<float>& features, const RowsWatch& watch) const {
  QwenVisionPass pass = begin(patches, grids);
  advance(pass, blocks_.size(), watch);
  finish(pass, features);
}

}  // namespace sluice
