// A product of few rows in two halves: x is made ready once, then any thread computes any outputs.
//
// For loops that no thread owns (a decode step), and for `matmul_cpu`. Shape: x [rows, in], y
// [rows, out]. Owns: what x became; kept from one product to the next, its memory stays. Bits: an
// output's do not depend on how the outputs are cut.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/matvec.h"
#include "kernels/quant.h"

namespace sluice::kernels {

class FewRowsProduct {
 public:
  /// Values of a matrix that are worth a thread.
  static constexpr std::size_t values_per_thread = 1 << 16;

  /// Requires: x and the weight stay as they are until the last output is computed; over blocks one
  /// row, or no more than `block_rows_few` where VNNI is not used.
  void prepare(std::span<const float> x, const Weight& weight, std::span<const float> bias,
               std::size_t rows);
  /// Outputs [begin, end) of each row of y. By several threads at once. Requires: y holds rows *
  /// out.
  void compute(std::span<float> y, std::size_t begin, std::size_t end) const;

  std::size_t out() const { return weight_->out(); }
  /// Outputs that are worth a thread.
  std::size_t grain() const { return values_per_thread / weight_->in() + 1; }

 private:
  const Weight* weight_ = nullptr;
  FewRows f_;
  WholeRows whole_;  // over blocks
  std::vector<float> rounded_, scales_;
  std::vector<std::uint16_t> narrowed_;
  std::vector<std::uint8_t> high_, low_;
};

}  // namespace sluice::kernels
