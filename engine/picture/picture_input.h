// A picture as a model wants it: resized, cut, and normalised as its family's processor does it.
//
// Read from `preprocessor_config.json` where there is one; keys that are missing take the family's
// defaults. Shape: in, u8 [height, width, 3]; out, `pixel_values` as docs/MODELS.md lists them.
// Errors: corrupt (which key, what it must be), invalid_argument (a picture that does not do).
// Source: the image processors of Hugging Face `transformers` (Pillow's resizing), openpi's and
// lerobot's `resize_with_pad`, OpenVLA's PrismaticImageProcessor.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/tensor.h"
#include "engine/family/architecture.h"
#include "engine/picture/resample.h"

namespace sluice {

struct PictureSteps {
  enum class Fit : std::uint8_t {
    stretch,       // to height x width
    shortest,      // the short side to `shortest`, then the centre height x width
    pad_centre,    // within height x width, black around (openpi)
    pad_corner,    // the same by interpolation, black above and to the left (SmolVLA)
    pad_border,    // within a square, the mean colour of its border around (models/scenes)
    whole_patches  // any size of whole merged patches (Qwen2.5-VL)
  };
  using Channels = std::array<float, 3>;

  Fit fit = Fit::stretch;
  Filter filter = Filter::bicubic;
  std::size_t height = 0, width = 0;
  std::size_t shortest = 0;
  bool crop = true;                            // of `shortest`
  std::size_t pixels_min = 0, pixels_max = 0;  // of whole_patches
  std::size_t longest = 0;                     // SmolVLM: first the long side to this
  bool split = false;                          // SmolVLM: then tiles of height x width too
  std::vector<Channels> mean, deviation;       // one each; OpenVLA: one for each tower

  /// `parse` of what stands in the directory, and a tower of a fixed side gets pictures of that.
  static Result<PictureSteps> load(const std::string& directory, const Architecture& architecture);
  static Result<PictureSteps> parse(const std::string& json, const std::string& name,
                                    const Architecture& architecture);
};

/// What a model takes for one picture.
struct PictureInput {
  std::vector<float> pixels;    // [pictures, 3 (OpenVLA: 6), height, width]; Qwen2.5-VL: patches
  std::vector<float> features;  // what the tower made of them; `ChatModel::encode_picture` fills it
  std::vector<Grid> grids;      // Qwen2.5-VL
  std::size_t tile_rows = 0, tile_columns = 0;  // SmolVLM: tiles before the whole picture
  std::size_t feature_rows = 0;                 // that stand for it in the decoder
  std::string content;                          // hash of the picture; empty: unknown
};

/// `image`: u8 [height, width, 3].
Result<PictureInput> prepare_picture(const PictureSteps& steps, const Architecture& architecture,
                                     const Tensor& image);

}  // namespace sluice
