#include "engine/family/picture_forward.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "engine/family/memory_plan.h"

namespace sluice {

namespace {

/// Small pictures go through a layer together up to so many rows: fewer are slower, each.
constexpr std::size_t group_rows = 1024;

/// Products of a row through all layers.
double products(const BlockShape& block, std::size_t layers) {
  return parameter_count(block) * static_cast<double>(layers);
}

}  // namespace

Result<PictureForward> PictureForward::begin(const Model& model, std::vector<float> pixels,
                                             std::vector<Grid> grids) {
  const Result<std::size_t> images = model.check_pictures(pixels, grids);
  if (!images.ok()) return images.error();
  const Architecture& a = model.architecture();
  PictureForward made(model);
  made.pixels_ = std::move(pixels);
  made.grids_ = std::move(grids);
  const double row = a.text.has_value() ? products(a.text->block, a.text->layers) : 1;
  if (a.qwen_vision.has_value()) {
    const QwenVisionShape& shape = *a.qwen_vision;
    made.pieces_ = made.pixels_.empty() ? 0 : shape.layers;
    made.piece_cost_ = static_cast<double>(made.pixels_.size() / shape.patch_values()) *
                       products(shape.block, 1) / row;
  } else {
    const std::size_t patches = a.vision->patches();
    made.images_ = *images;
    made.group_ = std::max<std::size_t>(1, group_rows / patches);
    const std::size_t groups = (made.images_ + made.group_ - 1) / made.group_;
    made.pieces_ = groups * a.vision->layers;
    made.piece_cost_ = static_cast<double>(std::min(made.images_, made.group_) * patches) *
                       products(a.vision->block, 1) / row;
    if (model.has_two_towers()) {  // side by side (OpenVLA), in one piece
      made.pieces_ = std::min<std::size_t>(groups, 1);
      made.piece_cost_ = static_cast<double>(made.images_ * patches) *
                         (products(a.vision->block, a.vision->layers) +
                          products(a.second_vision->block, a.second_vision->layers)) /
                         row;
    }
  }
  return made;
}

std::size_t PictureForward::cost(std::size_t pieces) const {
  const double rows = piece_cost_ * static_cast<double>(pieces);
  return pieces == 0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(rows)));
}

std::size_t PictureForward::pieces_within(std::size_t rows) const {
  const double most = static_cast<double>(rows) / piece_cost_;
  if (rows >= cost() || most >= static_cast<double>(pieces_)) return pieces_;
  std::size_t pieces = std::max<std::size_t>(1, static_cast<std::size_t>(most));
  while (pieces > 1 && cost(pieces) > rows) --pieces;  // rounding
  return pieces;
}

/// Through one group's layers, at most. Returns how many.
std::size_t PictureForward::run_tower(std::size_t pieces) {
  const Tower& tower = model_->vision();
  const TowerShape& shape = tower.shape();
  const std::size_t values = 3 * shape.side * shape.side;
  const std::size_t together = std::min(group_, images_ - image_);
  if (!begun_) tower_ = tower.begin(std::span(pixels_).subspan(image_ * values, together * values));
  begun_ = true;
  const std::size_t layers = std::min(pieces, shape.layers - tower_.layer);
  tower.advance(tower_, layers);
  if (tower_.layer < shape.layers) return layers;
  std::vector<float> rows;
  tower.finish(tower_, rows);
  seen_.insert(seen_.end(), rows.begin(), rows.end());
  begun_ = false;
  image_ += together;
  return layers;
}

void PictureForward::run(std::size_t pieces) {
  SLUICE_CHECK(pieces <= pieces_, "a picture has so many pieces");
  pieces_ -= pieces;
  if (model_->has_two_towers()) {
    if (pieces != 0) features_ = std::move(model_->features(pixels_, grids_)).value();
    return;
  }
  if (model_->architecture().qwen_vision.has_value()) {
    const QwenVision& tower = model_->qwen_vision();
    if (!begun_) qwen_ = tower.begin(pixels_, grids_);
    begun_ = true;
    tower.advance(qwen_, pieces);
    if (done()) tower.finish(qwen_, features_);
    return;
  }
  while (pieces != 0) pieces -= run_tower(pieces);
  if (done()) features_ = model_->project(std::move(seen_));
}

}  // namespace sluice
