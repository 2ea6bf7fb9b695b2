#include <cctype>

#include "roles/model/tokenizer_kinds.h"

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

std::vector<std::int32_t> WordTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  std::string word;
  const auto flush = [&] {
    if (word.empty()) return;
    const auto it = ids_.find(word);
    ids.push_back(it == ids_.end() ? unknown_ : it->second);
    word.clear();
  };
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (std::isspace(c) != 0) {
      flush();
    } else if (std::ispunct(c) != 0) {
      flush();
      // Punctuation the model never saw says nothing; a mark it knows is a word of its own.
      if (ids_.contains(std::string(1, raw))) ids.push_back(ids_.find(std::string(1, raw))->second);
    } else {
      word += static_cast<char>(std::tolower(c));
    }
  }
  flush();
  return ids;
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
