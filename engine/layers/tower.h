// A vision transformer: pictures to feature rows. No cache; rows see the rows of their segment.
//
// Shape: pixels f32 [images, 3, side, side] as the family's preprocessing leaves them; features
// [images * patches, width], f32. Each picture is a segment, so a batch equals pictures one by one.
// Source: SigLIP (Zhai et al. 2023), DINOv2 with registers (Darcet et al. 2023).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/layers/block.h"

namespace sluice {

struct TowerShape {
  BlockShape block;
  std::size_t layers = 0;  // that are run: OpenVLA takes the output before the last
  std::size_t side = 0;    // of a picture, in pixels
  std::size_t patch = 0;
  std::size_t registers = 0;
  bool class_position = true;  // the class token has a place in the position embedding
  bool class_token = false;    // a first row, with a place of its own in the position embedding
  bool final_norm = true;
  bool keep_extra = false;  // the class token and the registers stay in the output

  std::size_t patches() const { return (side / patch) * (side / patch); }
  std::size_t extra() const { return registers + (class_token ? 1 : 0); }
};

struct TowerNames {
  std::string patch, positions, class_token, registers, layers, norm;
  BlockNames block;
  static TowerNames siglip(const std::string& prefix);
  static TowerNames dinov2(const std::string& prefix);
  static TowerNames timm(const std::string& prefix);
};

/// Where segments begin, and the end: segment i is rows [begin[i], begin[i + 1]).
using Segments = std::vector<std::uint32_t>;
using RowsWatch = std::function<void(std::size_t layer, std::span<const float> hidden)>;

/// Rows through layers; each layer's rows see those of their segment. Requires: rows.count, rope.
void run_blocks(const BlockShape& shape, std::span<const Block> blocks,
                const std::function<const Segments&(std::size_t layer)>& segments, BlockRows& rows,
                std::vector<float>& hidden, const RowsWatch& watch = {});

/// [images, channels, side, side] to [images * patches, channels * patch * patch], each row channel
/// by channel.
void cut_patches(std::span<const float> pixels, std::size_t channels, std::size_t side,
                 std::size_t patch, std::span<float> rows);

/// [grid * grid, channels] per picture to [(grid/n)^2, n * n * channels], neighbours row by row.
std::vector<float> merge_neighbours(std::span<const float> rows, std::size_t grid,
                                    std::size_t channels, std::size_t n);
/// The inverse, for one picture.
std::vector<float> split_neighbours(std::span<const float> rows, std::size_t grid,
                                    std::size_t channels, std::size_t n);

/// Pictures on their way through a tower: what `begin` made of them, `layer` layers further.
struct TowerPass {
  std::vector<float> hidden;
  Segments segments;
  std::size_t layer = 0;
};

class Tower {
 public:
  static Result<Tower> load(const TowerShape& shape, const TowerNames& names,
                            const SafetensorsFile& file,
                            kernels::WeightFormat format = kernels::WeightFormat::exact,
                            WeightArena* arena = nullptr);

  const TowerShape& shape() const { return shape_; }
  /// Requires: pixels.size() == images * 3 * side * side.
  void encode(std::span<const float> pixels, std::vector<float>& features,
              const RowsWatch& watch = {}) const;
  /// The same in pieces: `begin`, all layers by any number of `advance`, `finish`.
  TowerPass begin(std::span<const float> pixels) const;
  void advance(TowerPass& pass, std::size_t layers, const RowsWatch& watch = {}) const;
  void finish(TowerPass& pass, std::vector<float>& features) const;

 private:
  TowerShape shape_;
  Linear patch_;
  std::vector<float> positions_, class_token_, registers_;
  std::vector<Block> blocks_;
  Norm norm_;
};

}  // namespace sluice
