// A word of a command that people are told to type.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace sluice::cli {

/// As it is typed: quoted where a shell would read more into it.
inline std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-./=:,@").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace sluice::cli
