// Tokenizers made of parts that chance puts together, and those of models, over texts that chance
// writes: the tokens and texts that came before.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "engine/checkpoint/gguf.h"
#include "engine/text/decoded_text.h"
#include "engine/text/gguf_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_text.h"
#include "tests/directories.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;
using Json = nlohmann::json;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

struct Chance {
  explicit Chance(std::uint64_t seed) : random(seed) {}
  std::uint64_t pick(std::uint64_t most) { return random.next() % (most + 1); }
  bool coin() { return pick(1) == 0; }
  template <typename List>
  auto of(const List& list) {
    return list[pick(std::size(list) - 1)];
  }
  SplitMix64 random;
};

std::string some_text(Chance& chance) {
  constexpr const char* parts[] = {"a",
                                   "b",
                                   "ab",
                                   " ",
                                   "  ",
                                   "\n",
                                   "\t",
                                   "the",
                                   "The",
                                   "'s",
                                   "'LL",
                                   "1",
                                   "23",
                                   "4567",
                                   "\u00bd",
                                   "\u00e4",
                                   "a\u0308",
                                   "\u65e5\u672c",
                                   "\u2581",
                                   "<x>",
                                   "<n>",
                                   "<w>",
                                   "\u20ac",
                                   "\xff",
                                   "\xe2\x82",
                                   "\xf0\x9f\x98",
                                   "\U0001f600",
                                   "_",
                                   "-",
                                   "...",
                                   "\ufb01",
                                   "\u0130",
                                   " \n",
                                   "\r\n",
                                   "A",
                                   "B",
                                   "x<x>",
                                   "\xed\xa0\x80",
                                   "\xf4\x90\x80\x80",
                                   "\xc0\xaf",
                                   "\xe0\x9f\xbf",
                                   "\xf0\x8f\xbf\xbf",
                                   "\u0663",
                                   "\u2167"};
  std::string text;
  for (std::uint64_t i = 0, most = chance.pick(12); i < most; ++i) text += chance.of(parts);
  return text;
}

/// What it makes of a text and of tokens, in both ways, and of each token as it comes.
std::string words(const Tokenizer& tokenizer, const std::string& text, Chance& chance) {
  std::string made;
  std::vector<std::int32_t> ids;
  for (const bool special : {false, true}) {
    ids = tokenizer.encode(text, special);
    for (const std::int32_t id : ids) made += std::to_string(id) + ' ';
    made += "| ";
  }
  for (std::uint64_t i = 0; i < 4; ++i)
    ids.push_back(static_cast<std::int32_t>(chance.pick(40)) - 1);
  made += "'" + tokenizer.decode(ids) + "' '" + tokenizer.decode(ids, true) + "' '";
  DecodedText decoded;
  for (std::size_t count = 0; count <= ids.size(); ++count) {
    decoded.advance(tokenizer, std::span(ids).first(count));
    made += std::string(decoded.text()) + "'";
  }
  return made + std::string(tokenizer.word(ids.back()));
}

Json some_normalizer(Chance& chance) {
  constexpr const char* kinds[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase"};
  switch (chance.pick(4)) {
    case 0:
      return {{"type", "Prepend"}, {"prepend", chance.coin() ? "\u2581" : "ab"}};
    case 1:
      return {{"type", "Replace"},
              {"pattern", {{"String", chance.coin() ? " " : "a"}}},
              {"content", chance.coin() ? "\u2581" : "aa"}};
    case 2:
      return {{"type", "Sequence"},
              {"normalizers", Json::array({some_normalizer(chance), some_normalizer(chance)})}};
    default:
      return {{"type", chance.of(kinds)}};
  }
}

Json some_pre_tokenizer(Chance& chance) {
  constexpr const char* behaviours[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext"};
  constexpr const char* schemes[] = {"first", "always", "never"};
  switch (chance.pick(5)) {
    case 0:
      return {
          {"type", "ByteLevel"}, {"add_prefix_space", chance.coin()}, {"use_regex", chance.coin()}};
    case 1:
      return {{"type", "Digits"}, {"individual_digits", chance.coin()}};
    case 2: {
      Json made = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"split", chance.coin()}};
      if (chance.coin())
        made["prepend_scheme"] = chance.of(schemes);
      else if (chance.coin())
        made["add_prefix_space"] = chance.coin();
      return made;
    }
    case 3:
      return {
          {"type", "Sequence"},
          {"pretokenizers", Json::array({some_pre_tokenizer(chance), some_pre_tokenizer(chance)})}};
    default: {
      const Json pattern = chance.coin() ? Json{{"String", chance.coin() ? " " : "a"}}
                                         : Json{{"Regex", chance.coin() ? "[ab]+" : "\\s|<n>|x*"}};
      return {{"type", "Split"},
              {"pattern", pattern},
              {"behavior", chance.of(behaviours)},
              {"invert", chance.coin()}};
    }
  }
}

