#include "base/base64.h"

#include <array>
#include <cstdint>

namespace sluice {

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j > bytes.size() ? '=' : alphabet[group >> (18 - 6 * j) & 63U];
  }
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::array<std::int8_t, 256> value;
  value.fill(-1);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    value[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t group = 0;
    std::size_t padding = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const char c = text[i + j];
      if (c == '=' && i + 4 == text.size() && j >= 2) {
        ++padding;
        group <<= 6;
        continue;
      }
      const std::int8_t bits = value[static_cast<unsigned char>(c)];
      if (bits < 0 || padding > 0) return std::nullopt;
      group = group << 6 | static_cast<std::uint32_t>(bits);
    }
    for (std::size_t j = 0; j < 3 - padding; ++j)
      bytes += static_cast<char>(group >> (16 - 8 * j) & 255U);
  }
  return bytes;
}

}  // namespace sluice
