// Prefixes that are shared: fewer rows are computed, and nobody's answer changes.
#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "answer_all.h"
#include "engine/checkpoint/identity.h"
#include "engine/picture/image_file.h"
#include "engine/tasks/chat_model.h"
#include "engine/tasks/shared_prefix.h"
#include "made_prompts.h"
#include "tests/directories.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Generation> requests(const Model& model, bool share) {
  std::vector<Generation> made = testing::made_prompts(model, "qwen2", 24);
  for (Generation& one : made) one.options.share_prefix = share;
  return made;
}

struct Outcome {
  std::map<std::uint64_t, std::vector<std::int32_t>> answers;
  std::size_t computed = 0;  // tokens
  bool operator==(const Outcome& other) const { return answers == other.answers; }
};

/// `at_once` of them in the queue at a time.
Outcome run(const Model& model, KvPool& pool, bool share, std::size_t at_once, Budget budget) {
  Outcome outcome;
  Generator generator(model.text(), pool, nullptr, budget);
  outcome.computed = testing::answer_all(
      generator, requests(model, share), at_once,
      [&](std::uint64_t id, const Generation& done) { outcome.answers[id] = done.tokens; });
  return outcome;
}

ChatModel open_chat(const std::string& name) {
  return std::move(ChatModel::open(golden + name, Model::open(golden + name).value())).value();
}

}  // namespace

TEST_CASE("answers are the same with shared prefixes, and when pages are given up for others") {
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16);
  INFO(to_string(dtype));
  const Model model = Model::open(golden + "qwen2").value();
  KvPool apart(model.text().kv_shape(4, dtype), 400);
  const Outcome want = run(model, apart, false, 1, {});
  CHECK(want.answers.size() == 24);
  CHECK(apart.pages_cached() == 0);
  std::size_t computed = 0;
  for (const std::size_t pages : {400, 40, 14}) {
    KvPool pool(model.text().kv_shape(4, dtype), pages);
    for (const Budget budget : {Budget{}, Budget{5, 64}}) {
      const std::size_t at_once = pages == 14 ? 1 : 3;
      const Outcome got = run(model, pool, true, at_once, budget);
      CHECK(got == want);
      CHECK(got.computed < want.computed);
      if (pages == 400 && budget.tokens != 5) computed = got.computed;
      // The less room, the less is found again.
      if (pages == 14) CHECK(got.computed > computed);
      CHECK(pool.pages_free() == pages);
      CHECK(pool.pages_cached() > 0);
    }
  }
  CHECK(computed < want.computed * 6 / 10);
}

TEST_CASE("the same picture and words in another session are not computed again") {
  for (const char* name : {"conversation_smolvlm", "conversation_qwen"}) {
    INFO(name);
    const auto expected = nlohmann::json::parse(read(golden + name + "/expected.json"));
    const auto want = expected.at("answer_ids").get<std::vector<std::int32_t>>();
    const ChatModel chat = open_chat(name);
    KvPool pool(chat.model().text().kv_shape(8), 64);
    const Tensor image = decode_image(read(golden + name + "/picture.png")).value();
    Tensor other = image;
    other.bytes()[0] ^= std::byte{0xff};
    std::size_t first = 0;
    for (const Tensor* picture : std::array{&image, &image, static_cast<const Tensor*>(&other)}) {
      const PictureInput seen = chat.encode_picture(*picture).value();
      const std::vector<ChatMessage> messages{{"user", "What is on the table?", {seen}}};
      GenerationOptions options;
      options.tokens_max = want.size();
      Generation generation = std::move(chat.begin(messages, options)).value();
      generation.options.end_tokens.clear();
      const std::size_t prompt = generation.history.size();
      Generator generator(chat.model().text(), pool, &chat.tokenizer(), {});
      generator.add(std::move(generation));
      std::vector<std::uint64_t> advanced;
      generator.step(advanced);
      if (first == 0) {
        first = generator.last_tokens();
        CHECK(first == prompt);
      } else if (picture == &image) {
        CHECK(generator.last_tokens() <= 8);
      } else {
        CHECK(generator.last_tokens() > seen.features.size() / chat.model().text().width());
      }
      while (generator.busy()) generator.step(advanced);
      if (picture == &image) CHECK(generator.find(0)->tokens == want);
    }
    CHECK(chat.encodings() == 2);
  }
}

