// A dense, row-major array of numbers that owns its bytes.
//
// Shape: outermost dimension first. Bounds: at most 8 dimensions; element count and byte size are
// computed with checked arithmetic, so a hostile shape is an error and never an overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice {

enum class Dtype : std::uint8_t { u8, i32, i64, f32, bf16 };

std::size_t size_of(Dtype dtype);
std::string_view to_string(Dtype dtype);

/// bf16 is the upper half of an f32. Rounds to nearest even; a NaN stays a NaN.
std::uint16_t bf16_from_f32(float value);
float f32_from_bf16(std::uint16_t bits);
/// IEEE half precision, widened exactly.
float f32_from_f16(std::uint16_t bits);

class Tensor {
 public:
  static constexpr std::size_t rank_max = 8;

  Tensor() = default;

  /// Zero-filled. Errors: invalid_argument (rank, negative size, overflow), exhausted (>
  /// bytes_max).
  static Result<Tensor> zeros(Dtype dtype, std::vector<std::int64_t> shape,
                              std::size_t bytes_max = std::size_t{1} << 36);
  static Tensor of_f32(std::vector<std::int64_t> shape, std::vector<float> values);

  Dtype dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t dim(std::size_t axis) const { return shape_[axis]; }
  std::int64_t count() const { return count_; }
  std::size_t bytes_size() const { return bytes_.size(); }
  bool empty() const { return count_ == 0; }

  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Requires: the dtype is the element's.
  std::span<float> f32();
  std::span<const float> f32() const;
  std::span<std::uint8_t> u8();
  std::span<const std::uint8_t> u8() const;
  std::span<std::int32_t> i32();
  std::span<const std::int32_t> i32() const;
  std::span<std::uint16_t> bf16();
  std::span<const std::uint16_t> bf16() const;

  /// "f32[4, 256]"
  std::string describe() const;

 private:
  Dtype dtype_ = Dtype::u8;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace sluice
