// y = x W^T (+ bias): the product of every linear layer.
//
// Shape: x [rows, in], W [out, in] row-major as checkpoints store it, y [rows, out].
// Weights are bf16 or f32; sums are f32. Few rows are bound by reading W, so they take a
// matrix-vector path over the stored type; many rows go to oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor.h"

namespace sluice::kernels {

/// A weight matrix, ready for both paths. Owns its bytes.
class Weight {
 public:
  Weight() = default;
  /// `tensor` is f32 or bf16, [out, in] (further dimensions count as `in`).
  static Result<Weight> from(const Tensor& tensor);

  std::size_t out() const { return out_; }
  std::size_t in() const { return in_; }
  bool stored_bf16() const { return !bf16_.empty(); }
  const std::uint16_t* bf16() const { return bf16_.data(); }
  const float* f32() const { return f32_.data(); }
  /// Widens one row. Requires: to.size() == in().
  void read_row(std::size_t row, std::span<float> to) const;
  /// Bytes that one pass over the matrix reads in the few-rows path.
  std::size_t stream_bytes() const { return bf16_.empty() ? f32_.size() * 4 : bf16_.size() * 2; }

 private:
  std::size_t out_ = 0;
  std::size_t in_ = 0;
  std::vector<std::uint16_t> bf16_;
  std::vector<float> f32_;
};

/// Requires: x holds rows*in values, y rows*out, bias out values or none.
void matmul_ref(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows);
void matmul_cpu(std::span<const float> x, const Weight& weight, std::span<const float> bias,
                std::span<float> y, std::size_t rows);

/// c = a b for row-major f32: [m, k] [k, n].
void gemm_cpu(const float* a, const float* b, float* c, std::size_t m, std::size_t n,
              std::size_t k);

}  // namespace sluice::kernels
