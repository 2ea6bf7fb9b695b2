#include "kernels/conv2d.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/kernels/paths.h"

namespace sluice::kernels {
namespace {

Tensor random_tensor(std::size_t rows, std::size_t columns, SplitMix64& random) {
  std::vector<float> values(rows * columns);
  for (float& v : values) v = static_cast<float>(random.normal());
  return Tensor::of_f32({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)},
                        std::move(values));
}

TEST_CASE("the fast convolution equals the reference over odd sizes, strides and one pixel") {
  SLUICE_EACH_PATH;
  SplitMix64 random(7);
  for (const ConvShape shape :
       {ConvShape{1, 1, 1, 1, 1}, ConvShape{3, 5, 7, 9, 1}, ConvShape{3, 5, 7, 9, 2},
        ConvShape{2, 4, 8, 8, 2}, ConvShape{5, 3, 1, 6, 2}, ConvShape{16, 17, 13, 5, 1},
        ConvShape{32, 32, 6, 9, 1}, ConvShape{7, 5, 4, 3, 1, 1}, ConvShape{32, 16, 5, 5, 1, 1},
        ConvShape{16, 128, 18, 12, 1}, ConvShape{8, 64, 33, 7, 2}, ConvShape{8, 128, 9, 9, 1, 1},
        ConvShape{4, 3, 140, 3, 2}}) {
    const Tensor x = random_tensor(shape.in, shape.height * shape.width, random);
    const Tensor bias = random_tensor(1, shape.out, random);
    const Weight weight =
        std::move(Weight::from(random_tensor(shape.out, shape.in * shape.taps(), random))).value();
    std::vector<float> fast(shape.out * shape.out_height() * shape.out_width());
    std::vector<float> truth(fast.size());
    conv2d_ref(shape, x.f32(), weight, bias.f32(), truth);
    conv2d_cpu(shape, x.f32(), weight, bias.f32(), fast);
    // f32 accumulation over in*9 products of unit normals.
    const double tolerance = 1.2e-7 * 4 * static_cast<double>(shape.in * shape.taps()) + 1e-6;
    double worst = 0;
    for (std::size_t i = 0; i < fast.size(); ++i)
      worst = std::max(worst, std::abs(double{fast[i]} - double{truth[i]}));
    CHECK(worst <= tolerance);
    // The same check sees a planted mistake: one tap left out.
    std::vector<float> wrong_x(x.f32().begin(), x.f32().end());
    wrong_x[0] = 0;
    conv2d_cpu(shape, wrong_x, weight, bias.f32(), fast);
    double planted = 0;
    for (std::size_t i = 0; i < fast.size(); ++i)
      planted = std::max(planted, std::abs(double{fast[i]} - double{truth[i]}));
    CHECK(planted > tolerance);
  }
}

}  // namespace
}  // namespace sluice::kernels
