#include "roles/picture_features.h"

#include <string>

#include "base/sha256.h"
#include "roles/tenant.h"

namespace sluice {

namespace {

constexpr std::int64_t tiles_most = 64;      // a side
constexpr std::int64_t patches_most = 4096;  // a side

std::int64_t wide(std::size_t value) { return static_cast<std::int64_t>(value); }

Error wrong(const Tensor& rows, const std::string& what) {
  return Error{ErrorCode::invalid_argument, "the features are " + rows.describe() + ", " + what};
}

/// Rows that stand for a picture of this grid; 0: there is no such grid.
std::size_t rows_of(const Payload& features, std::size_t merge, Grid& grid) {
  const char* const names[] = {"grid_t", "grid_h", "grid_w"};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t side = features.attribute(names[i]).value_or(0);
    if (side < 1 || side > patches_most || (i > 0 && side % wide(merge) != 0)) return 0;
    grid[i] = static_cast<std::uint32_t>(side);
  }
  return std::size_t{grid[0]} * (grid[1] / merge) * (grid[2] / merge);
}

/// Rows are read at positions that the grid or the tiles decide: the same rows of another grid are
/// another picture, whose keys and values nobody may take for this one's.
std::string content_of(const PictureInput& picture, const Tensor& rows) {
  const auto bytes = rows.bytes();
  const auto seen = sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  std::string text(seen.begin(), seen.end());
  text += " " + std::to_string(picture.tile_rows) + " " + std::to_string(picture.tile_columns);
  for (const Grid& grid : picture.grids)
    for (const std::uint32_t side : grid) text += " " + std::to_string(side);
  const auto digest = sha256(text);
  return {digest.begin(), digest.end()};
}

}  // namespace

Result<PayloadRef> features_payload(const PictureInput& picture, std::size_t width,
                                    Activation& activation) {
  std::vector<std::pair<std::string, std::int64_t>> attributes;
  if (picture.tile_rows != 0)
    attributes = {{"tile_rows", wide(picture.tile_rows)},
                  {"tile_columns", wide(picture.tile_columns)}};
  if (!picture.grids.empty())
    attributes = {{"grid_t", picture.grids[0][0]},
                  {"grid_h", picture.grids[0][1]},
                  {"grid_w", picture.grids[0][2]}};
  if (activation.interface() == "encode")
    if (const Result<std::string> whose = tenant_of(*activation.input("image")); whose.ok())
      add_tenant(*whose, attributes);
  Result<Tensor> rows = activation.output_of_f32(
      "features", {wide(picture.features.size() / width), wide(width)}, picture.features);
  if (!rows.ok()) return rows.error();
  return make_tensor(std::move(rows).value(), std::move(attributes));
}

Result<PictureInput> picture_of(const Payload& features, const Model& reader) {
  const Architecture& model = reader.architecture();
  const Tensor& rows = features.tensor;
  const std::size_t width = reader.text().width();
  if (model.image_token == -1) return invalid_argument("the model takes no pictures");
  if (rows.dtype() != Dtype::f32 || rows.shape().size() != 2 || rows.dim(0) < 1 ||
      rows.dim(1) != wide(width))
    return wrong(rows, "this model reads f32[rows, " + std::to_string(width) + "]");
  PictureInput made;
  std::size_t expected = 0;
  if (model.qwen_vision.has_value()) {
    Grid grid{};
    expected = rows_of(features, model.qwen_vision->merge, grid);
    if (expected == 0) return wrong(rows, "without a grid of patches that this model reads");
    made.grids.push_back(grid);
  } else {
    const std::int64_t down = features.attribute("tile_rows").value_or(0);
    const std::int64_t across = features.attribute("tile_columns").value_or(0);
    if (down < 0 || across < 0 || down > tiles_most || across > tiles_most)
      return wrong(rows, "of more tiles than a picture has");
    made.tile_rows = static_cast<std::size_t>(down);
    made.tile_columns = static_cast<std::size_t>(across);
    expected = (made.tile_rows * made.tile_columns + 1) * model.vision->patches() /
               (model.pixel_shuffle * model.pixel_shuffle);
  }
  if (rows.dim(0) != wide(expected))
    return wrong(rows, "a picture of its tiles or grid has " + std::to_string(expected) +
                           " rows for this model");
  made.feature_rows = expected;
  made.features.assign(rows.f32().begin(), rows.f32().end());
  made.content = content_of(made, rows);
  return made;
}

}  // namespace sluice
