#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

Result<Weight> Weight::from(const Tensor& tensor, WeightFormat format) {
  if (tensor.shape().size() < 2)
    return invalid_argument("a weight matrix needs two dimensions, this is " + tensor.describe());
  if (tensor.dtype() != Dtype::bf16 && tensor.dtype() != Dtype::f32)
    return invalid_argument("a weight matrix is f32 or bf16, this is " + tensor.describe());
  Weight weight;
  weight.format_ = format;
  weight.out_ = static_cast<std::size_t>(tensor.dim(0));
  weight.in_ = weight.out_ == 0 ? 0 : static_cast<std::size_t>(tensor.count()) / weight.out_;
  const auto count = static_cast<std::size_t>(tensor.count());
  const bool narrow = tensor.dtype() == Dtype::bf16;
  const auto value = [&](std::size_t i) {
    return narrow ? f32_from_bf16(tensor.bf16()[i]) : tensor.f32()[i];
  };
  if (format == WeightFormat::int8) {
    weight.int8_.resize(count);
    for (std::size_t row = 0; row < weight.out_; ++row) {
      float most = 0;
      for (std::size_t i = 0; i < weight.in_; ++i)
        most = std::max(most, std::abs(value(row * weight.in_ + i)));
      weight.scales_.push_back(most / 127);
      const float inverse = most == 0 ? 0 : 127 / most;
      std::int32_t sum = 0;
      for (std::size_t i = row * weight.in_; i < (row + 1) * weight.in_; ++i) {
        weight.int8_[i] = static_cast<std::int8_t>(std::lround(value(i) * inverse));
        sum += weight.int8_[i];
      }
      weight.sums_.push_back(sum);
    }
    return weight;
  }
  if (narrow) {
    weight.bf16_.assign(tensor.bf16().begin(), tensor.bf16().end());
  } else if (format == WeightFormat::bf16) {
    weight.bf16_.resize(count);
    for (std::size_t i = 0; i < count; ++i) weight.bf16_[i] = bf16_from_f32(value(i));
  }
  if (format == WeightFormat::exact) {
    weight.f32_.resize(count);
    for (std::size_t i = 0; i < count; ++i) weight.f32_[i] = value(i);
  }
  return weight;
}

Weight Weight::of_blocks(std::vector<BlockRows> parts) {
  Weight weight;
  weight.blocks_ = std::move(parts);
  for (const BlockRows& part : weight.blocks_) {
    SLUICE_CHECK(part.in == weight.blocks_.front().in, "parts of one width");
    weight.in_ = part.in;
    weight.out_ += part.rows;
  }
  return weight;
}

void Weight::read_row(std::size_t row, std::span<float> to) const {
  for (const BlockRows& part : blocks_) {
    if (row < part.rows) return read_blocks(part.type, part.row(row), to);
    row -= part.rows;
  }
  const std::size_t at = row * in_;
  for (std::size_t i = 0; i < in_; ++i)
    to[i] = !f32_.empty()    ? f32_[at + i]
            : !int8_.empty() ? scales_[row] * static_cast<float>(int8_[at + i])
                             : f32_from_bf16(bf16_[at + i]);
}

std::size_t Weight::stream_bytes() const {
  std::size_t of_blocks = 0;
  for (const BlockRows& part : blocks_) of_blocks += part.rows * part.row_bytes();
  if (of_blocks != 0) return of_blocks;
  return !int8_.empty() ? int8_.size() : bf16_.empty() ? f32_.size() * 4 : bf16_.size() * 2;
}

std::size_t Weight::bytes() const {
  return int8_.size() + bf16_.size() * 2 + f32_.size() * 4 + (scales_.size() + sums_.size()) * 4;
}

void matmul_ref(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows) {
  std::vector<float> w(weight.in());
  const bool rounds = weight.format() != WeightFormat::exact;
  for (std::size_t o = 0; o < weight.out(); ++o) {
    weight.read_row(o, w);
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = bias.empty() ? 0.0 : static_cast<double>(bias[o]);
      for (std::size_t i = 0; i < weight.in(); ++i) {
        const float v = x[r * weight.in() + i];
        sum += static_cast<double>(rounds ? f32_from_bf16(bf16_from_f32(v)) : v) *
               static_cast<double>(w[i]);
      }
      y[r * weight.out() + o] = static_cast<float>(sum);
    }
  }
}

}  // namespace sluice::kernels
