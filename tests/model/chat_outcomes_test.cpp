// Chats as tokens, and templates as they stand in a folder: what is made of each, beside what was.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tasks/chat_model.h"
#include "engine/text/chat.h"
#include "tests/directories.h"
#include "tests/outcomes.h"
#include "tests/scratch_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

PictureInput picture(std::size_t rows, std::size_t columns, std::size_t features) {
  PictureInput made;
  made.tile_rows = rows;
  made.tile_columns = columns;
  made.feature_rows = features;
  return made;
}

/// Letters are tokens of their own. Llama's blank (29871) is ':'.
Tokenizer letters() {
  std::string vocabulary = R"("\u2581": 0)";
  for (char c = 'A'; c <= 'z'; ++c)
    if (c != '\\') vocabulary += ", \"" + std::string(1, c) + "\": " + std::to_string(c);
  for (int id = 200; id < 15'000; ++id)  // so many that there may be a token of that number
    vocabulary += ", \"~" + std::to_string(id) + "\": " + std::to_string(id);
  return Tokenizer::parse(R"({"model": {"type": "BPE", "vocab": {)" + vocabulary +
                              R"(, ":": 29871}, "merges": []}})",
                          "t")
      .value();
}

std::string words(const Result<std::vector<std::int32_t>>& ids) {
  if (!ids.ok()) return std::string(to_string(ids.error().code)) + ", " + ids.error().message;
  std::string text;
  for (const std::int32_t id : *ids) text += std::to_string(id) + ' ';
  return text;
}
std::string words(const Result<std::string>& said) {
  return said.ok() ? *said
                   : std::string(to_string(said.error().code)) + ", " + said.error().message;
}

Architecture of(Family family) {
  Architecture made;
  made.family = family;
  return made;
}
Architecture of_turns() {
  Architecture made = of(Family::scenes);
  made.turns = TurnTokens{1001, 1002, 1003, 1004, 1005, 1006, 1007};
  made.image_token = 1008;
  return made;
}

/// Each chat there may be of few messages, with pictures and without.
std::vector<std::vector<ChatMessage>> chats() {
  std::vector<std::vector<ChatMessage>> made{{}};
  for (const char* first : {"user", "assistant", "system", "tool", ""}) {
    made.push_back({{first, " Go:LEFT Za@[`{", {}}});
    made.push_back({{first, "Look", {picture(0, 0, 3)}}});
    made.push_back({{first, "Two", {picture(1, 2, 6), picture(0, 0, 2)}}});
    for (const char* second : {"user", "assistant", "system"}) {
      made.push_back({{first, "one", {}}, {second, "two", {picture(2, 1, 3)}}});
      for (const char* third : {"user", "assistant"})
        made.push_back({{first, "one", {}}, {second, "", {}}, {third, "three", {}}});
    }
  }
  return made;
}

std::vector<std::pair<std::string, ChatTemplate>> templates() {
  std::vector<std::pair<std::string, ChatTemplate>> made;
  for (const char* mark : {"<|start_header_id|>", "<|start_header_id|> Cutting Knowledge Date",
                           "<start_of_turn>", "<end_of_utterance>", "<|im_start|>",
                           "<|im_start|>system\nBe kind.<|im_end|>", "[INST] <<SYS>>"})
    made.emplace_back(mark, ChatTemplate::recognise(mark, "t").value());
  made.emplace_back("paligemma", ChatTemplate::load("/none", of(Family::paligemma)).value());
  made.emplace_back("openvla", ChatTemplate::load("/none", of(Family::openvla)).value());
  made.emplace_back("turns", ChatTemplate::load("/none", of_turns()).value());
  return made;
}

}  // namespace

TEST_CASE("each template makes the text and the tokens of each chat that it made before") {
  test::Outcomes outcomes("chat_tokens");
  const Tokenizer tokenizer = letters();
  for (auto& [name, chat] : templates()) {
    outcomes.add(name, "kind " + std::to_string(static_cast<int>(chat.kind())));
    for (const std::string& end : chat.ends()) outcomes.add(name, "end " + end);
    outcomes.add(name, "last " + words(Result(chat.last_tokens())));
    for (const auto& messages : chats()) {
      outcomes.add(name, words(chat.render(messages)));
      outcomes.add(name, words(chat.tokens(messages, tokenizer)));
      outcomes.add(name, words(chat.tokens(messages, Tokenizer())));
    }
    ChatTemplate dated = chat;
    dated.set_date("1 Jan 2030");
    const std::vector<ChatMessage> one{{"user", "when?", {}}};
    outcomes.add(name, words(dated.render(one)));
  }
  outcomes.require_as_kept();
}

