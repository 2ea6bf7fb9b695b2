// Words and numbers in the texts that a kernel writes. Thread: any; no state.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace sluice {

/// The parts of the text between characters of `at`, without empty ones. Views of it.
inline std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(at), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

inline bool has_word(std::string_view text, std::string_view word, std::string_view at = " \n") {
  const auto words = split(text, at);
  return std::ranges::find(words, word) != words.end();
}

/// The text as a decimal number, all of it. None: it is anything else, or too large for `N`.
template <typename N>
std::optional<N> whole_number(std::string_view text) {
  N number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

}  // namespace sluice