Json some_decoder(Chance& chance) {
  constexpr const char* kinds[] = {"ByteLevel", "ByteFallback", "Fuse"};
  switch (chance.pick(4)) {
    case 0:
      return {{"type", "Replace"},
              {"pattern", {{"String", chance.coin() ? "\u2581" : "a"}}},
              {"content", chance.coin() ? " " : "aab"}};
    case 1:
      return {{"type", "Strip"},
              {"content", chance.coin() ? " " : "a"},
              {"start", chance.pick(2)},
              {"stop", chance.pick(2)}};
    case 2:
      return {{"type", "Metaspace"},
              {"replacement", "\u2581"},
              {"prepend_scheme", chance.coin() ? "never" : "always"}};
    case 3:
      return {{"type", "Sequence"},
              {"decoders", Json::array({some_decoder(chance), some_decoder(chance)})}};
    default:
      return {{"type", chance.of(kinds)}};
  }
}

/// Byte pairs over a few letters, with and without tokens for bytes and for what is not known.
Json some_tokenizer(Chance& chance) {
  Json vocabulary = Json::object();
  std::vector<std::string> known{"a",      "b", "\u2581", " ", "1", "A", "\u00c4\u0082",
                                 "\u0120", "t", "h",      "e"};
  if (chance.coin()) known.emplace_back("\u00e4");
  for (const std::string& word : known) vocabulary[word] = vocabulary.size();
  Json merges = Json::array();
  for (std::uint64_t i = 0, most = chance.pick(12); i < most; ++i) {
    const std::string left = chance.of(known), right = chance.of(known);
    if (left == " " || right == " ") continue;  // where a merge is cut
    if (!vocabulary.contains(left + right)) {
      vocabulary[left + right] = vocabulary.size();
      known.push_back(left + right);
    }
    merges.push_back(chance.coin() ? Json(left + " " + right) : Json::array({left, right}));
  }
  Json model = {{"type", "BPE"}};
  if (chance.coin())
    for (const char* byte : {"<0x61>", "<0xE2>", "<0x82>", "<0xAC>", "<0xC3>", "<0xA4>", "<0x0A>"})
      vocabulary[byte] = vocabulary.size();
  model["byte_fallback"] = chance.coin();
  model["fuse_unk"] = chance.coin();
  model["ignore_merges"] = chance.coin();
  if (chance.coin()) {
    vocabulary["<unk>"] = vocabulary.size();
    model["unk_token"] = "<unk>";
  }
  Json added = Json::array();
  std::size_t id = vocabulary.size() + chance.pick(2);
  for (const char* content : {"<x>", "<n>", "<w>", "ab"})
    if (chance.pick(3) != 0)
      added.push_back({{"id", id++},
                       {"content", content},
                       {"special", chance.coin()},
                       {"normalized", chance.coin()},
                       {"lstrip", chance.coin()},
                       {"rstrip", chance.coin()},
                       {"single_word", chance.coin()}});
  model["vocab"] = std::move(vocabulary);
  model["merges"] = std::move(merges);
  Json made = {{"model", std::move(model)}, {"added_tokens", added}};
  if (chance.coin()) made["normalizer"] = some_normalizer(chance);
  if (chance.pick(3) != 0) made["pre_tokenizer"] = some_pre_tokenizer(chance);
  if (chance.pick(3) != 0) made["decoder"] = some_decoder(chance);
  if (chance.coin() && !added.empty()) {
    const Json token = {{"SpecialToken", {{"id", added[0]["content"]}}}};
    const Json text = {{"Sequence", {{"id", "A"}}}};
    const Json single =
        chance.coin() ? Json::array({token, text}) : Json::array({text, token, token});
    made["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}};
    if (chance.coin())
      made["post_processor"] = {
          {"type", "Sequence"},
          {"processors", Json::array({{{"type", "ByteLevel"}}, made["post_processor"]})}};
  }
  return made;
}

}  // namespace

