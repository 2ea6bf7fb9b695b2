#include "engine/tasks/encoding.h"

#include <algorithm>

namespace sluice {

Result<std::unique_ptr<Encoding>> Encoding::make(const Model& model, std::vector<float> pixels,
                                                 std::vector<Grid> grids, const Options& options) {
  Result<PictureForward> picture =
      PictureForward::begin(model, std::move(pixels), std::move(grids));
  if (!picture.ok()) return picture.error();
  if (picture->done()) return invalid_argument("there is no picture to encode");
  return std::unique_ptr<Encoding>(new Encoding(std::move(picture).value(), options));
}

Need Encoding::need(const TextEngine&) const {
  Need need;
  need.kind = Need::Kind::prompt;
  need.rows = static_cast<std::uint32_t>(picture_.cost());
  need.divisible = true;
  need.least = static_cast<std::uint32_t>(picture_.cost(1));
  need.priority = options_.priority;
  need.deadline = options_.deadline;
  return need;
}

void Encoding::lay_out(const TextEngine&, std::size_t rows, Work& work) {
  work.picture = &picture_;
  work.pieces = picture_.pieces_within(rows);
}

}  // namespace sluice
