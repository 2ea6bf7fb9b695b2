// A picture on its way to the rows that stand for it in a decoder, a piece at a time.
//
// A piece is one layer of the tower over one picture of its size (SmolVLM's tiles are several), or
// over a few small ones, so a long encoding can be done between other works. The rows are those of
// `Model::features`: bit for bit where as many pictures went through a layer together, else but for
// the order of a product's sums.
// Thread: one at a time. Errors: invalid_argument (pixels that are not what the tower takes).
#pragma once

#include <vector>

#include "engine/family/model.h"

namespace sluice {

class PictureForward {
 public:
  /// Of what a family's preprocessing leaves. Borrows the model.
  static Result<PictureForward> begin(const Model& model, std::vector<float> pixels,
                                      std::vector<Grid> grids);

  /// That are left.
  std::size_t pieces() const { return pieces_; }
  bool done() const { return pieces_ == 0; }
  /// What they cost, as rows through the decoder would; at least one while a piece is left.
  std::size_t cost() const { return cost(pieces_); }
  /// So many of them.
  std::size_t cost(std::size_t pieces) const;
  /// The most that cost no more than so many rows, but one at least. Requires: not done.
  std::size_t pieces_within(std::size_t rows) const;
  /// Requires: so many are left.
  void run(std::size_t pieces);
  /// Requires: done.
  std::vector<float> take_features() { return std::move(features_); }

 private:
  explicit PictureForward(const Model& model) : model_(&model) {}
  std::size_t run_tower(std::size_t pieces);

  const Model* model_;
  std::vector<float> pixels_;
  std::vector<Grid> grids_;
  std::size_t pieces_ = 0;
  double piece_cost_ = 0;               // in rows of the decoder
  std::size_t images_ = 0, image_ = 0;  // of the tower's size; which is under way, or the first of
  std::size_t group_ = 1;               // so many that are
  TowerPass tower_;
  QwenVisionPass qwen_;
  bool begun_ = false;  // the passes: `image_`, or all of Qwen2.5-VL's
  std::vector<float> seen_, features_;
};

}  // namespace sluice
