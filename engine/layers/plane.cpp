#include "engine/layers/plane.h"

#include "base/check.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"

namespace sluice {

Plane convolve(const Plane& x, const Linear& layer, std::size_t kernel, std::size_t stride) {
  const kernels::ConvShape shape{x.channels, layer.weight.out(), x.height, x.width, stride, kernel};
  SLUICE_CHECK(layer.weight.in() == x.channels * shape.taps(), "codec layers do not fit");
  Plane y{{}, shape.out, shape.out_height(), shape.out_width()};
  y.values.resize(y.channels * y.pixels());
  kernels::conv2d_cpu(shape, x.values, layer.weight, layer.bias, y.values);
  return y;
}

Plane upsample2x(const Plane& x) {
  Plane y{{}, x.channels, x.height * 2, x.width * 2};
  y.values.resize(y.channels * y.pixels());
  float* to = y.values.data();
  for (std::size_t row = 0; row < y.channels * y.height; ++row) {
    const float* from = &x.values[row / 2 * x.width];
    for (std::size_t column = 0; column < y.width; ++column) *to++ = from[column / 2];
  }
  return y;
}

void add(Plane& x, const Plane& y) {
  SLUICE_CHECK(x.values.size() == y.values.size(), "a residual keeps its shape");
  kernels::add_cpu(x.values, y.values);
}

std::vector<float> to_rows(const Plane& x) {
  std::vector<float> rows(x.values.size());
  for (std::size_t c = 0; c < x.channels; ++c)
    for (std::size_t p = 0; p < x.pixels(); ++p)
      rows[p * x.channels + c] = x.values[c * x.pixels() + p];
  return rows;
}

Plane from_rows(const std::vector<float>& rows, const Plane& like) {
  Plane made{std::vector<float>(rows.size()), like.channels, like.height, like.width};
  for (std::size_t c = 0; c < like.channels; ++c)
    for (std::size_t p = 0; p < like.pixels(); ++p)
      made.values[c * like.pixels() + p] = rows[p * like.channels + c];
  return made;
}

}  // namespace sluice
