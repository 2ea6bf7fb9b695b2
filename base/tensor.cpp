#include "base/tensor.h"

#include <bit>
#include <cstring>

namespace sluice {

std::size_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8: return 1;
    case Dtype::bf16: return 2;
    case Dtype::i32:
    case Dtype::f32: return 4;
    case Dtype::i64: return 8;
  }
  return 0;
}

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::u8: return "u8";
    case Dtype::bf16: return "bf16";
    case Dtype::i32: return "i32";
    case Dtype::f32: return "f32";
    case Dtype::i64: return "i64";
  }
  return "?";
}

std::uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  const std::uint32_t rounding = 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>((bits + rounding) >> 16);
}

float f32_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits} >> 15U << 31U;
  const std::uint32_t exponent = bits >> 10U & 31U;
  const std::uint32_t fraction = bits & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 255U << 23U | fraction << 13U);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112U) << 23U | fraction << 13U);
  // Subnormal: fraction * 2^-24, which f32 holds exactly.
  const float value = static_cast<float>(fraction) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

namespace {

struct Extent {
  std::int64_t count = 1;
  std::size_t bytes = 0;
};

Result<Extent> extent_of(Dtype dtype, const std::vector<std::int64_t>& shape) {
  if (shape.size() > Tensor::rank_max)
    return invalid_argument("tensor of " + std::to_string(shape.size()) + " dimensions, at most " +
                            std::to_string(Tensor::rank_max) + " are allowed");
  Extent extent;
  for (const std::int64_t size : shape) {
    if (size < 0) return invalid_argument("negative dimension " + std::to_string(size));
    if (__builtin_mul_overflow(extent.count, size, &extent.count))
      return invalid_argument("tensor shape overflows 64 bits");
  }
  if (__builtin_mul_overflow(static_cast<std::size_t>(extent.count), size_of(dtype), &extent.bytes))
    return invalid_argument("tensor size overflows 64 bits");
  return extent;
}

}  // namespace

Result<Tensor> Tensor::zeros(Dtype dtype, std::vector<std::int64_t> shape, std::size_t bytes_max) {
  const Result<Extent> extent = extent_of(dtype, shape);
  if (!extent) return extent.error();
  if (extent->bytes > bytes_max)
    return Error{ErrorCode::exhausted, "tensor of " + std::to_string(extent->bytes) +
                                           " bytes, the limit is " + std::to_string(bytes_max)};
  Ref<Buffer> bytes;
  if (extent->bytes > 0) bytes = Buffer::zeros(extent->bytes);
  if (extent->bytes > 0 && !bytes)
    return Error{ErrorCode::exhausted,
                 "tensor of " + std::to_string(extent->bytes) + " bytes: there is no such memory"};
  return over(dtype, std::move(shape), std::move(bytes));
}

Result<std::size_t> Tensor::bytes_of(Dtype dtype, const std::vector<std::int64_t>& shape) {
  const Result<Extent> extent = extent_of(dtype, shape);
  if (!extent) return extent.error();
  return extent->bytes;
}

Result<Tensor> Tensor::over(Dtype dtype, std::vector<std::int64_t> shape, Ref<Buffer> bytes) {
  const Result<Extent> extent = extent_of(dtype, shape);
  if (!extent) return extent.error();
  const std::size_t given = bytes ? bytes->size() : 0;
  if (extent->bytes != given)
    return invalid_argument("a tensor of " + std::to_string(extent->bytes) + " bytes over " +
                            std::to_string(given));
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = std::move(shape);
  tensor.count_ = extent->count;
  tensor.buffer_ = std::move(bytes);
  return tensor;
}

void Tensor::own() {
  Ref<Buffer> copy = Buffer::zeros(buffer_->size());
  SLUICE_CHECK(copy, "no memory for a copy of a tensor");
  std::memcpy(copy->data(), buffer_->data(), buffer_->size());
  buffer_ = std::move(copy);
}

Tensor Tensor::of_f32(std::vector<std::int64_t> shape, std::vector<float> values) {
  Tensor tensor = std::move(zeros(Dtype::f32, std::move(shape))).value();
  SLUICE_CHECK(static_cast<std::size_t>(tensor.count_) == values.size());
  if (!values.empty()) std::memcpy(tensor.data(), values.data(), tensor.bytes_size());
  return tensor;
}

namespace {

template <typename T, typename Bytes>
std::span<T> as(Bytes bytes, Dtype have, Dtype want, std::int64_t count) {
  SLUICE_CHECK(have == want, "tensor holds another element type");
  return {reinterpret_cast<T*>(bytes.data()), static_cast<std::size_t>(count)};
}

}  // namespace

std::span<float> Tensor::f32() { return as<float>(bytes(), dtype_, Dtype::f32, count_); }
std::span<const float> Tensor::f32() const {
  return as<const float>(bytes(), dtype_, Dtype::f32, count_);
}
std::span<std::uint8_t> Tensor::u8() {
  return as<std::uint8_t>(bytes(), dtype_, Dtype::u8, count_);
}
std::span<const std::uint8_t> Tensor::u8() const {
  return as<const std::uint8_t>(bytes(), dtype_, Dtype::u8, count_);
}
std::span<std::int32_t> Tensor::i32() {
  return as<std::int32_t>(bytes(), dtype_, Dtype::i32, count_);
}
std::span<const std::int32_t> Tensor::i32() const {
  return as<const std::int32_t>(bytes(), dtype_, Dtype::i32, count_);
}
std::span<std::uint16_t> Tensor::bf16() {
  return as<std::uint16_t>(bytes(), dtype_, Dtype::bf16, count_);
}
std::span<const std::uint16_t> Tensor::bf16() const {
  return as<const std::uint16_t>(bytes(), dtype_, Dtype::bf16, count_);
}

std::string Tensor::describe() const {
  std::string text{to_string(dtype_)};
  text += '[';
  for (std::size_t axis = 0; axis < shape_.size(); ++axis)
    text += (axis ? ", " : "") + std::to_string(shape_[axis]);
  return text + ']';
}

}  // namespace sluice
