#include "engine/layers/diffusion_transformer.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "engine/layers/tower.h"

namespace sluice {

namespace {

constexpr std::size_t time_width = 256;

/// cos, then sin of the time on waves of 1 to 10000.
void append_waves(float time, std::vector<float>& rows) {
  constexpr std::size_t half = time_width / 2;
  const std::size_t at = rows.size();
  rows.resize(at + time_width);
  for (std::size_t i = 0; i < half; ++i) {
    // In f32, step by step as the reference: at time 1000 an ulp of the frequency is 6e-5 of angle.
    const float exponent = -9.210340371976184F * static_cast<float>(i);  // ln 10000
    const float frequency = std::exp(exponent / static_cast<float>(half - 1));
    rows[at + i] = std::cos(time * frequency);
    rows[at + half + i] = std::sin(time * frequency);
  }
}

/// sin and cos of the column, then of the row: a quarter of the width each.
std::vector<float> place_table(std::size_t grid, std::size_t width) {
  std::vector<float> table;
  table.reserve(grid * grid * width);
  const std::size_t quarter = width / 4;
  for (std::size_t row = 0; row < grid; ++row)
    for (std::size_t column = 0; column < grid; ++column)
      for (std::size_t i = 0; i < width; ++i) {
        const double place = static_cast<double>(i < 2 * quarter ? column : row);
        const double omega =
            std::pow(10000.0, -static_cast<double>(i % quarter) / static_cast<double>(quarter));
        const double angle = place * omega;
        table.push_back(
            static_cast<float>(i / quarter % 2 == 0 ? std::sin(angle) : std::cos(angle)));
      }
  return table;
}

void activate(std::vector<float>& rows) { kernels::activate_cpu(kernels::Activation::silu, rows); }

/// The checkpoint's order is shift, scale, then whatever else; a `Modulation` begins with the
/// scale.
void swap_shift_and_scale(std::vector<float>& rows, std::size_t width, std::size_t parts) {
  for (std::size_t at = 0; at < rows.size(); at += parts * width)
    std::swap_ranges(&rows[at], &rows[at] + width, &rows[at] + width);
}

}  // namespace

std::vector<double> signal_shares(std::size_t train_steps) {
  std::vector<double> shares;
  double left = 1;
  for (std::size_t i = 0; i < train_steps; ++i) {
    const double beta = 1e-4 + (0.02 - 1e-4) * static_cast<double>(i) /
                                   static_cast<double>(std::max<std::size_t>(train_steps, 2) - 1);
    shares.push_back(left *= 1 - beta);
  }
  return shares;
}

Result<DiffusionTransformer> DiffusionTransformer::load(const DiffusionShape& shape,
                                                        const SafetensorsFile& file,
                                                        kernels::WeightFormat format,
                                                        WeightArena* arena) {
  DiffusionTransformer made;
  made.shape_ = shape;
  const std::string layers = "transformer_blocks.";
  Result<Decoder> trunk =
      Decoder::load(shape.trunk, {"", layers, "", "", BlockNames::dit()}, file, format, arena);
  if (!trunk.ok()) return trunk.error();
  made.trunk_ = std::move(trunk).value();
  const std::size_t width = shape.trunk.block.width;
  WeightLoader load(file, format, arena);
  made.patch_ =
      load.linear("pos_embed.proj", width, shape.channels * shape.patch * shape.patch, true);
  for (std::size_t i = 0; i < shape.trunk.layers; ++i) {
    const std::string at = layers + std::to_string(i) + ".norm1.";
    Embedder one;
    one.time1 = load.linear(at + "emb.timestep_embedder.linear_1", width, time_width, true);
    one.time2 = load.linear(at + "emb.timestep_embedder.linear_2", width, width, true);
    one.classes =
        load.linear(at + "emb.class_embedder.embedding_table", shape.classes + 1, width, false)
            .weight;
    one.modulation = load.linear(at + "linear", 6 * width, width, true);
    made.embedders_.push_back(std::move(one));
  }
  made.last_modulation_ = load.linear("proj_out_1", 2 * width, width, true);
  made.last_ =
      load.linear("proj_out_2", shape.patch * shape.patch * shape.out_channels, width, true);
  if (Result<void> outcome = load.outcome(); !outcome.ok()) return outcome.error();
  made.positions_ = place_table(shape.side / shape.patch, width);
  return made;
}

void DiffusionTransformer::embed_condition(const Embedder& embedder, std::span<const float> times,
                                           std::span<const std::int32_t> classes,
                                           std::vector<float>& rows) const {
  std::vector<float> waves, inner;
  for (const float time : times) append_waves(time, waves);
  apply(embedder.time1, waves, inner);
  activate(inner);
  apply(embedder.time2, inner, rows);
  const std::size_t width = shape_.trunk.block.width;
  std::vector<float> of_class(width);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    embedder.classes.read_row(static_cast<std::size_t>(classes[i]), of_class);
    kernels::add_cpu(std::span(rows).subspan(i * width, width), of_class);
  }
  activate(rows);
}

