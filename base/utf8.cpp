#include "base/utf8.h"

namespace sluice {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                       ? 1
                             : byte(0) >= 0xf0 && byte(0) <= 0xf4 ? 4
                             : byte(0) >= 0xe0 && byte(0) < 0xf0  ? 3
                             : byte(0) >= 0xc2 && byte(0) < 0xe0  ? 2
                                                                  : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!utf8_continues(text[i])) return 0;
  // Longer than needed, half of a pair, or above U+10FFFF.
  if (byte(0) == 0xe0 && byte(1) < 0xa0) return 0;
  if (byte(0) == 0xed && byte(1) >= 0xa0) return 0;
  if (byte(0) == 0xf0 && byte(1) < 0x90) return 0;
  if (byte(0) == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace sluice
