// What a role reads and yields: values, their types, and how something ended.
//
// Included by `role.hpp`. Owns: a `Value` is readable until its activation ends; an `Output` refers
// to what it is made from, which must live until `yield` returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "sluice_plugin.h"

namespace sluice::plugin {

enum class Code : std::int32_t {
  ok = SLUICE_OK,
  invalid_argument = SLUICE_INVALID_ARGUMENT,
  not_found = SLUICE_NOT_FOUND,
  exhausted = SLUICE_EXHAUSTED,
  deadline = SLUICE_DEADLINE,
  unavailable = SLUICE_UNAVAILABLE,
  stale = SLUICE_STALE,
  corrupt = SLUICE_CORRUPT,
  cancelled = SLUICE_CANCELLED
};

/// How something ended: well (`return {};`), or with a code and a message.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// The input is wrong: the caller has to change it.
inline Status invalid(std::string message) { return {Code::invalid_argument, std::move(message)}; }

inline std::string_view view(sluice_text text) { return {text.data, text.size}; }
inline sluice_text to_c(std::string_view text) { return {text.data(), text.size()}; }

enum class Type : std::uint32_t {
  none = 0,
  json = SLUICE_JSON,
  text = SLUICE_TEXT,
  image = SLUICE_IMAGE,
  audio = SLUICE_AUDIO,
  tensor = SLUICE_TENSOR,
  number = SLUICE_NUMBER,
  bytes = SLUICE_BYTES
};

/// bf16 has no type in C++20: its elements are read and written as their upper 16 bits.
template <typename T>
constexpr std::uint32_t dtype_of = 0;
template <>
inline constexpr std::uint32_t dtype_of<std::uint8_t> = SLUICE_U8;
template <>
inline constexpr std::uint32_t dtype_of<std::int32_t> = SLUICE_I32;
template <>
inline constexpr std::uint32_t dtype_of<std::int64_t> = SLUICE_I64;
template <>
inline constexpr std::uint32_t dtype_of<float> = SLUICE_F32;
template <>
inline constexpr std::uint32_t dtype_of<std::uint16_t> = SLUICE_BF16;

/// An input: readable until its activation ends. Yielding it hands it on without a copy.
class Value {
 public:
  Value() { value_.struct_size = sizeof value_; }
  Type type() const { return static_cast<Type>(value_.type); }
  /// Of text, json and bytes.
  std::string_view text() const { return view(value_.text); }
  std::int64_t number() const { return value_.number; }
  std::span<const std::int64_t> shape() const { return {value_.shape, value_.rank}; }
  std::uint32_t dtype() const { return value_.dtype; }
  /// Of a tensor, image or audio; empty when its elements are of another type.
  template <typename T>
  std::span<const T> elements() const {
    if (value_.dtype != dtype_of<T>) return {};
    return {static_cast<const T*>(value_.data), value_.data_size / sizeof(T)};
  }
  std::optional<std::int64_t> attribute(std::string_view name) const {
    for (std::uint64_t i = 0; i < value_.attribute_count; ++i)
      if (view(value_.attributes[i].name) == name) return value_.attributes[i].value;
    return std::nullopt;
  }
  const sluice_value& c() const { return value_; }
  sluice_value& c() { return value_; }

 private:
  sluice_value value_{};
};

/// A value to yield: it refers to what it is made from, which must live until `yield` returns.
class Output {
 public:
  Output(const Value& input) : value_(input.c()) {}
  static Output text(std::string_view text) { return of_text(SLUICE_TEXT, text); }
  static Output json(std::string_view text) { return of_text(SLUICE_JSON, text); }
  static Output bytes(std::string_view bytes) { return of_text(SLUICE_BYTES, bytes); }
  static Output number(std::int64_t number) {
    Output output(SLUICE_NUMBER);
    output.value_.number = number;
    return output;
  }
  template <typename T>
  static Output tensor(std::span<const std::int64_t> shape, std::span<const T> elements) {
    Output output(SLUICE_TENSOR);
    output.fill(shape, dtype_of<T>, elements.data(), elements.size_bytes());
    return output;
  }
  /// `shape` is {height, width, 3}.
  static Output image(std::span<const std::int64_t> shape, std::span<const std::uint8_t> pixels) {
    Output output(SLUICE_IMAGE);
    output.fill(shape, SLUICE_U8, pixels.data(), pixels.size());
    return output;
  }
  /// Of a value made here: one handed on keeps its own. Throws: std::invalid_argument for such one.
  Output& with(std::span<const sluice_attribute> attributes) {
    if (value_.handle != 0)
      throw std::invalid_argument(
          "a value handed on keeps its attributes: make a new one to give it others");
    value_.attributes = attributes.data();
    value_.attribute_count = attributes.size();
    return *this;
  }
  const sluice_value& c() const { return value_; }

 private:
  explicit Output(std::uint32_t type) {
    value_.struct_size = sizeof value_;
    value_.type = type;
  }
  static Output of_text(std::uint32_t type, std::string_view text) {
    Output output(type);
    output.value_.text = to_c(text);
    return output;
  }
  void fill(std::span<const std::int64_t> shape, std::uint32_t dtype, const void* data,
            std::size_t bytes) {
    value_.shape = shape.data();
    value_.rank = shape.size();
    value_.dtype = dtype;
    value_.data = data;
    value_.data_size = bytes;
  }
  sluice_value value_{};
};

}  // namespace sluice::plugin