TEST_CASE("a template is found where it stands in a folder, and what is wrong there is named") {
  test::Outcomes outcomes("chat_folders");
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "m";
  // A file's text: nothing: there is no such file; "/": a folder stands there.
  const auto put = [&](const char* name, const std::string& text) {
    if (text == "/")
      fs::create_directory(folder / name);
    else if (!text.empty())
      std::ofstream(folder / name) << (text == "empty" ? "" : text);
  };
  const auto said = [&](const Result<ChatTemplate>& chat) {
    if (chat.ok()) return std::to_string(static_cast<int>(chat->kind())) + ' ' + chat->ends()[0];
    std::string text = std::string(to_string(chat.error().code)) + ", " + chat.error().message;
    for (std::size_t at; (at = text.find(folder.string())) != std::string::npos;)
      text.replace(at, folder.string().size(), "FOLDER");
    return text;
  };
  const std::string in_json[] = {
      "",
      "empty",
      "/",
      "no json",
      "[]",
      "{}",
      R"({"chat_template": null})",
      R"({"chat_template": ""})",
      R"({"chat_template": "<|im_start|>"})",
      R"({"chat_template": "unknown"})",
      R"({"chat_template": [{"name": "default", "template": "[INST]<<SYS>>"}]})",
      R"({"chat_template": [7, {"name": 7}, {"name": "default"}, {"template": "<|im_start|>"}]})"};
  for (const std::string jinja : {"", "empty", "/", "<start_of_turn>", "unknown"})
    for (const std::string& own : in_json)
      for (const std::string& config : in_json) {
        if (!jinja.empty() && !own.empty() && jinja != "empty") continue;  // it is not looked at
        fs::remove_all(folder);
        fs::create_directory(folder);
        put("chat_template.jinja", jinja);
        put("chat_template.json", own);
        put("tokenizer_config.json", config);
        outcomes.add("jinja '" + jinja + "'",
                     said(ChatTemplate::load(folder.string(), of(Family::llama))));
      }
  fs::remove_all(folder);
  fs::create_directory(folder);
  // As long as a file may be, and longer.
  for (const std::size_t size : {(std::size_t{4} << 20U), (std::size_t{4} << 20U) + 1}) {
    std::ofstream(folder / "chat_template.jinja")
        << "<start_of_turn>" << std::string(size - 15, ' ');
    outcomes.add("size", said(ChatTemplate::load(folder.string(), of(Family::llama))));
  }
  outcomes.require_as_kept();
}

TEST_CASE(
    "what a chat of models/scenes begins with is what it was, and what cannot be is refused") {
  test::Outcomes outcomes("chat_begins");
  const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/models/scenes";
  ChatModel chat = std::move(ChatModel::open(directory, Model::open(directory).value()).value());
  REQUIRE(chat.name_by_content(directory).ok());
  const std::size_t width = chat.model().text().width();
  const auto begins = [&](const Result<Generation>& made) {
    if (!made.ok()) return std::string(to_string(made.error().code)) + ", " + made.error().message;
    std::string text;
    for (const std::int32_t id : made->history) text += std::to_string(id) + ' ';
    text += "; " + std::to_string(made->rows.size() / width) + " rows; origin " +
            std::to_string(made->origin.model.size()) + ' ' +
            std::to_string(made->origin.picture_token.value_or(-7)) + " block " +
            std::to_string(made->origin.block) + " next " + std::to_string(made->next_position) +
            ' ' + std::to_string(made->positions.size()) + "; ends";
    for (const std::int32_t end : made->options.end_tokens) text += ' ' + std::to_string(end);
    for (const PictureRows& one : made->origin.pictures)
      text += "; " + std::to_string(one.rows) + " of '" + one.content + "'";
    return text;
  };
  std::vector<std::size_t> counts{0, 1, 2, 64, 65};
  for (const std::size_t rows : counts)
    for (const std::size_t features : counts) {
      PictureInput one = picture(0, 0, rows);
      one.features.assign(features * width, 0.5F);
      one.content = "seen";
      GenerationOptions options;
      options.end_tokens = {-5};
      const std::vector<ChatMessage> messages{{"user", "what is this", {one}}};
      outcomes.add("pictures", begins(chat.begin(messages, options)));
    }
  for (const char* text : {"", "what", "unknownword what <image>"})
    outcomes.add("raw", begins(chat.begin_raw(text, {})));
  const std::size_t most = chat.model().text().shape().positions_max;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, most - 1, most, most + 1}) {
    const std::vector<std::int32_t> tokens(count, 20);
    const Result<Generation> made = chat.begin_with(tokens, {}, {});
    outcomes.add("lengths", made.ok() ? "begins" : made.error().message);
  }
  outcomes.require_as_kept();
}

