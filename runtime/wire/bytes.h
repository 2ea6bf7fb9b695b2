// Numbers and texts as bytes of a message, and back: one way to write each, every length checked.
//
// A reader remembers the first thing that is wrong and answers zero from then on, so whoever reads
// asks once, at the end; a count is never larger than what the bytes that are left can hold.
// Errors: `ByteReader::error`, with the place. Source: docs/WIRE.md.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::wire {

using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  /// Appends to `out`.
  explicit ByteWriter(Bytes& out) : out_(out) {}

  std::size_t size() const { return out_.size(); }
  void u8(std::uint8_t value) { out_.push_back(static_cast<std::byte>(value)); }
  void u32(std::uint32_t value) {
    for (unsigned i = 0; i < 4; ++i) u8(static_cast<std::uint8_t>(value >> (8 * i)));
  }
  /// Seven bits a byte, the lowest first.
  void number(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) u8(static_cast<std::uint8_t>(value | 128U));
    u8(static_cast<std::uint8_t>(value));
  }
  /// Small numbers of either sign stay short.
  void signed_number(std::int64_t value) {
    number(static_cast<std::uint64_t>(value) << 1U ^ static_cast<std::uint64_t>(value >> 63U));
  }
  /// How often it is even, and what is left: parts of an interval are round binary numbers.
  void round_number(std::uint64_t value) {
    const int zeros = value == 0 ? 0 : std::countr_zero(value);
    u8(static_cast<std::uint8_t>(zeros));
    number(value >> zeros);
  }
  void bytes(std::span<const std::byte> data) { out_.insert(out_.end(), data.begin(), data.end()); }
  void text(std::string_view text) {
    number(text.size());
    bytes(std::as_bytes(std::span(text)));
  }

 private:
  Bytes& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  std::size_t left() const { return ok() ? bytes_.size() - at_ : 0; }
  void fail(std::string_view what) {
    if (ok()) error_ = "byte " + std::to_string(at_) + ": " + std::string(what);
  }
  std::uint8_t u8(std::string_view what) {
    if (!ok()) return 0;
    if (left() == 0) fail("the message ends before " + std::string(what));
    return ok() ? static_cast<std::uint8_t>(bytes_[at_++]) : std::uint8_t{0};
  }
  /// `most`: more is an error.
  std::uint64_t number(std::string_view what, std::uint64_t most) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8(what);
      const std::uint64_t bits = byte & 127U;
      if (shift == 63 && bits > 1) break;
      value |= bits << shift;
      if (byte >= 128) continue;
      if (byte == 0 && shift != 0) fail("a longer way to write " + std::string(what));
      return checked(value, what, most);
    }
    fail(std::string(what) + " does not fit 64 bits");
    return 0;
  }
  std::int64_t signed_number(std::string_view what) {
    const std::uint64_t value = number(what, ~std::uint64_t{0});
    return static_cast<std::int64_t>(value >> 1U) ^ -static_cast<std::int64_t>(value & 1U);
  }
  std::uint64_t round_number(std::string_view what, std::uint64_t most) {
    const std::uint8_t zeros = u8(what);
    const std::uint64_t rest = number(what, most);
    if (rest == 0 && zeros == 0) return 0;
    if ((rest & 1U) == 0 || zeros > 63 || rest > (~std::uint64_t{0} >> zeros)) {
      fail("another way to write " + std::string(what));
      return 0;
    }
    return checked(rest << zeros, what, most);
  }
  /// How many follow, of at least `each` bytes.
  std::size_t count(std::string_view what, std::uint64_t most, std::size_t each = 1) {
    const std::uint64_t many = number(what, most);
    if (many > left() / each) fail(std::string(what) + ": more than the message holds");
    return ok() ? static_cast<std::size_t>(many) : 0;
  }
  std::span<const std::byte> bytes(std::size_t size, std::string_view what) {
    if (size > left()) fail("the message ends before " + std::string(what));
    if (!ok()) return {};
    at_ += size;
    return bytes_.subspan(at_ - size, size);
  }
  std::string text(std::string_view what, std::uint64_t most) {
    const std::span<const std::byte> data = bytes(count(what, most), what);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

 private:
  std::uint64_t checked(std::uint64_t value, std::string_view what, std::uint64_t most) {
    if (value > most)
      fail(std::string(what) + " is " + std::to_string(value) + ", at most " +
           std::to_string(most) + " is allowed");
    return ok() ? value : 0;
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::string error_;
};

}  // namespace sluice::wire
