#include "engine/layers/qwen_vision.h"

#include <algorithm>
#include <cmath>

namespace sluice {

namespace {

/// The order in which units (merged patches) go through the tower, and what it is made of.
struct Layout {
  std::vector<std::uint32_t> unit;   // by place in the tower: the unit's index in the input
  Segments windows{0}, pictures{0};  // in patches
  std::vector<Position> positions;   // of each patch, in the tower's order
};

/// One frame of a picture: windows row by row, the last ones narrower.
void lay_out(const QwenVisionShape& shape, std::uint32_t first, std::uint32_t h, std::uint32_t w,
             Layout& layout) {
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
              layout.positions.push_back({0, static_cast<std::int32_t>(y * merge + dy),
                                          static_cast<std::int32_t>(x * merge + dx)});
        }
      layout.windows.push_back(static_cast<std::uint32_t>(layout.positions.size()));
    }
  layout.pictures.push_back(static_cast<std::uint32_t>(layout.positions.size()));
}

/// Half of the rotation goes by row, half by column, with the frequencies of a quarter head each.
void rotations(const QwenVisionShape& shape, const Layout& layout, RopeTable& table) {
  Rope rope;
  rope.theta = 10000;
  const std::size_t half = shape.block.head_dim / 2;
  const std::vector<double> frequencies = rope_frequencies(rope, half);
  for (const Position& position : layout.positions)
    for (const std::int32_t place : {position.h, position.w})
      for (const double frequency : frequencies) {
        table.cosine.push_back(static_cast<float>(std::cos(place * frequency)));
        table.sine.push_back(static_cast<float>(std::sin(place * frequency)));
      }
}

}  // namespace

Result<QwenVision> QwenVision::load(const QwenVisionShape& shape, const std::string& prefix,
                                    const SafetensorsFile& file, kernels::WeightFormat format) {
  QwenVision made;
  made.shape_ = shape;
  WeightLoader load(file, format);
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

void QwenVision::encode(std::span<const float> patches, std::span<const Grid> grids,
                        std::vector<float>& features, const RowsWatch& watch) const {
  Layout layout;
  std::uint32_t first = 0;
  const auto merge = static_cast<std::uint32_t>(shape_.merge);
  for (const auto& [t, h, w] : grids)
    for (std::uint32_t frame = 0; frame < t; ++frame) {
      lay_out(shape_, first, h, w, layout);
      first += h / merge * (w / merge);
    }
  const std::size_t width = shape_.block.width;
  const std::size_t unit_values = shape_.merge * shape_.merge * width;
  std::vector<float> embedded, hidden, merged, out;
  apply(patch_, patches, embedded);
  hidden.reserve(embedded.size());
  for (const std::uint32_t unit : layout.unit)
    hidden.insert(hidden.end(), &embedded[unit * unit_values],
                  &embedded[unit * unit_values] + unit_values);
  BlockRows rows;
  rows.count = layout.positions.size();
  rotations(shape_, layout, rows.rope);
  run_blocks(
      shape_.block, blocks_,
      [&](std::size_t layer) -> const Segments& {
        const bool full = std::ranges::find(shape_.full_layers, layer) != shape_.full_layers.end();
        return full ? layout.pictures : layout.windows;
      },
      rows, hidden, watch);
  rows.normed.resize(hidden.size());
  apply_norm(NormKind::rms, merge_norm_, shape_.block.eps, width, hidden, rows.normed);
  apply(merge1_, rows.normed, merged);
  kernels::activate_cpu(kernels::Activation::gelu_erf, merged);
  apply(merge2_, merged, out);
  features.resize(out.size());
  for (std::size_t i = 0; i < layout.unit.size(); ++i)
    std::copy_n(&out[i * shape_.out_width], shape_.out_width,
                &features[layout.unit[i] * shape_.out_width]);
}

}  // namespace sluice
