// A number with its noun: "1 call", "2 calls".
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace sluice {

/// `noun` as it stands beside one; beside others it gets an s.
template <std::integral N>
std::string count_text(N count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace sluice
