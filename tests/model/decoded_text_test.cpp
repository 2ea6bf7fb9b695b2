// Text that is decoded as it grows is the text of all its tokens, for every kind of tokenizer.
#include "engine/text/decoded_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string root = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/tokenizers/";

std::size_t same(const std::string& a, const std::string& b) {
  const auto differ = std::ranges::mismatch(a, b);
  return static_cast<std::size_t>(differ.in1 - a.begin());
}

/// Any token but one that stands for a byte.
std::int32_t drawn(const Tokenizer& tokenizer, std::int32_t most, SplitMix64& random) {
  for (;;) {
    const auto id =
        static_cast<std::int32_t>(random.next() % (static_cast<std::uint64_t>(most) + 1));
    if (!tokenizer.word(id).starts_with("<0x")) return id;
  }
}

/// Feeds the tokens in steps of one to four.
void check_grown(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                 SplitMix64& random, bool gives_up) {
  DecodedText grown;
  std::string settled;
  for (std::size_t count = 0; count < ids.size();) {
    count = std::min(ids.size(), count + 1 + random.next() % 4);
    const auto tokens = std::span(ids).first(count);
    grown.advance(tokenizer, tokens);
    const std::string whole = tokenizer.decode(tokens);
    REQUIRE(grown.text().starts_with(settled));
    REQUIRE(grown.settled() <= grown.text().size());
    settled = grown.text().substr(0, grown.settled());
    // Some decoders give up a whole run of bytes while its last character is not finished.
    if (gives_up && whole.find("\xef\xbf\xbd") != std::string::npos) continue;
    REQUIRE(whole.starts_with(settled));
    // What is not settled may be shown later than when all is decoded at once, never otherwise.
    CAPTURE(whole, grown.text(), same(whole, grown.text()));
    REQUIRE((grown.text() == whole || grown.text() == settled));
  }
}

}  // namespace

TEST_CASE("text that grows by tokens is what they are decoded to at once") {
  SplitMix64 random(5);
  for (const char* kind :
       {"qwen2", "llama3", "llama2", "gemma", "smollm", "metaspace", "sentencepiece"}) {
    CAPTURE(kind);
    const bool pieces = std::string(kind) == "sentencepiece";
    const Result<Tokenizer> tokenizer =
        Tokenizer::load(root + kind + (pieces ? "/tokenizer.model" : "/tokenizer.json"));
    REQUIRE(tokenizer.ok());
    std::ifstream file(root + kind + "/cases.json");
    const nlohmann::json cases = nlohmann::json::parse(file, nullptr, false);
    const bool gives_up = kind != std::string("qwen2") && kind != std::string("llama3") &&
                          kind != std::string("smollm");  // bytes that stand in tokens of their own
    std::vector<std::int32_t> all;
    for (const nlohmann::json& one : cases) {
      const auto ids = one["ids"].get<std::vector<std::int32_t>>();
      check_grown(*tokenizer, ids, random, gives_up);
      all.insert(all.end(), ids.begin(), ids.end());
    }
    check_grown(*tokenizer, all, random, gives_up);
    const std::int32_t most = *std::ranges::max_element(all);
    for (int round = 0; round < 60; ++round) {
      std::vector<std::int32_t> ids(1 + random.next() % 60);
      for (std::int32_t& id : ids) id = drawn(*tokenizer, most, random);
      check_grown(*tokenizer, ids, random, gives_up);
    }
  }
}

TEST_CASE("bytes that never become a character do not hold up what comes behind them") {
  for (const char* kind : {"qwen2", "llama2", "gemma"}) {
    CAPTURE(kind);
    const Result<Tokenizer> tokenizer = Tokenizer::load(root + kind + "/tokenizer.json");
    REQUIRE(tokenizer.ok());
    const std::vector<std::int32_t> dove = tokenizer->encode("\xf0\x9f\x95\x8a");
    REQUIRE(dove.size() >= 3);
    std::vector<std::int32_t> ids = tokenizer->encode("two words");
    ids.insert(ids.end(), dove.begin(), dove.end());
    ids.push_back(dove.back());  // stray, and behind it a character that is never finished
    ids.insert(ids.end(), dove.end() - 3, dove.end() - 1);
    const std::vector<std::int32_t> more = tokenizer->encode(" and then some more");
    ids.insert(ids.end(), more.begin(), more.end());
    DecodedText grown;
    std::string settled;
    for (std::size_t count = 1; count <= ids.size(); ++count) {
      grown.advance(*tokenizer, std::span(ids).first(count));
      REQUIRE(grown.text().starts_with(settled));
      settled = grown.text().substr(0, grown.settled());
    }
    CHECK(settled.starts_with("two words"));
    CHECK(settled.find("\xf0\x9f\x95\x8a") != std::string::npos);
    CHECK(settled.ends_with("some more"));
    CHECK(settled.find("\xef\xbf\xbd") != std::string::npos);
  }
}
