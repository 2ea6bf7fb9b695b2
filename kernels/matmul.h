// y = x W^T (+ bias): the product of every linear layer.
//
// Shape: x [rows, in], W [out, in] row-major as checkpoints store it, y [rows, out]. Sums are f32.
// Few rows are bound by reading W, so they take a matrix-vector path over the stored type; many
// rows go to the processor's tiles, to products of our own over narrow formats, or to oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/tensor.h"
#include "kernels/elementwise.h"
#include "kernels/quant.h"

namespace sluice::kernels {

/// How a matrix is kept, and with it how its products are rounded. A product does not depend on
/// the number of rows but for the order of its sums.
enum class WeightFormat : std::uint8_t {
  exact,  // as stored; activations f32
  bf16,   // activations are rounded to bf16 before a product, as GPUs do
  int8,   // a scale per output row; activations are rounded to bf16, then to 16 bits for few rows
};

/// A matrix' numbers, where they lie; those that its format does not keep are empty.
struct WeightNumbers {
  std::span<const std::uint16_t> bf16;  // [out, in], as the next two
  std::span<const float> f32;
  std::span<const std::int8_t> int8;
  std::span<const float> scales;       // [out]
  std::span<const std::int32_t> sums;  // of the whole numbers in each row
};

/// A weight matrix, ready for both paths. Its bytes never change, and copies share them.
class Weight {
 public:
  Weight() = default;
  /// `tensor` is f32 or bf16, [out, in] (further dimensions count as `in`).
  static Result<Weight> from(const Tensor& tensor, WeightFormat format = WeightFormat::exact);
  /// Rows in a file's blocks, one part below the other, multiplied as they lie; exact. Requires:
  /// all parts have one width.
  static Weight of_blocks(std::vector<BlockRows> parts);
  /// Of numbers that are there, as `numbers()` of one that `from` made; `owner` keeps them.
  /// Requires: their sizes fit.
  static Weight over(std::size_t out, std::size_t in, WeightFormat format,
                     const WeightNumbers& numbers, std::shared_ptr<const void> owner);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  WeightFormat format() const { return format_; }
  /// In the formats that keep it; empty otherwise.
  std::span<const std::uint16_t> bf16() const { return numbers_.bf16; }
  std::span<const float> f32() const { return numbers_.f32; }
  std::span<const std::int8_t> int8() const { return numbers_.int8; }
  std::span<const float> scales() const { return numbers_.scales; }
  std::span<const std::int32_t> sums() const { return numbers_.sums; }
  const WeightNumbers& numbers() const { return numbers_; }
  /// Empty: the matrix is in one of the others.
  std::span<const BlockRows> blocks() const { return blocks_; }

  /// The matrix' row as it enters products. Requires: to.size() == in().
  void read_row(std::size_t row, std::span<float> to) const;
  /// Bytes that one pass over the matrix reads in the few-rows path.
  std::size_t stream_bytes() const;
  /// Bytes it holds.
  std::size_t bytes() const;

 private:
  std::size_t out_ = 0;
  std::size_t in_ = 0;
  WeightFormat format_ = WeightFormat::exact;
  WeightNumbers numbers_;
  std::shared_ptr<const void> owner_;  // of the numbers
  std::vector<BlockRows> blocks_;
};

/// Requires: x holds rows*in values, y rows*out, bias out values or none.
void matmul_ref(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows);
void matmul_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows);
/// A product and what follows it, in one pass where that is faster. Activated: as matmul_cpu, then
/// activate_cpu.
void matmul_activate_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                         std::span<const float> bias, std::span<float> y, std::size_t rows);
/// W holds gates, then as many partners: y [rows, out / 2], as gated_cpu makes it of the product.
void matmul_gated_cpu(Activation kind, std::span<const float> x, const Weight& weight,
                      std::span<const float> bias, std::span<float> y, std::size_t rows);
/// y += the product.
void matmul_add_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                    std::span<float> y, std::size_t rows);

}  // namespace sluice::kernels
