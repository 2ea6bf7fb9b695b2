#include "engine/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "engine/text/tokenizer_kinds.h"

namespace sluice {

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  const Result<std::string> text = read_whole_file(path, file_bytes_max);
  if (!text.ok()) return text.error();
  if (path.ends_with(".model")) {
    auto pieces = load_pieces(path);
    if (!pieces.ok()) return pieces.error();
    Tokenizer made;
    made.kind_ = std::move(pieces).value();
    return made;
  }
  return parse(*text, path);
}

Result<Tokenizer> Tokenizer::parse(const std::string& json, const std::string& name) {
  const nlohmann::json file = nlohmann::json::parse(json, nullptr, false);
  if (!file.is_object() || !file.contains("model") || !file["model"].is_object())
    return Error{ErrorCode::corrupt, name + ": not a tokenizer.json (no object 'model')"};
  const nlohmann::json type = file["model"].value("type", nlohmann::json("BPE"));
  Tokenizer made;
  if (type == "WordLevel") {
    Result<WordTokenizer> words = WordTokenizer::parse(file["model"], name);
    if (!words.ok()) return words.error();
    made.kind_ = std::make_shared<const WordTokenizer>(std::move(words).value());
  } else if (type == "BPE") {
    Result<BpeTokenizer> pairs = BpeTokenizer::parse(file, name);
    if (!pairs.ok()) return pairs.error();
    made.kind_ = std::make_shared<const BpeTokenizer>(std::move(pairs).value());
  } else {
    return Error{ErrorCode::corrupt,
                 name + ": model type " +
                     type.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                     " is not read, BPE and WordLevel are"};
  }
  return made;
}

Result<Tokenizer> Tokenizer::from_parts(const nlohmann::json& json, std::span<const double> scores,
                                        const std::string& name) {
  Result<BpeTokenizer> pairs = BpeTokenizer::parse(json, name);
  if (!pairs.ok()) return pairs.error();
  if (!scores.empty())
    if (auto merged = pairs->merge_by_scores(scores, name); !merged.ok()) return merged.error();
  Tokenizer made;
  made.kind_ = std::make_shared<const BpeTokenizer>(std::move(pairs).value());
  return made;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool with_special) const {
  return kind_ ? kind_->encode(text, with_special) : std::vector<std::int32_t>();
}

std::vector<std::int32_t> Tokenizer::encode_quoting(std::string_view text,
                                                    std::span<const TextRange> quoted) const {
  return kind_ ? kind_->encode_quoting(text, quoted) : std::vector<std::int32_t>();
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool with_special) const {
  return kind_ ? kind_->decode(ids, with_special) : std::string();
}

std::vector<std::string> Tokenizer::unknown_words(std::string_view text) const {
  return kind_->unknown_words(text);
}

std::string_view Tokenizer::word(std::int32_t id) const {
  return kind_ ? kind_->word(id) : std::string_view();
}

}  // namespace sluice
