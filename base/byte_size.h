// Sizes in bytes as people write them: 4096, 512KiB, 64MiB, 4GiB, 1TiB.
//
// Errors: nothing for any other text, and for more than 2^62 bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

std::optional<std::uint64_t> parse_byte_size(std::string_view text);

/// Why a text is no size, as "which ..." goes on.
std::string_view byte_size_fault(std::string_view text);

}  // namespace sluice