TEST_CASE("what ends an answer, and which tokenizer there is, is read of a folder as before") {
  test::Outcomes outcomes("chat_ends");
  const fs::path source = fs::path(SLUICE_SOURCE_DIR) / "tests/golden/qwen2";
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "m";
  fs::create_directory(folder);
  fs::create_symlink(source / "model.safetensors", folder / "model.safetensors");
  std::ofstream(folder / "tokenizer.json")
      << R"({"model": {"type": "BPE", "vocab": {"w": 0, "h": 1, "a": 2, "t": 3}, "merges": []}})";
  nlohmann::json config = nlohmann::json::parse(std::ifstream(source / "config.json"));
  const auto said = [&](std::string text) {
    for (std::size_t at; (at = text.find(folder.string())) != std::string::npos;)
      text.replace(at, folder.string().size(), "FOLDER");
    return text;
  };
  const auto open = [&] {
    Result<Model> model = Model::open(folder.string());
    REQUIRE(model.ok());
    const Result<ChatModel> chat = ChatModel::open(folder.string(), std::move(model).value());
    if (!chat.ok()) return said(chat.error().message);
    const Result<Generation> made = chat->begin_raw("what", {});
    REQUIRE(made.ok());
    std::string text = "ends";
    for (const std::int32_t end : made->options.end_tokens) text += ' ' + std::to_string(end);
    return text;
  };
  const char* const values[] = {"",         "7",        "[7, 9]", "[]",
                                "-1",       "null",     "\"x\"",  "[7, \"x\", -2]",
                                "16777215", "16777216", "2.5",    "[16777216, 3]"};
  for (const std::string generation : values)
    for (const std::string own : {"", "5"}) {
      config.erase("eos_token_id");
      if (!own.empty()) config["eos_token_id"] = 5;
      std::ofstream(folder / "config.json") << config;
      fs::remove(folder / "generation_config.json");
      if (!generation.empty())
        std::ofstream(folder / "generation_config.json")
            << "{\"eos_token_id\": " << generation << "}";
      outcomes.add("ends", open());
    }
  for (const char* broken : {"no json", "[1]", "{}"}) {
    std::ofstream(folder / "generation_config.json") << broken;
    outcomes.add("broken", open());
  }
  // The template's own ends: one that is a token, and one that is two letters to this tokenizer.
  std::ofstream(folder / "chat_template.jinja") << "<|im_start|>";
  std::ofstream(folder / "tokenizer.json")
      << R"({"model": {"type": "BPE", "vocab": {"w": 0, "h": 1, "a": 2, "t": 3}, "merges": []},
             "added_tokens": [{"id": 4, "content": "<|im_end|>", "special": true}]})";
  for (const char* own : {R"({"eos_token_id": 9})", R"({"eos_token_id": [4, 3]})"}) {
    std::ofstream(folder / "generation_config.json") << own;
    outcomes.add("of the template", open());
  }
  fs::remove(folder / "tokenizer.json");
  outcomes.add("tokenizers", open());
  std::ofstream(folder / "tokenizer.model") << "no pieces";
  const std::string pieces = open();  // the library says more
  outcomes.add("tokenizers", pieces.substr(0, pieces.find(".model") + 7));
  std::ofstream(folder / "tokenizer.json") << "{}";
  outcomes.add("tokenizers", open());
  outcomes.require_as_kept();
}

}  // namespace sluice
