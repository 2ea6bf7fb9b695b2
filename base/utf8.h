// The encoding of text: where its characters begin and end.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

/// Bytes of the character at the start of `text`; 0: its first byte begins none (RFC 3629).
std::size_t utf8_length(std::string_view text);

/// True for a byte inside a character, after its first.
inline bool utf8_continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80; }

}  // namespace sluice
