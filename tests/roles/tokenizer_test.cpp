#include "engine/text/tokenizer.h"
#include "engine/text/unknown_words.h"

#include <catch2/catch.hpp>

namespace sluice {
namespace {

constexpr const char* small = R"({"model":{"type":"WordLevel","unk_token":"<unk>",
  "vocab":{"<pad>":0,"<image>":1,"<unk>":2,"what":3,"red":4,"circle":5,"?":6,"image":7}}})";

Tokenizer tokenizer() { return std::move(Tokenizer::parse(small, "t.json")).value(); }

TEST_CASE("words are lower-cased and split at white space and punctuation") {
  CHECK(tokenizer().encode("  What RED\tcircle?\n") == std::vector<std::int32_t>{3, 4, 5, 6});
  CHECK(tokenizer().encode("red,circle!") == std::vector<std::int32_t>{4, 5});
  CHECK(tokenizer().encode("").empty());
}

TEST_CASE("an unknown word is the unknown token, whatever its bytes are") {
  CHECK(tokenizer().encode("red zebra") == std::vector<std::int32_t>{4, 2});
  CHECK(tokenizer().encode("\xff\xfe \xc3\xa9t\xc3\xa9") == std::vector<std::int32_t>{2, 2});
}

TEST_CASE("unknown words are named as they are written, each once") {
  using Words = std::vector<std::string>;
  CHECK(tokenizer().unknown_words("What red circle?!").empty());
  CHECK(tokenizer().unknown_words("a Zebra, RED zebra Zebra") == Words{"a", "Zebra", "zebra"});
  CHECK(tokenizer().unknown_words("").empty());
}

TEST_CASE("who wrote unknown words is told which, on one line") {
  const auto told = [](std::string_view text) {
    return unknown_words_text(tokenizer(), text, "DIR");
  };
  CHECK(told("red circle").empty());
  CHECK(told("a red Zebra") ==
        "the model does not know the words 'a', 'Zebra'; those it knows: DIR/README.md");
  CHECK(told("b\x1b b") ==
        "the model does not know the words 'b?', 'b'; those it knows: DIR/README.md");
  const std::string many = told("q w e r t y u i o p");
  CHECK(many.find("'u', 'i' and 2 more; those") != std::string::npos);
  // 79 bytes and half a character are no place to end.
  CHECK(told(std::string(79, 'z') + "\xc3\xa9z") ==
        "the model does not know the word '" + std::string(79, 'z') +
            "...'; those it knows: DIR/README.md");
}

TEST_CASE("text cannot spell a special token") {
  CHECK(tokenizer().encode("<image>") == std::vector<std::int32_t>{7});
}

TEST_CASE("decoding joins words with spaces and ignores ids that do not exist") {
  const std::vector<std::int32_t> ids{4, 5};
  CHECK(tokenizer().decode(ids) == "red circle");
  CHECK(tokenizer().word(-1).empty());
  CHECK(tokenizer().word(1'000'000).empty());
}

TEST_CASE("a damaged tokenizer file is refused and the message says why") {
  const auto why = [](const std::string& json) {
    const Result<Tokenizer> read = Tokenizer::parse(json, "t.json");
    return read.ok() ? std::string("read") : read.error().message;
  };
  CHECK_THAT(why(""), Catch::Contains("not a tokenizer.json"));
  CHECK_THAT(why("[]"), Catch::Contains("not a tokenizer.json"));
  CHECK_THAT(why(R"({"model":{"type":"Unigram"}})"), Catch::Contains("\"Unigram\" is not read"));
  CHECK_THAT(why(R"({"model":{"type":5}})"), Catch::Contains("is not read"));
  CHECK_THAT(why(R"({"model":{"type":"WordLevel"}})"), Catch::Contains("no 'vocab'"));
  CHECK_THAT(why(R"({"model":{"type":"WordLevel","vocab":{"a":-1}}})"),
             Catch::Contains("id of 'a'"));
  CHECK_THAT(why(R"({"model":{"type":"WordLevel","vocab":{"a":4000000000}}})"),
             Catch::Contains("id of 'a'"));
  CHECK_THAT(why(R"({"model":{"type":"WordLevel","vocab":{"a":0}}})"),
             Catch::Contains("unknown token"));
}

}  // namespace
}  // namespace sluice
