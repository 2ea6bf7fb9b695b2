// PNG and JPEG files to pictures, and pictures to PNG.
//
// Bytes are not trusted: format, dimensions and PNG chunks are checked before a decoder sees them.
// Bytes behind a picture's end (cameras and editors put data there) are not read.
// Shape: u8 [height, width, 3] RGB; alpha is laid over white. Bounds: 16,384 a side, 64 megapixels.
// Errors: invalid_argument (what the bytes are instead), corrupt (truncated or damaged),
// exhausted (too large). The message says what, not where: the caller knows the file's name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace sluice {

inline constexpr std::uint32_t image_side_max = 16'384;
inline constexpr std::uint64_t image_pixels_max = 64'000'000;

/// Gives the memory of a picture: u8 of that shape, holding anything. Errors: it is not to be had.
using NewPicture = std::function<Result<Tensor>(std::vector<std::int64_t> shape)>;

/// `make`: where the picture is to stand; empty: in memory of its own.
Result<Tensor> decode_image(std::string_view bytes, const NewPicture& make = {});
std::string encode_png(const Tensor& image);

}  // namespace sluice
