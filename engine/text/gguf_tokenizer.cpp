#include "engine/text/gguf_tokenizer.h"

#include <algorithm>

#include "engine/text/tokenizer_kinds.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

// Kinds of tokens in `tokenizer.ggml.token_type`.
constexpr int unknown_token = 2;
constexpr int control_token = 3;
constexpr int user_token = 4;

constexpr const char* qwen_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", regex}};
}
Json split_by(const char* pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"},
             {"pattern", {{"Regex", pattern}}},
             {"behavior", "Isolated"},
             {"invert", false}},
            byte_level(false)}}};
}

/// The steps of a BPE tokenizer by the name that llama.cpp gives its pre-tokenizer.
Result<void> add_steps(const std::string& file, std::string_view pre, Json& made) {
  made["decoder"] = byte_level(true);
  if (pre == "gpt-2") {
    made["pre_tokenizer"] = byte_level(true);
  } else if (pre == "smollm") {
    made["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)}}};
  } else if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    made["pre_tokenizer"] = split_by(llama3_pattern);
    made["model"]["ignore_merges"] = true;
  } else if (pre == "qwen2" || pre == "deepseek-r1-qwen") {
    made["normalizer"] = {{"type", "NFC"}};
    made["pre_tokenizer"] = split_by(qwen_pattern);
  } else {
    return invalid_argument(file + ": tokenizer.ggml.pre is '" + repaired(pre) +
                            "'; gpt-2, smollm, llama-bpe and qwen2 are supported");
  }
  return {};
}

/// sentencepiece: blanks are letters, unknown letters are bytes.
void add_piece_steps(bool space_in_front, Json& made) {
  const Json blanks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}};
  const Json back = {{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}};
  Json before = Json::array();
  Json after = {back, {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (space_in_front) {
    before.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
    after.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  }
  before.push_back(blanks);
  made["normalizer"] = {{"type", "Sequence"}, {"normalizers", before}};
  made["decoder"] = {{"type", "Sequence"}, {"decoders", after}};
  made["model"]["byte_fallback"] = true;
  made["model"]["fuse_unk"] = true;
}

/// Vocabulary, and the tokens that stand outside of the merges.
Result<void> add_tokens(const GgufFile& file, std::span<const std::string_view> tokens,
                        Json& made) {
  const std::vector<double> types = file.numbers("tokenizer.ggml.token_type");
  if (tokens.empty() || (!types.empty() && types.size() != tokens.size()))
    return Error{ErrorCode::corrupt, file.name() +
                                         ": tokenizer.ggml.tokens is missing, or not as long as "
                                         "tokenizer.ggml.token_type"};
  Json vocabulary = Json::object();
  Json added = Json::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::string word = repaired(tokens[i]);
    const int type = types.empty() ? 1 : static_cast<int>(std::clamp(types[i], 0.0, 100.0));
    // Of two that read the same (bytes that were repaired), the first is found.
    if (!vocabulary.contains(word)) vocabulary[word] = i;
    if (type == control_token || type == user_token)
      added.push_back({{"id", i},
                       {"content", word},
                       {"special", type == control_token},
                       {"normalized", false}});
    if (type == unknown_token && !made["model"].contains("unk_token"))
      made["model"]["unk_token"] = word;
  }
  made["model"]["vocab"] = std::move(vocabulary);
  made["added_tokens"] = std::move(added);
  return {};
}

/// A token that is not there would be left out: an answer would have no end, a prompt no begin.
Result<void> check_ids(const GgufFile& file, std::size_t tokens) {
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id",
                          "tokenizer.ggml.eot_token_id"}) {
    const std::uint64_t id = file.whole(key).value_or(0);
    const bool below = file.number(key).value_or(0) < 0;
    if (below || id >= tokens)
      return Error{ErrorCode::corrupt,
                   file.name() + ": " + key + " is " + (below ? "below 0" : std::to_string(id)) +
                       ", and the vocabulary has " + std::to_string(tokens) + " tokens"};
  }
  return {};
}

void add_template(const GgufFile& file, std::span<const std::string_view> tokens, bool bos_default,
                  Json& made) {
  Json single = Json::array();
  const auto special = [&](const char* flag, const char* id, bool otherwise) {
    const std::uint64_t token = file.whole(id).value_or(tokens.size());
    if (file.flag(flag).value_or(otherwise) && token < tokens.size())
      single.push_back({{"SpecialToken", {{"id", repaired(tokens[token])}}}});
  };
  special("tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", bos_default);
  single.push_back({{"Sequence", {{"id", "A"}}}});
  special("tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false);
  made["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}};
}

}  // namespace

Result<Tokenizer> gguf_tokenizer(const GgufFile& file) {
  const std::string_view kind = file.text("tokenizer.ggml.model").value_or("");
  if (kind != "gpt2" && kind != "llama")
    return invalid_argument(file.name() + ": tokenizer.ggml.model is '" + repaired(kind) +
                            "'; gpt2 (byte pairs) and llama (sentencepiece) are supported");
  const std::vector<std::string_view> tokens = file.texts("tokenizer.ggml.tokens");
  Json made = {{"model", {{"type", "BPE"}, {"merges", Json::array()}}}};
  if (auto read = add_tokens(file, tokens, made); !read.ok()) return read.error();
  if (auto known = check_ids(file, tokens.size()); !known.ok()) return known.error();
  const std::string_view pre = file.text("tokenizer.ggml.pre").value_or("");
  const bool pieces = kind == "llama";
  if (pieces) {
    add_piece_steps(file.flag("tokenizer.ggml.add_space_prefix").value_or(true), made);
  } else {
    if (auto read = add_steps(file.name(), pre, made); !read.ok()) return read.error();
    for (const std::string_view merge : file.texts("tokenizer.ggml.merges"))
      made["model"]["merges"].push_back(repaired(merge));
  }
  add_template(file, tokens, pieces || made["model"].contains("ignore_merges"), made);
  const std::vector<double> scores = file.numbers("tokenizer.ggml.scores");
  if (pieces && scores.size() != tokens.size())
    return Error{ErrorCode::corrupt,
                 file.name() + ": tokenizer.ggml.scores must hold a score for each token"};
  return Tokenizer::from_parts(made, pieces ? scores : std::vector<double>(), file.name());
}

std::vector<std::int32_t> gguf_end_tokens(const GgufFile& file) {
  std::vector<std::int32_t> ends;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const std::uint64_t id = file.whole(key).value_or(UINT64_MAX);
    if (id < 1U << 24) ends.push_back(static_cast<std::int32_t>(id));
  }
  return ends;
}

}  // namespace sluice
