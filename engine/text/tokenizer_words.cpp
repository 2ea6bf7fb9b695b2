#include <algorithm>
#include <cctype>

#include "engine/text/tokenizer_kinds.h"

namespace sluice {

Result<WordTokenizer> WordTokenizer::parse(const nlohmann::json& model, const std::string& name) {
  const auto corrupt = [&](const std::string& what) {
    return Error{ErrorCode::corrupt, name + ": " + what};
  };
  const auto text_of = [&](const char* key, const char* otherwise) {
    const auto it = model.find(key);
    return it != model.end() && it->is_string() ? it->get<std::string>() : std::string(otherwise);
  };
  if (!model.contains("vocab") || !model["vocab"].is_object()) return corrupt("no 'vocab'");
  WordTokenizer made;
  // Ids stand close together; a lone huge one must not make the table huge.
  const auto vocabulary_max = static_cast<std::int64_t>(model["vocab"].size()) * 2 + 1024;
  for (const auto& [word, id] : model["vocab"].items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= vocabulary_max)
      return corrupt("the id of '" + word + "' is not a token id");
    const auto index = id.get<std::size_t>();
    if (index >= made.words_.size()) made.words_.resize(index + 1);
    made.words_[index] = word;
    made.ids_.emplace(word, id.get<std::int32_t>());
  }
  const auto unknown = made.ids_.find(text_of("unk_token", "<unk>"));
  if (unknown == made.ids_.end()) return corrupt("the unknown token is not in 'vocab'");
  made.unknown_ = unknown->second;
  return made;
}

namespace {

/// `take` gets each word and each mark of punctuation as the text writes it.
template <typename Take>
void split_words(std::string_view text, Take take) {
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const auto c = at < text.size() ? static_cast<unsigned char>(text[at]) : ' ';
    const bool mark = std::ispunct(c) != 0;
    if (std::isspace(c) == 0 && !mark) continue;
    if (at > begin) take(text.substr(begin, at - begin), false);
    if (mark) take(text.substr(at, 1), true);
    begin = at + 1;
  }
}

std::string lower_case(std::string_view word) {
  std::string lower;
  for (const char c : word) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

std::vector<std::int32_t> WordTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  split_words(text, [&](std::string_view word, bool is_mark) {
    const auto it = ids_.find(lower_case(word));
    // Punctuation the model never saw says nothing; a mark it knows is a word of its own.
    if (it != ids_.end() || !is_mark) ids.push_back(it == ids_.end() ? unknown_ : it->second);
  });
  return ids;
}

std::vector<std::string> WordTokenizer::unknown_words(std::string_view text) const {
  std::vector<std::string> words;
  split_words(text, [&](std::string_view word, bool is_mark) {
    if (is_mark || ids_.contains(lower_case(word))) return;
    if (std::ranges::find(words, word) == words.end()) words.emplace_back(word);
  });
  return words;
}

std::string_view WordTokenizer::word(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= words_.size()) return {};
  return words_[static_cast<std::size_t>(id)];
}

std::string WordTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::string(word(id));
  return text;
}

}  // namespace sluice
