#include <algorithm>
#include <cstdio>
#include <functional>
#include <queue>

#include "engine/text/tokenizer_kinds.h"

namespace sluice {

namespace {

using Json = nlohmann::json;

Error corrupt(const std::string& name, const std::string& what) {
  return {ErrorCode::corrupt, name + ": " + what};
}

std::uint64_t pair_key(std::int32_t a, std::int32_t b) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32U |
         static_cast<std::uint32_t>(b);
}

bool flag_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}
const Json& part_of(const Json& file, const char* key) {
  static const Json none;
  const auto it = file.find(key);
  return it != file.end() ? *it : none;
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) {
  return (static_cast<unsigned char>(c) & 0x80U) != 0 || c == '_' || (c >= '0' && c <= '9') ||
         (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

void BpeTokenizer::put_word(std::int32_t id, const std::string& content) {
  const auto at = static_cast<std::size_t>(id);
  if (at >= words_.size()) words_.resize(at + 1);
  words_[at] = content;
  ids_.insert_or_assign(content, id);
}

Result<BpeTokenizer> BpeTokenizer::parse(const Json& file, const std::string& name) {
  BpeTokenizer made;
  if (Result<void> read = made.read_model(file["model"], name); !read.ok()) return read.error();
  const auto named = [&](const Error& error) {
    return Error{error.code, name + ": " + error.message};
  };
  Result<Normalizer> normalizer = Normalizer::parse(part_of(file, "normalizer"));
  if (!normalizer.ok()) return named(normalizer.error());
  made.normalizer_ = std::move(normalizer).value();
  Result<PreTokenizer> pre = PreTokenizer::parse(part_of(file, "pre_tokenizer"));
  if (!pre.ok()) return named(pre.error());
  made.pre_tokenizer_ = std::move(pre).value();
  Result<TokenDecoder> decoder = TokenDecoder::parse(part_of(file, "decoder"));
  if (!decoder.ok()) return named(decoder.error());
  made.decoder_ = std::move(decoder).value();
  if (Result<void> read = made.read_added(file, name); !read.ok()) return read.error();
  Result<void> read = made.read_template(part_of(file, "post_processor"), name);
  if (!read.ok()) return read.error();
  return made;
}

Result<void> BpeTokenizer::read_model(const Json& model, const std::string& name) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.contains(key) && model[key].is_string() && !model[key].get<std::string>().empty())
      return invalid_argument(name + ": '" + key + "' is not supported");
  if (!model.contains("vocab") || !model["vocab"].is_object()) return corrupt(name, "no 'vocab'");
  if (!model.contains("merges") || !model["merges"].is_array()) return corrupt(name, "no 'merges'");
  // Ids stand close together; a lone huge one must not make the table huge.
  const auto most = static_cast<std::int64_t>(model["vocab"].size()) * 2 + 4096;
  for (const auto& [word, id] : model["vocab"].items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= most)
      return corrupt(name, "the id of '" + repaired(word) + "' is not a token id");
    put_word(id.get<std::int32_t>(), word);
  }
  std::int32_t rank = 0;
  for (const Json& merge : model["merges"]) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const std::string both = merge.get<std::string>();
      const std::size_t space = both.find(' ');
      if (space != std::string::npos) {
        left = both.substr(0, space);
        right = both.substr(space + 1);
      }
    }
    const auto a = ids_.find(left);
    const auto b = ids_.find(right);
    const auto c = ids_.find(left + right);
    if (a == ids_.end() || b == ids_.end() || c == ids_.end())
      return corrupt(name,
                     "merge " + std::to_string(rank) + " joins tokens that are not in 'vocab'");
    merges_.try_emplace(pair_key(a->second, b->second), Merge{rank++, c->second});
  }
  byte_fallback_ = flag_of(model, "byte_fallback");
  fuse_unknown_ = flag_of(model, "fuse_unk");
  ignore_merges_ = flag_of(model, "ignore_merges");
  if (model.contains("unk_token") && model["unk_token"].is_string()) {
    const auto it = ids_.find(model["unk_token"].get<std::string>());
    if (it == ids_.end()) return corrupt(name, "the unknown token is not in 'vocab'");
    unknown_ = it->second;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    const auto it = ids_.find(text);
    byte_ids_[byte] = it == ids_.end() ? -1 : it->second;
  }
  return {};
}

Result<void> BpeTokenizer::merge_by_scores(std::span<const double> scores,
                                           const std::string& name) {
  constexpr std::size_t bytes_max = 1024;  // every split of every text is looked up
  std::vector<double> order;
  for (const double score : scores) {
    if (score != score) return corrupt(name, "a token's score is not a number");
    order.push_back(score);
  }
  std::ranges::sort(order, std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  for (const auto& [text, id] : ids_) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= scores.size() || is_added_[at]) continue;
    if (text.size() > bytes_max)
      return corrupt(name, "token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                               " bytes, the limit is " + std::to_string(bytes_max));
    const auto rank = std::ranges::lower_bound(order, scores[at], std::greater<>());
    for (std::size_t cut = character_length(text, 0); cut < text.size();
         cut += character_length(text, cut)) {
      const auto left = ids_.find(text.substr(0, cut));
      const auto right = ids_.find(text.substr(cut));
      if (left != ids_.end() && right != ids_.end())
        merges_.try_emplace(pair_key(left->second, right->second),
                            Merge{static_cast<std::int32_t>(rank - order.begin()), id});
    }
  }
  return {};
}