TEST_CASE("rows that see each other are shared as one block, others one by one") {
  for (const std::string name : {"llama", "paligemma"}) {
    const ScratchFolder folder;
    std::filesystem::copy(golden + "conversation_qwen/tokenizer.json", folder.path());
    std::filesystem::copy(golden + name, folder.path());
    const ChatModel chat =
        std::move(ChatModel::open(folder.path(), Model::open(folder.path()).value())).value();
    const Generation made = std::move(chat.begin_raw("xqzk", {})).value();
    REQUIRE(made.history.size() > 1);
    CHECK(made.origin.block == (name == "paligemma" ? made.history.size() : 0));
  }
}

TEST_CASE("rows of a checkpoint that is replaced while it is read go under nobody's name") {
  namespace fs = std::filesystem;
  const ScratchFolder scratch;
  const fs::path folder = fs::path(scratch.path()) / "model", weights = "model.safetensors";
  const fs::path other = fs::path(scratch.path()) / weights;
  fs::copy(golden + "conversation_qwen", folder);
  const auto model_of = [&](const Result<ChatModel>& chat) {
    return chat->begin_raw("xqzk", {})->origin.model;
  };
  Result<ChatModel> chat = ChatModel::open(folder, Model::open(folder).value());
  REQUIRE(chat.ok());
  const std::string old = model_of(chat);
  CHECK(old.starts_with(checkpoint_identity(folder)));
  const auto replace = [&] {
    fs::copy(folder / weights, other);
    fs::rename(other, folder / weights);
  };
  Model model = std::move(Model::open(folder)).value();
  replace();
  const Result<ChatModel> mixed = ChatModel::open(folder, std::move(model));
  REQUIRE_FALSE(mixed.ok());
  CHECK(mixed.error().code == ErrorCode::unavailable);
  CHECK(mixed.error().message.find("changed while they were read") != std::string::npos);
  // One that is loaded already keeps the name of what it read, and does not take another's.
  CHECK(model_of(chat) == old);
  CHECK_FALSE(chat->name_by_content(folder).ok());
  CHECK(model_of(chat) == old);
  Result<ChatModel> again = ChatModel::open(folder, Model::open(folder).value());
  REQUIRE(again.ok());
  CHECK(model_of(again) != old);
  CHECK(again->name_by_content(folder).ok());
  CHECK(model_of(again).starts_with(checkpoint_content(folder)));
  // Of what the caller had nobody knows what lies there.
  const auto loaded = ChatModel::open(
      folder,
      Model::load(Architecture::load(folder).value(), open_weights(folder).value()).value());
  REQUIRE(loaded.ok());
  CHECK(model_of(loaded).empty());
}

TEST_CASE("what pictures became is kept within its bound, the last asked for longest") {
  const auto picture = [](char name) {
    PictureInput made;
    made.content = std::string(1, name);
    made.features.resize(25);
    return made;
  };
  PictureCache cache(200);
  cache.keep(picture('a'));
  cache.keep(picture('b'));
  cache.keep(picture('b'));
  CHECK(cache.bytes() == 200);
  CHECK(cache.find("a")->features.size() == 25);
  cache.keep(picture('c'));
  CHECK(cache.size() == 2);
  CHECK(cache.find("b") == nullptr);
  CHECK(cache.find("a") != nullptr);
  PictureInput large = picture('d');
  large.features.resize(51);
  cache.keep(large);
  CHECK(cache.find("d") == nullptr);
  CHECK(cache.size() == 2);
  Tensor wide = Tensor::of_f32({1, 2}, {1, 2}), high = Tensor::of_f32({2, 1}, {1, 2});
  CHECK(picture_content(wide) != picture_content(high));
}
