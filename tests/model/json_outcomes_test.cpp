// Each value of a file of JSON, however deep it stands, as a value of every other type, and left
// out: what each reader says of it.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/family/architecture.h"
#include "engine/picture/picture_input.h"
#include "engine/text/tokenizer.h"
#include "tests/directories.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using Read = std::function<std::string(const std::string&)>;

const std::string source = SLUICE_SOURCE_DIR;

std::string text_of(const std::string& path) {
  std::ifstream file(source + path, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(file), {});
  REQUIRE_FALSE(text.empty());
  return text;
}

/// Of a list the first two and the last: the others are read as they are.
bool is_looked_at(const Json& list, std::size_t at) {
  return !list.is_array() || at < 2 || at + 1 == list.size();
}

/// Changes each value below `at`, which is a part of `whole`.
void change(Json& whole, Json& at, const Read& read, test::Outcomes& outcomes,
            const std::string& title) {
  if (!at.is_structured()) return;
  std::size_t place = 0;
  for (auto it = at.begin(); it != at.end(); ++it, ++place) {
    if (!is_looked_at(at, place)) continue;
    const Json was = *it;
    for (const Json& other :
         {Json(nullptr), Json(true), Json(false), Json(-1), Json(7), Json(0.5), Json(""), Json("x"),
          Json::array(), Json::array({1}), Json::object(), Json::object({{"type", "x"}})}) {
      if (other == was) continue;
      *it = other;
      outcomes.add(title, read(whole.dump()));
    }
    *it = was;
    change(whole, *it, read, outcomes, title);
  }
  if (!at.is_object()) return;
  const Json all = at;
  for (const auto& [key, value] : all.items()) {
    at.erase(key);
    outcomes.add(title, read(whole.dump()));
    at = all;
  }
}

void change_json(const std::string& title, const std::string& text, const Read& read,
                 test::Outcomes& outcomes) {
  Json json = Json::parse(text);
  change(json, json, read, outcomes, title);
}

}  // namespace

TEST_CASE("each value of a configuration that is of another type is refused or read, as before") {
  test::Outcomes outcomes("configurations_types");
  for (const char* family :
       {"/models/scenes", "/tests/golden/llama3", "/tests/golden/gemma", "/tests/golden/smollm3",
        "/tests/golden/siglip", "/tests/golden/dinov2", "/tests/golden/paligemma",
        "/tests/golden/qwen2_5_vl", "/tests/golden/smolvlm", "/tests/golden/pi05",
        "/tests/golden/pi0", "/tests/golden/openvla", "/tests/golden/smolvla", "/tests/golden/dit",
        "/tests/golden/vae"})
    change_json(
        family, text_of(std::string(family) + "/config.json"),
        [](const std::string& text) {
          const auto made = Architecture::parse(text, "c");
          return made.ok() ? "read" : made.error().message;
        },
        outcomes);
  outcomes.require_as_kept();
}

TEST_CASE("each value of a picture's steps that is of another type is refused or read, as before") {
  test::Outcomes outcomes("picture_steps_types");
  const Json cases = Json::parse(text_of("/tests/golden/pictures/cases.json"));
  for (const Json& one : cases) {
    const std::string name = one.at("name");
    const auto architecture = Architecture::parse(one.at("config").dump(), name);
    REQUIRE(architecture.ok());
    change_json(
        name, one.at("preprocessor").dump(),
        [&](const std::string& text) {
          const auto made = PictureSteps::parse(text, "p", *architecture);
          if (!made.ok()) return made.error().message;
          return "read: " + std::to_string(made->height) + " x " + std::to_string(made->width) +
                 ", " + std::to_string(made->shortest) + ", " + std::to_string(made->longest) +
                 ", " + std::to_string(made->pixels_min) + " to " +
                 std::to_string(made->pixels_max);
        },
        outcomes);
  }
  outcomes.require_as_kept();
}

TEST_CASE("each value of a tokenizer that is of another type is refused or read, as before") {
  test::Outcomes outcomes("tokenizers_types");
  const char* const small = R"({"model": {"type": "BPE", "unk_token": "?", "byte_fallback": false,
      "fuse_unk": true, "ignore_merges": false, "vocab": {"a": 0, "b": 1, "ab": 2, "?": 3,
      "\u2581": 4, "\u2581a": 5}, "merges": ["a b", ["\u2581", "a"]]}, "added_tokens": [
      {"id": 6, "content": "<s>", "special": true, "normalized": false, "lstrip": false,
       "rstrip": true, "single_word": false}, {"id": 7, "content": "<n>", "special": false}],
      "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
       {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}, {"type": "NFC"}]},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits",
       "individual_digits": true}, {"type": "Split", "pattern": {"Regex": "a+"},
       "behavior": "Isolated", "invert": false}]},
      "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>",
       "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},
      "decoder": {"type": "Sequence", "decoders": [{"type": "Replace",
       "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
       {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})";
  const char* const words = R"({"model": {"type": "WordLevel", "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "a": 1, ",": 2}}})";
  for (const auto& [name, text] : {std::pair{"pairs", small}, {"words", words}})
    change_json(
        name, text,
        [](const std::string& json) {
          const Result<Tokenizer> made = Tokenizer::parse(json, "t");
          if (!made.ok()) return made.error().message;
          const auto ids = made->encode("<s>a ab,<n> b12c", true);
          std::string said;
          for (const std::int32_t id : ids) said += std::to_string(id) + " ";
          return said + "'" + made->decode(ids) + "' '" + made->decode(ids, true) + "'";
        },
        outcomes);
  outcomes.require_as_kept();
}

}  // namespace sluice
