// Brings pictures to another size as the libraries do that models were trained with.
//
// `resample` equals Pillow's resize (before 13) bit for bit: separable filters, widened when
// shrinking, rows' values first, weights in whole numbers of 2^-22. `interpolate` is PyTorch's
// bilinear interpolation, which does not widen. Shape: u8 or f32 [height, width, 3]. Sizes are the
// caller's to limit.
// caller's to limit. Source: Pillow's ImageResize; torch.nn.functional.interpolate (align_corners
// false).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

enum class Filter : std::uint8_t { bilinear, bicubic, lanczos };

/// Bytes of a picture, row by row.
struct Picture {
  std::vector<std::uint8_t> bytes;
  std::size_t height = 0, width = 0;
};

Picture resample(const Picture& from, std::size_t height, std::size_t width, Filter filter);
/// Values 0 to 255.
std::vector<float> interpolate(const Picture& from, std::size_t height, std::size_t width);

}  // namespace sluice
