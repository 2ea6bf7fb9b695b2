// From a picture file and a question to the answer, against transformers' whole pipeline.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/picture/image_file.h"
#include "engine/tasks/chat_model.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

using Json = nlohmann::json;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a question with a picture gets the answer that transformers gives") {
  for (const char* name : {"conversation_smolvlm", "conversation_qwen"}) {
    INFO(name);
    const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + name;
    const Json expected = Json::parse(read(directory + "/expected.json"));
    Result<Model> model = Model::open(directory);
    REQUIRE(model.ok());
    const auto chat = ChatModel::open(directory, std::move(model).value());
    REQUIRE(chat.ok());
    const auto picture = chat->encode_picture(*decode_image(read(directory + "/picture.png")));
    REQUIRE(picture.ok());
    const std::vector<ChatMessage> messages{{"user", "What is on the table?", {*picture}}};
    CHECK(*chat->tokens(messages) == expected.at("prompt_ids").get<std::vector<std::int32_t>>());

    GenerationOptions options;
    options.tokens_max = expected.at("answer_ids").size();
    auto generation = chat->begin(messages, options);
    REQUIRE(generation.ok());
    generation->options.end_tokens.clear();  // the reference ran on
    KvPool pool(chat->model().text().kv_shape(16), 16);
    Generator generator(chat->model().text(), pool, &chat->tokenizer(), Budget{});
    generator.add(std::move(generation).value());
    std::vector<std::uint64_t> advanced;
    while (generator.busy()) generator.step(advanced);
    const Generation done = *generator.remove(0);
    CHECK(done.tokens == expected.at("answer_ids").get<std::vector<std::int32_t>>());
    CHECK(done.text == expected.at("answer").get<std::string>());
  }
}

TEST_CASE("a prompt that cannot be is refused before anything runs") {
  const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";
  const auto chat = ChatModel::open(directory + "conversation_qwen",
                                    Model::open(directory + "conversation_qwen").value());
  REQUIRE(chat.ok());
  CHECK(chat->begin_raw("", {}).error().message.find("empty") != std::string::npos);
  CHECK(!chat->begin_raw("<|image_pad|>", {}).ok());  // a picture that is not there
  const auto no_words =
      ChatModel::open(directory + "siglip", Model::open(directory + "siglip").value());
  CHECK(no_words.error().message.find("words") != std::string::npos);
  const auto no_tokenizer =
      ChatModel::open(directory + "llama", Model::open(directory + "llama").value());
  CHECK(no_tokenizer.error().message.find("tokenizer.json") != std::string::npos);
}