Result<void> BpeTokenizer::read_added(const Json& file, const std::string& name) {
  special_.assign(words_.size(), false);
  is_added_.assign(words_.size(), false);
  const Json& list = part_of(file, "added_tokens");
  if (!list.is_array()) return {};
  const auto most = static_cast<std::int64_t>(words_.size() + list.size()) * 2 + 4096;
  for (const Json& token : list) {
    if (!token.is_object() || !token.contains("content") || !token["content"].is_string() ||
        !token.contains("id") || !token["id"].is_number_integer() ||
        token["id"].get<std::int64_t>() < 0 || token["id"].get<std::int64_t>() >= most)
      return corrupt(name, "an added token has no content or no id");
    Added made{token["content"].get<std::string>(),
               token["id"].get<std::int32_t>(),
               flag_of(token, "special"),
               flag_of(token, "single_word"),
               flag_of(token, "lstrip"),
               flag_of(token, "rstrip")};
    if (made.content.empty()) continue;
    put_word(made.id, made.content);
    special_.resize(words_.size(), false);
    is_added_.resize(words_.size(), false);
    special_[static_cast<std::size_t>(made.id)] = made.special;
    is_added_[static_cast<std::size_t>(made.id)] = true;
    if (flag_of(token, "normalized")) {
      made.content = normalizer_(made.content);
      if (!made.content.empty()) added_normalized_.push_back(std::move(made));
    } else {
      added_raw_.push_back(std::move(made));
    }
  }
  for (std::vector<Added>* added : {&added_raw_, &added_normalized_})
    std::ranges::stable_sort(
        *added, [](const Added& a, const Added& b) { return a.content.size() > b.content.size(); });
  return {};
}

Result<void> BpeTokenizer::read_template(const Json& step, const std::string& name) {
  if (!step.is_object() || !step.contains("type")) return {};
  if (step["type"] == "Sequence" && step.contains("processors") && step["processors"].is_array()) {
    for (const Json& one : step["processors"]) {
      if (one.is_object() && one.contains("type") && one["type"] == "Sequence") continue;
      if (Result<void> read = read_template(one, name); !read.ok()) return read;
    }
    return {};
  }
  if (step["type"] != "TemplateProcessing") return {};
  if (!step.contains("single") || !step["single"].is_array())
    return corrupt(name, "the template has no 'single'");
  bool behind = false;
  for (const Json& item : step["single"]) {
    if (item.is_object() && item.contains("Sequence")) behind = true;
    if (!item.is_object() || !item.contains("SpecialToken")) continue;
    const Json& token = item["SpecialToken"];
    const auto it = token.is_object() && token.contains("id") && token["id"].is_string()
                        ? ids_.find(token["id"].get<std::string>())
                        : ids_.end();
    if (it == ids_.end()) return corrupt(name, "the template's token is not in 'vocab'");
    (behind ? after_ : before_).push_back(it->second);
  }
  return {};
}

template <typename Text, typename Token>
void BpeTokenizer::split_added(std::string_view text, const std::vector<Added>& added,
                               std::span<const TextRange> quoted, const Text& on_text,
                               const Token& on_token) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    while (!quoted.empty() && quoted.front().end <= at) quoted = quoted.subspan(1);
    const Added* found = nullptr;
    for (const Added& token : added) {
      if (text.compare(at, token.content.size(), token.content) != 0) continue;
      const std::size_t end = at + token.content.size();
      if (token.single_word &&
          ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))))
        continue;
      found = &token;
      break;
    }
    if (found != nullptr && found->special && !quoted.empty() &&
        quoted.front().begin < at + found->content.size()) {
      // Whole within a quotation it is passed over whole, with what might be a token in it.
      const bool within =
          quoted.front().begin <= at && at + found->content.size() <= quoted.front().end;
      at += within ? found->content.size() : character_length(text, at);
      continue;
    }
    if (found == nullptr) {
      at += character_length(text, at);
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + found->content.size();
    while (found->lstrip && begin > done && is_space(text[begin - 1])) --begin;
    while (found->rstrip && end < text.size() && is_space(text[end])) ++end;
    if (begin > done) on_text(text.substr(done, begin - done), done);
    on_token(found->id);
    done = at = end;
  }
  if (done < text.size()) on_text(text.substr(done), done);
}

