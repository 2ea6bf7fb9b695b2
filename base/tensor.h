// A dense, row-major array of numbers, as a value: a copy shares the bytes until one side writes.
//
// Thread: two tensors with the same bytes may be on two threads; one tensor is on one at a time.
// Shape: outermost dimension first. Bounds: at most 8 dimensions; element count and byte size are
// computed with checked arithmetic, so a hostile shape is an error and never an overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.h"
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
  /// What such a tensor takes. Errors: invalid_argument, as `zeros`.
  static Result<std::size_t> bytes_of(Dtype dtype, const std::vector<std::int64_t>& shape);
  /// Over bytes that are there. Errors: as `zeros`; and bytes that are more or less than its own.
  static Result<Tensor> over(Dtype dtype, std::vector<std::int64_t> shape, Ref<Buffer> bytes);
  static Tensor of_f32(std::vector<std::int64_t> shape, std::vector<float> values);

  Dtype dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t dim(std::size_t axis) const { return shape_[axis]; }
  std::int64_t count() const { return count_; }
  std::size_t bytes_size() const { return buffer_ ? buffer_->size() : 0; }
  bool empty() const { return count_ == 0; }

  /// To write. Spans that were taken before are of the old bytes where these were shared.
  std::span<std::byte> bytes() {
    if (buffer_ && !buffer_->may_write()) own();
    return {data(), bytes_size()};
  }
  std::span<const std::byte> bytes() const { return {data(), bytes_size()}; }
  /// Null where there are no bytes.
  const Ref<Buffer>& buffer() const { return buffer_; }

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
  std::byte* data() const { return buffer_ ? buffer_->data() : nullptr; }
  /// Copies bytes that others read too.
  void own();

  Dtype dtype_ = Dtype::u8;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 0;
  Ref<Buffer> buffer_;
};

}  // namespace sluice
