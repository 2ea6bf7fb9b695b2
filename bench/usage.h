// What a bench says to `--help` and to an option that it does not have; it measures nothing then.
#pragma once

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string_view>

namespace sluice {

/// The status that the program is to end with: 0 when `--help` is among its words (then `usage`
/// stands on standard output), 2 when a word begins with `-` and is none of `known` (then that word
/// and `usage` stand on standard error). Empty: neither.
inline std::optional<int> usage_status(int count, char** words, const char* usage,
                                       std::initializer_list<std::string_view> known = {}) {
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "--help" || word == "-h") {
      std::printf("%s\n", usage);
      return 0;
    }
    if (word.size() < 2 || word[0] != '-' || std::ranges::find(known, word) != known.end())
      continue;
    std::fprintf(stderr, "error: there is no option '%s'\n%s\n", words[i], usage);
    return 2;
  }
  return {};
}

}  // namespace sluice