std::vector<std::int32_t> BpeTokenizer::encode(std::string_view text, bool with_special) const {
  std::vector<std::int32_t> ids;
  if (with_special) ids = before_;
  append_ids(repaired(text), {}, ids);
  if (with_special) ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

std::vector<std::int32_t> BpeTokenizer::encode_quoting(std::string_view text,
                                                       std::span<const TextRange> quoted) const {
  // What is repaired may be longer, so each part is by itself.
  std::string whole;
  std::vector<TextRange> places;
  std::size_t done = 0;
  for (const TextRange& range : quoted) {
    whole += repaired(text.substr(done, range.begin - done));
    const std::size_t begin = whole.size();
    whole += repaired(text.substr(range.begin, range.end - range.begin));
    places.push_back({begin, whole.size()});
    done = range.end;
  }
  whole += repaired(text.substr(done));
  std::vector<std::int32_t> ids;
  append_ids(whole, places, ids);
  return ids;
}

std::vector<TextRange> BpeTokenizer::quoted_in(std::span<const TextRange> quoted,
                                               std::string_view part, std::size_t at) const {
  std::vector<TextRange> places;
  if (added_normalized_.empty()) return places;  // nobody asks
  const auto place = [&](std::size_t end) {
    return end <= at ? 0 : normalizer_(part.substr(0, std::min(end - at, part.size()))).size();
  };
  for (const TextRange& range : quoted)
    if (range.end > at && range.begin < at + part.size())
      places.push_back({place(range.begin), place(range.end)});
  return places;
}

void BpeTokenizer::append_ids(std::string_view text, std::span<const TextRange> quoted,
                              std::vector<std::int32_t>& ids) const {
  const auto token = [&](std::int32_t id) { ids.push_back(id); };
  split_added(
      text, added_raw_, quoted,
      [&](std::string_view segment, std::size_t at) {
        const std::string normalized = normalizer_(segment);
        split_added(
            normalized, added_normalized_, quoted_in(quoted, segment, at),
            [&](std::string_view part, std::size_t inner) {
              encode_segment(part, at == 0 && inner == 0, ids);
            },
            token);
      },
      token);
}

void BpeTokenizer::encode_segment(std::string_view text, bool first,
                                  std::vector<std::int32_t>& ids) const {
  for (const std::string& piece : pre_tokenizer_(text, first)) encode_piece(piece, ids);
}

void BpeTokenizer::first_symbols(const std::string& piece,
                                 std::vector<std::int32_t>& symbols) const {
  bool unknown_before = false;
  for (std::size_t at = 0, length = 0; at < piece.size(); at += length) {
    length = character_length(piece, at);
    const auto it = ids_.find(piece.substr(at, length));
    bool unknown = it == ids_.end();
    if (!unknown) {
      symbols.push_back(it->second);
    } else if (byte_fallback_) {
      unknown = false;
      for (std::size_t i = 0; i < length; ++i)
        unknown = unknown || byte_ids_[static_cast<unsigned char>(piece[at + i])] < 0;
      for (std::size_t i = 0; i < length && !unknown; ++i)
        symbols.push_back(byte_ids_[static_cast<unsigned char>(piece[at + i])]);
    }
    if (unknown && unknown_ >= 0 && !(fuse_unknown_ && unknown_before)) symbols.push_back(unknown_);
    unknown_before = unknown;
  }
}

void BpeTokenizer::encode_piece(const std::string& piece, std::vector<std::int32_t>& ids) const {
  if (ignore_merges_) {
    const auto it = ids_.find(piece);
    if (it != ids_.end()) {
      ids.push_back(it->second);
      return;
    }
  }
  std::vector<std::int32_t> symbols;
  first_symbols(piece, symbols);
  // The merge of the least rank, the leftmost of several, until none is left.
  struct Candidate {
    std::int32_t rank, place, left, right;
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };
  const auto count = static_cast<std::int32_t>(symbols.size());
  std::vector<std::int32_t> next(symbols.size()), before(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    next[static_cast<std::size_t>(i)] = i + 1;
    before[static_cast<std::size_t>(i)] = i - 1;
  }
  const auto symbol = [&](std::int32_t i) -> std::int32_t& {
    return symbols[static_cast<std::size_t>(i)];
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::int32_t place) {
    if (place < 0 || place >= count) return;
    const std::int32_t right = next[static_cast<std::size_t>(place)];
    if (right >= count) return;
    const auto it = merges_.find(pair_key(symbol(place), symbol(right)));
    if (it != merges_.end()) queue.push({it->second.rank, place, symbol(place), symbol(right)});
  };
  for (std::int32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::int32_t right = next[static_cast<std::size_t>(best.place)];
    if (symbol(best.place) != best.left || right >= count || symbol(right) != best.right) continue;
    symbol(best.place) = merges_.find(pair_key(best.left, best.right))->second.made;
    symbol(right) = -1;
    const std::int32_t after = next[static_cast<std::size_t>(right)];
    next[static_cast<std::size_t>(best.place)] = after;
    if (after < count) before[static_cast<std::size_t>(after)] = best.place;
    offer(before[static_cast<std::size_t>(best.place)]);
    offer(best.place);
  }
  for (const std::int32_t id : symbols)
    if (id >= 0) ids.push_back(id);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids, bool with_special) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= words_.size()) continue;
    const auto at = static_cast<std::size_t>(id);
    if (special_[at] && !with_special) continue;
    tokens.push_back(words_[at]);
  }
  return decoder_(std::move(tokens));
}

std::string_view BpeTokenizer::word(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= words_.size()) return {};
  return words_[static_cast<std::size_t>(id)];
}

}  // namespace sluice
