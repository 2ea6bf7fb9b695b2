#include "plugin/value.h"

#include <array>
#include <cstring>

#include "plugin/text.h"

namespace sluice {

namespace {

constexpr std::size_t bytes_max = std::size_t{1} << 36;
constexpr std::size_t attributes_max = 64;
constexpr std::size_t name_max = 64;

bool is_tensor(std::uint32_t type) {
  return type == SLUICE_IMAGE || type == SLUICE_AUDIO || type == SLUICE_TENSOR;
}

constexpr std::array<Dtype, 6> dtypes{Dtype::u8,  Dtype::u8,  Dtype::i32,
                                      Dtype::i64, Dtype::f32, Dtype::bf16};

/// Checked against the plugin's own size before anything is allocated.
Result<Tensor> tensor_from(const sluice_value& value) {
  if (value.rank > Tensor::rank_max || (value.rank != 0 && value.shape == nullptr))
    return invalid_argument("a tensor of " + std::to_string(value.rank) +
                            " dimensions, or without its shape");
  const std::optional<Dtype> dtype = dtype_from(value.dtype);
  if (!dtype)
    return invalid_argument("a tensor of the unknown dtype " + std::to_string(value.dtype));
  std::uint64_t bytes = size_of(*dtype);
  for (std::uint64_t axis = 0; axis < value.rank; ++axis)
    if (value.shape[axis] < 0 ||
        __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(value.shape[axis]), &bytes))
      return invalid_argument("a tensor with the size " + std::to_string(value.shape[axis]) +
                              " in dimension " + std::to_string(axis));
  if (bytes != value.data_size || (bytes != 0 && value.data == nullptr))
    return invalid_argument("a tensor of " + std::to_string(value.data_size) +
                            " bytes, its shape has " + std::to_string(bytes) +
                            ", or without its bytes");
  Result<Tensor> tensor =
      Tensor::zeros(*dtype, std::vector<std::int64_t>(value.shape, value.shape + value.rank));
  if (tensor.ok() && bytes != 0) std::memcpy(tensor->bytes().data(), value.data, bytes);
  return tensor;
}

Result<void> add_attributes(const sluice_value& value, Payload& to) {
  if (value.attribute_count > attributes_max ||
      (value.attribute_count != 0 && value.attributes == nullptr))
    return invalid_argument(std::to_string(value.attribute_count) + " attributes, at most " +
                            std::to_string(attributes_max) + " are allowed");
  for (std::uint64_t i = 0; i < value.attribute_count; ++i) {
    const auto name = text_of(value.attributes[i].name, name_max);
    if (!name || !is_utf8(*name)) return invalid_argument("an attribute without a readable name");
    to.attributes.emplace_back(*name, value.attributes[i].value);
  }
  return {};
}

Result<void> add_content(const sluice_value& value, Payload& to) {
  if (value.type == SLUICE_NUMBER) {
    to.number = value.number;
    return {};
  }
  if (is_tensor(value.type)) {
    Result<Tensor> tensor = tensor_from(value);
    if (!tensor.ok()) return tensor.error();
    to.tensor = std::move(tensor).value();
    return {};
  }
  const auto text = text_of(value.text, bytes_max);
  if (!text)
    return invalid_argument("a text of " + std::to_string(value.text.size) +
                            " bytes, or without its bytes");
  if (value.type != SLUICE_BYTES && !is_utf8(*text))
    return invalid_argument("a text that is not UTF-8");
  to.text = *text;
  return {};
}

}  // namespace

std::optional<Dtype> dtype_from(std::uint32_t dtype) {
  if (dtype < SLUICE_U8 || dtype > SLUICE_BF16) return std::nullopt;
  return dtypes[dtype];
}

std::uint32_t to_c(Dtype dtype) {
  for (std::uint32_t i = SLUICE_U8; i <= SLUICE_BF16; ++i)
    if (dtypes[i] == dtype) return i;
  return 0;
}

bool holds_tensor(std::uint32_t type) { return is_tensor(type); }

Result<PayloadRef> payload_from(const sluice_value& value) {
  if (value.type < SLUICE_JSON || value.type > SLUICE_BYTES)
    return invalid_argument("a value of the unknown type " + std::to_string(value.type));
  auto* made = new Payload;
  PayloadRef ref(made);
  made->type = static_cast<ValueType>(value.type);
  if (Result<void> added = add_content(value, *made); !added.ok()) return added.error();
  if (Result<void> added = add_attributes(value, *made); !added.ok()) return added.error();
  return ref;
}

static_assert(static_cast<int>(ValueType::json) == SLUICE_JSON &&
              static_cast<int>(ValueType::text) == SLUICE_TEXT &&
              static_cast<int>(ValueType::image) == SLUICE_IMAGE &&
              static_cast<int>(ValueType::audio) == SLUICE_AUDIO &&
              static_cast<int>(ValueType::tensor) == SLUICE_TENSOR &&
              static_cast<int>(ValueType::number) == SLUICE_NUMBER &&
              static_cast<int>(ValueType::bytes) == SLUICE_BYTES);

}  // namespace sluice
