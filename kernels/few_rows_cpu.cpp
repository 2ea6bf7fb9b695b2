#include <algorithm>

#include "kernels/few_rows.h"
#include "kernels/isa.h"
#include "kernels/vector_math.h"

namespace sluice::kernels {

namespace {

SLUICE_LOOP void narrow_all(const float* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = narrow(from[i]);
}
SLUICE_LOOP void widen_all(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = widen(from[i]);
}

}  // namespace

void FewRowsProduct::prepare(std::span<const float> x, const Weight& weight,
                             std::span<const float> bias, std::size_t rows) {
  const std::size_t in = weight.in();
  const std::size_t values = rows * in;
  weight_ = &weight;
  f_ = {};
  f_.x = x.data();
  f_.scales = weight.scales().empty() ? nullptr : weight.scales().data();
  f_.bias = bias.empty() ? nullptr : bias.data();
  f_.rows = rows;
  f_.in = in;
  f_.out = weight.out();
  if (!weight.blocks().empty()) {
    if (any_quantised(weight.blocks())) whole_.assign(x.first(values), in);
    return;
  }
  if (weight.format() == WeightFormat::exact) return;
  rounded_.resize(values);
  narrowed_.resize(values);
  wide<narrow_all>(x.data(), narrowed_.data(), values);
  wide<widen_all>(narrowed_.data(), rounded_.data(), values);
  f_.x = rounded_.data();
  f_.x_bf16 = narrowed_.data();
  if (weight.int8().empty() || !wants_split(in)) return;
  high_.resize(values);
  low_.resize(values);
  scales_.resize(rows);
  for (std::size_t r = 0; r < rows; ++r)
    scales_[r] = split_row(f_.x + r * in, in, &high_[r * in], &low_[r * in]);
  f_.split = {high_.data(), low_.data(), scales_.data(), weight.sums().data()};
}

void FewRowsProduct::compute(std::span<float> y, std::size_t begin, std::size_t end) const {
  FewRows f = f_;
  f.y = y.data();
  if (!weight_->blocks().empty()) {
    few_block_products({f.x, &whole_, f.rows, f.y, f.out}, weight_->blocks(), begin, end);
    for (std::size_t r = 0; f.bias != nullptr && r < f.rows; ++r)
      for (std::size_t o = begin; o < end; ++o) f.y[r * f.out + o] += f.bias[o];
  } else if (!weight_->int8().empty()) {
    matvec(f, weight_->int8().data(), begin, end);
  } else if (!weight_->bf16().empty()) {
    matvec(f, weight_->bf16().data(), begin, end);
  } else {
    matvec(f, weight_->f32().data(), begin, end);
  }
}

}  // namespace sluice::kernels