Conditions DiffusionTransformer::conditions(std::span<const float> times,
                                            std::span<const std::int32_t> classes) const {
  const std::size_t width = shape_.trunk.block.width;
  Conditions made;
  std::vector<float> rows, two;
  for (const Embedder& embedder : embedders_) {
    embed_condition(embedder, times, classes, rows);
    std::vector<float> values;
    apply(embedder.modulation, rows, values);
    swap_shift_and_scale(values, width, 3);
    if (made.layers.empty()) {  // the last norm's condition is the first layer's
      apply(last_modulation_, rows, two);
      swap_shift_and_scale(two, width, 2);
    }
    made.layers.push_back(std::move(values));
  }
  made.last.resize(times.size() * 3 * width);
  for (std::size_t i = 0; i < times.size(); ++i)
    std::copy_n(&two[i * 2 * width], 2 * width, &made.last[i * 3 * width]);
  return made;
}

/// [patches, patch * patch * out_channels], channel last, to [out_channels, side, side].
std::vector<float> DiffusionTransformer::join_patches(std::span<const float> rows) const {
  const std::size_t side = shape_.side;
  const std::size_t patch = shape_.patch;
  const std::size_t channels = shape_.out_channels;
  std::vector<float> joined(rows.size());
  std::size_t at = 0;
  for (std::size_t picture = 0; picture < rows.size(); picture += channels * side * side)
    for (std::size_t py = 0; py < side; py += patch)
      for (std::size_t px = 0; px < side; px += patch)
        for (std::size_t y = py; y < py + patch; ++y)
          for (std::size_t x = px; x < px + patch; ++x)
            for (std::size_t c = 0; c < channels; ++c)
              joined[picture + (c * side + y) * side + x] = rows[at++];
  return joined;
}

Result<void> DiffusionTransformer::check_class(std::int64_t label) const {
  if (label >= 0 && label <= static_cast<std::int64_t>(shape_.classes)) return {};
  return invalid_argument("class " + std::to_string(label) + " is not from 0 to " +
                          std::to_string(shape_.classes));
}

void DiffusionTransformer::rows_of(std::span<const float> latents, std::vector<float>& rows) const {
  std::vector<float> cut(latents.size());
  cut_patches(latents, shape_.channels, shape_.side, shape_.patch, cut);
  apply(patch_, cut, rows);
  for (std::size_t at = 0; at < rows.size(); at += positions_.size())
    kernels::add_cpu(std::span(rows).subspan(at, positions_.size()), positions_);
}

std::vector<float> DiffusionTransformer::predicted(std::span<const float> hidden) const {
  std::vector<float> rows;
  apply(last_, hidden, rows);
  return join_patches(rows);
}

Result<void> DiffusionTransformer::predict(KvPool& pool, std::span<const float> latents,
                                           std::span<const float> times,
                                           std::span<const std::int32_t> classes,
                                           std::vector<float>& predicted) const {
  const std::size_t pictures = times.size();
  SLUICE_CHECK(latents.size() == pictures * shape_.latent() && classes.size() == pictures,
               "a latent picture, a time and a class go together");
  for (const std::int32_t one : classes)
    if (Result<void> known = check_class(one); !known.ok()) return known;
  std::vector<float> rows, hidden;
  rows_of(latents, rows);
  const std::size_t one = shape_.patches() * shape_.trunk.block.width;
  std::vector<KvSequence> sequences(pictures);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < pictures; ++i)
    chunks.push_back({&sequences[i],
                      std::span(rows).subspan(i * one, one),
                      Mask::block,
                      {},
                      {},
                      static_cast<std::uint32_t>(i)});
  const Conditions table = conditions(times, classes);
  const Result<void> ran = trunk_.forward(pool, chunks, hidden, &table);
  for (KvSequence& sequence : sequences) pool.truncate(sequence, 0);
  if (!ran.ok()) return ran;
  predicted = this->predicted(hidden);
  return {};
}

}  // namespace sluice
