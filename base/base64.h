// Base64 (RFC 4648, with padding), for bytes inside JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

std::string base64_encode(std::string_view bytes);
/// Nothing when `text` holds a character outside the alphabet or its length does not fit.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace sluice
