// Text that came from a plugin: read within bounds, and made fit for a message.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "plugin/include/sluice/sluice_plugin.h"

namespace sluice {

/// Nothing when it has no data or more than `bytes_max`.
std::optional<std::string_view> text_of(const sluice_text& text, std::size_t bytes_max);
inline sluice_text to_c(std::string_view text) { return {text.data(), text.size()}; }

bool is_utf8(std::string_view text);
/// One line of UTF-8: what is not becomes '?'.
std::string one_line(std::string_view text);

}  // namespace sluice
