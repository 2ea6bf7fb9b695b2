#include "engine/text/unknown_words.h"

#include <algorithm>
#include <vector>

namespace sluice {

namespace {

/// In quotes; of a long one the beginning, whole characters of UTF-8.
std::string quoted(const std::string& word) {
  constexpr std::size_t longest = 80;
  std::size_t end = std::min(word.size(), longest);
  while (end < word.size() && end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0U) == 0x80U)
    --end;
  std::string shown = word.substr(0, end);
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return "'" + shown + (end < word.size() ? "...'" : "'");
}

}  // namespace

std::string unknown_words_text(const Tokenizer& tokenizer, std::string_view text,
                               const std::string& directory) {
  constexpr std::size_t named_max = 8;
  const std::vector<std::string> words = tokenizer.unknown_words(text);
  if (words.empty()) return "";
  std::string all = "the model does not know the word" + std::string(words.size() > 1 ? "s" : "");
  for (std::size_t i = 0; i < std::min(words.size(), named_max); ++i)
    all += (i == 0 ? " " : ", ") + quoted(words[i]);
  if (words.size() > named_max) all += " and " + std::to_string(words.size() - named_max) + " more";
  return all + "; those it knows: " + directory + "/README.md";
}

}  // namespace sluice