TEST_CASE("tokenizers that chance puts together say of texts what they said before") {
  test::Outcomes outcomes("tokenizers_chance");
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Chance chance(seed);
    const Json file = some_tokenizer(chance);
    const Result<Tokenizer> tokenizer = Tokenizer::parse(file.dump(), "t");
    if (!tokenizer.ok()) {
      outcomes.add("refused", tokenizer.error().message);
      continue;
    }
    std::vector<std::string> journal;
    for (int i = 0; i < 40; ++i) {
      const std::string text = some_text(chance);
      journal.push_back(words(*tokenizer, text, chance));
      if (seed == 1 && i < 10)
        outcomes.add("chance 1", repaired(text) + ": " + repaired(journal.back()));
    }
    outcomes.add("digests", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}

TEST_CASE("what stands in quotations has the tokens that it had before, wherever these begin") {
  test::Outcomes outcomes("tokenizers_quoting");
  constexpr const char* parts[] = {"<x>", "<n>",      "<w>",    "<x",    "x>", "ab",
                                   "a",   "b",        " ",      "1",     "_",  "\u00e4",
                                   "A",   "\xe2\x82", "<x><n>", "  <w> "};
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Chance chance(seed);
    const Json file = some_tokenizer(chance);
    const Result<Tokenizer> tokenizer = Tokenizer::parse(file.dump(), "t");
    if (!tokenizer.ok()) continue;
    std::vector<std::string> journal;
    for (int i = 0; i < 40; ++i) {
      std::string text;
      for (std::uint64_t most = chance.pick(8); most > 0; --most) text += chance.of(parts);
      std::vector<TextRange> quoted;
      for (std::size_t at = chance.pick(6); at < text.size(); at += chance.pick(4)) {
        const std::size_t end = std::min<std::size_t>(at + 1 + chance.pick(7), text.size());
        quoted.push_back({at, end});
        at = end;
      }
      std::string line;
      for (const std::int32_t id : tokenizer->encode_quoting(text, quoted))
        line += std::to_string(id) + ' ';
      journal.push_back(line);
      if (seed > 2 || i > 9) continue;
      std::string shown = text;
      for (std::size_t one = quoted.size(); one > 0; --one) {
        shown.insert(quoted[one - 1].end, "]");
        shown.insert(quoted[one - 1].begin, "[");
      }
      outcomes.add("chance " + std::to_string(seed), repaired(shown) + ": " + line);
    }
    outcomes.add("digests", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}

TEST_CASE("models' tokenizers say of texts what they said before") {
  test::Outcomes outcomes("tokenizers_of_models");
  const auto add = [&](const std::string& name, const Tokenizer& tokenizer) {
    Chance chance(7);
    std::vector<std::string> journal;
    for (int i = 0; i < 200; ++i) journal.push_back(words(tokenizer, some_text(chance), chance));
    outcomes.add(name, test::digest_of(journal));
  };
  for (const char* kind :
       {"qwen2", "llama3", "llama2", "gemma", "smollm", "metaspace", "sentencepiece"}) {
    const bool pieces = std::string(kind) == "sentencepiece";
    const auto tokenizer = Tokenizer::load(golden + "tokenizers/" + kind +
                                           (pieces ? "/tokenizer.model" : "/tokenizer.json"));
    REQUIRE(tokenizer.ok());
    add(kind, *tokenizer);
  }
  for (const char* name : {"llama", "llama2", "llama3", "qwen2", "gemma"}) {
    const auto file = GgufFile::open(golden + "gguf/" + name + ".gguf");
    REQUIRE(file.ok());
    const auto tokenizer = gguf_tokenizer(*file);
    INFO((tokenizer.ok() ? name : tokenizer.error().message));
    REQUIRE(tokenizer.ok());
    add(std::string(name) + ".gguf", *tokenizer);
    std::string ends;
    for (const std::int32_t end : gguf_end_tokens(*file)) ends += ' ' + std::to_string(end);
    outcomes.add(std::string(name) + ".gguf", "ends" + ends);
  }
  const Tokenizer scenes =
      Tokenizer::load(SLUICE_SOURCE_DIR + std::string("/models/scenes/tokenizer.json")).value();
  add("scenes", scenes);
  Chance chance(3);
  for (int i = 0; i < 40; ++i)
    for (const std::string& word : scenes.unknown_words(some_text(chance)))
      outcomes.add("unknown words", repaired(word));
  outcomes.require_as_kept();
}

TEST_CASE("bytes that are no text become the marks that they became before") {
  test::Outcomes outcomes("repaired");
  constexpr unsigned char bytes[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf,
                                     0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                     0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
  std::vector<std::string> journal;
  for (const unsigned char a : bytes)
    for (const unsigned char b : bytes)
      for (const unsigned char c : bytes)
        for (const int d : {0x41, 0x7f, 0x80, 0xbf, 0xc0}) {
          const std::string text{static_cast<char>(a), static_cast<char>(b), static_cast<char>(c),
                                 static_cast<char>(d)};
          std::string line =
              repaired(text) + repaired(text.substr(0, 2)) + repaired(text.substr(0, 3));
          for (std::size_t at = 0; at < 4; ++at) line += std::to_string(character_length(text, at));
          journal.push_back(std::move(line));
        }
  outcomes.add("four bytes", test::digest_of(journal));
  outcomes.require_as_kept();
}

TEST_CASE("steps of a tokenizer are taken up to their limits and not beyond") {
  test::Outcomes outcomes("tokenizer_limits");
  const auto add = [&](const std::string& title, const Json& step) {
    const auto pre = PreTokenizer::parse(step);
    const auto decoder = TokenDecoder::parse(step);
    outcomes.add(title, (pre.ok() ? "taken" : pre.error().message) + " / " +
                            (decoder.ok() ? "taken" : decoder.error().message));
  };
  for (const auto& [list, step] : {std::pair{"pretokenizers", Json{{"type", "Digits"}}},
                                   std::pair{"decoders", Json{{"type", "Fuse"}}}}) {
    for (const std::size_t count : {0U, 64U, 65U})
      add(std::string(list) + " " + std::to_string(count),
          {{"type", "Sequence"}, {list, Json::array_t(count, step)}});
    Json deep = step;
    for (int i = 1; i <= 5; ++i) {
      deep = {{"type", "Sequence"}, {list, Json::array({deep})}};
      add(std::string(list) + " " + std::to_string(i) + " deep", deep);
    }
  }
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U}) {
    const std::string text(size, 'a');
    const std::string title = " of " + std::to_string(size);
    add("literal" + title,
        {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"String", text}}}});
    add("pattern" + title,
        {{"type", "Split"}, {"behavior", "Isolated"}, {"pattern", {{"Regex", text}}}});
    add("replaced" + title,
        {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", "b"}});
    add("replacing" + title,
        {{"type", "Replace"}, {"pattern", {{"String", "b"}}}, {"content", text}});
    add("stripped" + title, {{"type", "Strip"}, {"content", text}, {"start", 1U}});
  }
  for (const std::size_t size : {0U, 1U, 8U, 9U})
    add("replacement of " + std::to_string(size),
        {{"type", "Metaspace"}, {"replacement", std::string(size, 'a')}});
  for (const char* behaviour : {"Contiguous", "", "isolated"})
    add("behaviours", {{"type", "Split"}, {"behavior", behaviour}, {"pattern", {{"String", "a"}}}});
  outcomes.require_as_kept();
}

