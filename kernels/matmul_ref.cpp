#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/huge_vector.h"
#include "kernels/matmul.h"

namespace sluice::kernels {

namespace {

/// What a matrix keeps its numbers in.
struct OwnNumbers {
  HugeVector<std::uint16_t> bf16;
  HugeVector<float> f32;
  HugeVector<std::int8_t> int8;
  std::vector<float> scales;
  std::vector<std::int32_t> sums;
};

template <typename Value>
void quantise(std::size_t out, std::size_t in, const Value& value, OwnNumbers& to) {
  to.int8.resize(out * in);
  for (std::size_t row = 0; row < out; ++row) {
    float most = 0;
    for (std::size_t i = 0; i < in; ++i) most = std::max(most, std::abs(value(row * in + i)));
    to.scales.push_back(most / 127);
    const float inverse = most == 0 ? 0 : 127 / most;
    std::int32_t sum = 0;
    for (std::size_t i = row * in; i < (row + 1) * in; ++i) {
      to.int8[i] = static_cast<std::int8_t>(std::lround(value(i) * inverse));
      sum += to.int8[i];
    }
    to.sums.push_back(sum);
  }
}

}  // namespace

Result<Weight> Weight::from(const Tensor& tensor, WeightFormat format) {
  if (tensor.shape().size() < 2)
    return invalid_argument("a weight matrix needs two dimensions, this is " + tensor.describe());
  if (tensor.dtype() != Dtype::bf16 && tensor.dtype() != Dtype::f32)
    return invalid_argument("a weight matrix is f32 or bf16, this is " + tensor.describe());
  const auto out = static_cast<std::size_t>(tensor.dim(0));
  const std::size_t in = out == 0 ? 0 : static_cast<std::size_t>(tensor.count()) / out;
  const auto count = static_cast<std::size_t>(tensor.count());
  const bool narrow = tensor.dtype() == Dtype::bf16;
  const auto value = [&](std::size_t i) {
    return narrow ? f32_from_bf16(tensor.bf16()[i]) : tensor.f32()[i];
  };
  const auto own = std::make_shared<OwnNumbers>();
  if (format == WeightFormat::int8) {
    quantise(out, in, value, *own);
  } else if (narrow) {
    own->bf16.assign(tensor.bf16().begin(), tensor.bf16().end());
  } else if (format == WeightFormat::bf16) {
    own->bf16.resize(count);
    for (std::size_t i = 0; i < count; ++i) own->bf16[i] = bf16_from_f32(value(i));
  }
  if (format == WeightFormat::exact) {
    own->f32.resize(count);
    for (std::size_t i = 0; i < count; ++i) own->f32[i] = value(i);
  }
  return over(out, in, format, {own->bf16, own->f32, own->int8, own->scales, own->sums}, own);
}

Weight Weight::over(std::size_t out, std::size_t in, WeightFormat format,
                    const WeightNumbers& numbers, std::shared_ptr<const void> owner) {
  for (const std::size_t size : {numbers.bf16.size(), numbers.f32.size(), numbers.int8.size()})
    SLUICE_CHECK(size == 0 || size == out * in, "numbers that are not the matrix'");
  for (const std::size_t size : {numbers.scales.size(), numbers.sums.size()})
    SLUICE_CHECK(size == (format == WeightFormat::int8 ? out : 0),
                 "a scale and a sum for each row");
  Weight weight;
  weight.out_ = out;
  weight.in_ = in;
  weight.format_ = format;
  weight.numbers_ = numbers;
  weight.owner_ = std::move(owner);
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
    to[i] = !f32().empty()    ? f32()[at + i]
            : !int8().empty() ? scales()[row] * static_cast<float>(int8()[at + i])
                              : f32_from_bf16(bf16()[at + i]);
}

std::size_t Weight::stream_bytes() const {
  std::size_t of_blocks = 0;
  for (const BlockRows& part : blocks_) of_blocks += part.rows * part.row_bytes();
  if (of_blocks != 0) return of_blocks;
  return !int8().empty()  ? int8().size()
         : bf16().empty() ? f32().size_bytes()
                          : bf16().size_bytes();
}

std::size_t Weight::bytes() const {
  return int8().size_bytes() + bf16().size_bytes() + f32().size_bytes() + scales().size_bytes() +
         sums().size_bytes();
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
