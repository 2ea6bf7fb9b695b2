#include "kernels/matmul.h"

namespace sluice::kernels {

Result<Weight> Weight::from(const Tensor& tensor) {
  if (tensor.shape().size() < 2)
    return invalid_argument("a weight matrix needs two dimensions, this is " + tensor.describe());
  Weight weight;
  weight.out_ = static_cast<std::size_t>(tensor.dim(0));
  weight.in_ = weight.out_ == 0 ? 0 : static_cast<std::size_t>(tensor.count()) / weight.out_;
  if (tensor.dtype() == Dtype::bf16) {
    weight.bf16_.assign(tensor.bf16().begin(), tensor.bf16().end());
    weight.f32_.reserve(weight.bf16_.size());
    for (const std::uint16_t bits : weight.bf16_) weight.f32_.push_back(f32_from_bf16(bits));
  } else if (tensor.dtype() == Dtype::f32) {
    weight.f32_.assign(tensor.f32().begin(), tensor.f32().end());
  } else {
    return invalid_argument("a weight matrix is f32 or bf16, this is " + tensor.describe());
  }
  return weight;
}

void Weight::read_row(std::size_t row, std::span<float> to) const {
  for (std::size_t i = 0; i < in_; ++i) to[i] = f32_[row * in_ + i];
}

void matmul_ref(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < weight.out(); ++o) {
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[o]);
      for (std::size_t i = 0; i < weight.in(); ++i)
        sum += static_cast<double>(x[r * weight.in() + i]) *
               static_cast<double>(weight.f32()[o * weight.in() + i]);
      y[r * weight.out() + o] = static_cast<float>(sum);
    }
  }
}

}  // namespace sluice::kernels