TEST_CASE("merges that follow from scores are those that they were before") {
  test::Outcomes outcomes("scored_merges");
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Chance chance(seed);
    Json file = some_tokenizer(chance);
    file["model"]["merges"] = Json::array();
    std::vector<double> scores;
    const std::size_t count = file["model"]["vocab"].size() + chance.pick(2) - 1;
    for (std::size_t i = 0; i < count; ++i) scores.push_back(-static_cast<double>(chance.pick(6)));
    if (seed == 60) scores[1] = std::numeric_limits<double>::quiet_NaN();
    const Result<Tokenizer> tokenizer = Tokenizer::from_parts(file, scores, "t");
    if (!tokenizer.ok()) {
      outcomes.add("refused", tokenizer.error().message);
      continue;
    }
    std::vector<std::string> journal;
    for (int i = 0; i < 40; ++i) journal.push_back(words(*tokenizer, some_text(chance), chance));
    outcomes.add("digests", test::digest_of(journal));
  }
  for (const std::size_t bytes : {1024U, 1025U}) {
    Json file = {
        {"model", {{"type", "BPE"}, {"merges", Json::array()}, {"vocab", Json::object()}}}};
    file["model"]["vocab"]["a"] = 0;
    file["model"]["vocab"][std::string(bytes, 'a')] = 1;
    const auto tokenizer = Tokenizer::from_parts(file, std::vector<double>{0, -1}, "t");
    outcomes.add("long", tokenizer.ok() ? "taken" : tokenizer.error().message);
  }
  outcomes.require_as_kept();
}
