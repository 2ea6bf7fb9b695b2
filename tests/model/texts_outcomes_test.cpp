// Chats of every template and order of roles, and decoders of tokens: what is written, as before.
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/chat.h"
#include "engine/text/tokenizer.h"
#include "tests/outcomes.h"

namespace sluice {
namespace {

std::string word_of(const Result<std::string>& said) {
  return said.ok() ? *said : said.error().message;
}

PictureInput picture(std::size_t rows, std::size_t columns, std::size_t features) {
  PictureInput made;
  made.tile_rows = rows;
  made.tile_columns = columns;
  made.feature_rows = features;
  return made;
}

/// A BPE tokenizer of words, byte tokens and marks, with that decoder.
Result<Tokenizer> decoding(const std::string& decoder) {
  return Tokenizer::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u2581a": 2,
      "\u2581": 3, "<0x41>": 4, "<0xe2>": 5, "<0x82>": 6, "<0xAC>": 7, "<0xfG>": 8, "<0xff>": 9,
      "aab": 10, "baa": 11, "\u00c3": 12, "\u00a4": 13, "\u20ac": 14, "b a": 15, "<0x4>": 16},
      "merges": []}, "added_tokens": [{"id": 17, "content": "<end>", "special": true},
      {"id": 18, "content": "<kept>", "special": false}], "decoder": )" +
                              decoder + "}",
                          "t");
}

}  // namespace

TEST_CASE("each template writes each order of roles, with pictures and without, as before") {
  test::Outcomes outcomes("chat_turns");
  const char* const roles[] = {"system", "user", "assistant", "tool"};
  for (const char* mark :
       {"<|start_header_id|>", "<|start_header_id|> Cutting Knowledge Date", "<start_of_turn>",
        "<end_of_utterance>", "<|im_start|>", "<|im_start|>system\nBe kind.<|im_end|>",
        "[INST] <<SYS>>", "[INST]", "none"}) {
    const Result<ChatTemplate> chat = ChatTemplate::recognise(mark, "t");
    if (!chat.ok()) {
      outcomes.add(mark, chat.error().message);
      continue;
    }
    for (const std::string& end : chat->ends()) outcomes.add(mark, "end " + end);
    outcomes.add(mark, word_of(chat->render({})));
    for (const char* first : roles)
      for (const char* second : {"", "system", "user", "assistant"}) {
        std::vector<ChatMessage> messages{{first, " \t one\r\n", {}}};
        if (*second != '\0') messages.push_back({second, "\v\ftwo ", {}});
        outcomes.add(mark, word_of(chat->render(messages)));
        messages.push_back({"user", "", {}});
        outcomes.add(mark, word_of(chat->render(messages)));
      }
    for (const PictureInput& one : {picture(0, 0, 2), picture(2, 1, 6), picture(1, 3, 4)}) {
      const std::vector<ChatMessage> messages{{"user", "what?", {one}}};
      outcomes.add(mark, word_of(chat->render(messages)));
    }
  }
  outcomes.require_as_kept();
}

TEST_CASE("what a ChatML template says for the system is found where it is plain text") {
  test::Outcomes outcomes("chat_systems");
  for (const char* text :
       {"<|im_start|>system\\nBe kind.<|im_end|>", "<|im_start|>system\nBe kind.<|im_end|>",
        "<|im_start|>system Be kind.<|im_end|>", "<|im_start|>system\nBe kind.",
        "<|im_start|>system\n<|im_end|>", "<|im_start|>system\nBe 'kind'.<|im_end|>",
        "<|im_start|>system\n{x}<|im_end|><|im_start|>system\\nB<|im_end|>",
        "<|im_start|>user\nBe kind.<|im_end|>"}) {
    const Result<ChatTemplate> chat = ChatTemplate::recognise(text, "t");
    REQUIRE(chat.ok());
    const std::vector<ChatMessage> messages{{"user", "u", {}}};
    outcomes.add("systems", word_of(chat->render(messages)));
  }
  outcomes.require_as_kept();
}

TEST_CASE("each decoder makes of tokens what it made before, and of none that there is nothing") {
  test::Outcomes outcomes("decoders");
  const std::vector<std::vector<std::int32_t>> all{{0, 1},
                                                   {2, 3, 2, 1},
                                                   {3, 3, 0},
                                                   {4, 5, 6, 7, 0},
                                                   {5, 6, 0},
                                                   {5, 6, 7, 9, 4},
                                                   {8, 16, 4},
                                                   {10, 11, 10},
                                                   {12, 13},
                                                   {12, 0},
                                                   {12, 14, 13},
                                                   {15, 17, 18},
                                                   {-1, 0, 19, 1000},
                                                   {}};
  for (const char* decoder :
       {"null", R"({"type": "ByteLevel"})", R"({"type": "ByteFallback"})", R"({"type": "Fuse"})",
        R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"})",
        R"({"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never"})",
        R"({"type": "Replace", "pattern": {"String": "a"}, "content": "xy"})",
        R"({"type": "Strip", "content": "a", "start": 1, "stop": 0})",
        R"({"type": "Strip", "content": "a", "start": 0, "stop": 1})",
        R"({"type": "Strip", "content": "a", "start": 2, "stop": 2})",
        R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": "A", "start": 1, "stop": 0}]})"}) {
    const Result<Tokenizer> tokenizer = decoding(decoder);
    INFO((tokenizer.ok() ? decoder : tokenizer.error().message));
    REQUIRE(tokenizer.ok());
    for (const auto& ids : all) {
      std::string text = "'";
      text += tokenizer->decode(ids) + "' '";
      text += tokenizer->decode(ids, true) + "'";
      outcomes.add(decoder, text);
    }
    for (const std::int32_t id : {-1, 0, 17, 18, 19, 1 << 30})
      outcomes.add("words", std::to_string(id) + " " + std::string(tokenizer->word(id)));
  }
  for (const char* wrong : {R"({"type": "Other"})", "7", R"({"type": "Strip", "content": ""})",
                            R"({"type": "Replace"})", R"({"type": "Metaspace"})",
                            R"({"type": "Sequence", "decoders": 3})"})
    outcomes.add("refused", decoding(wrong).ok() ? "read" : decoding(wrong).error().message);
  std::string deep = R"({"type": "Fuse"})";
  for (int depth = 1; depth <= 6; ++depth) {
    deep = R"({"type": "Sequence", "decoders": [)" + deep + "]}";
    outcomes.add("depths", decoding(deep).ok() ? "read" : decoding(deep).error().message);
  }
  for (const std::size_t size : {4096U, 4097U}) {
    const std::string strip =
        R"({"type": "Strip", "content": ")" + std::string(size, 'c') + R"("})";
    outcomes.add("lengths", decoding(strip).ok() ? "read" : decoding(strip).error().message);
  }
  outcomes.require_as_kept();
}

}  // namespace sluice
