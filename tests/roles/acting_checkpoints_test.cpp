// What checkpoints that act play besides: OpenVLA answers with words, and a policy's tower sees one
// picture as it sees a camera's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/base64.h"
#include "base/file.h"
#include "base/random.h"
#include "engine/checkpoint/named_tensors.h"
#include "engine/picture/image_file.h"
#include "engine/tasks/chat_model.h"
#include "engine/tasks/generation.h"
#include "engine/tasks/model_engine.h"
#include "fake_activation.h"
#include "roles/vision_encoder.h"
#include "running_workflow.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

const std::string root = SLUICE_SOURCE_DIR;

std::string whole(const std::string& path) {
  return read_whole_file(path, std::size_t{1} << 26U).value();
}

/// The tiny OpenVLA with more words, for its prompts end with Llama's token 29871, and a tokenizer.
/// `acts`: what it says are bins, else words.
std::string openvla_with_words(bool acts = false) {
  constexpr std::int64_t words = 29952, known = 320, read = 600, width = 64;
  constexpr std::int64_t bins_end = words - 20, bins = 256;
  const std::string golden = root + "/tests/golden/openvla";
  const fs::path folder =
      fs::path(SLUICE_BINARY_DIR) / (acts ? "openvla_that_acts" : "openvla_with_words");
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy_file(root + "/tests/golden/tokenizers/llama2/tokenizer.json", folder / "tokenizer.json");
  std::string config = whole(golden + "/config.json");
  const std::string size = "\"vocab_size\": 320";
  config.replace(config.find(size), size.size(), "\"vocab_size\": " + std::to_string(words));
  std::ofstream(folder / "config.json") << config;
  const SafetensorsFile file = SafetensorsFile::open(golden + "/model.safetensors").value();
  NamedTensors tensors;
  for (const auto& [name, view] : file.tensors()) {
    Tensor tensor = file.load(name).value();
    const bool head = name == "language_model.lm_head.weight";
    if (head || name == "language_model.model.embed_tokens.weight") {
      std::vector<float> values(tensor.f32().begin(), tensor.f32().end());
      REQUIRE(values.size() == known * width);
      // Nobody says what the tokenizer has no word for.
      SplitMix64 random(head ? 1 : 2);
      values.resize(static_cast<std::size_t>(words * width));
      for (std::int64_t i = known * width; i < (head ? read : words) * width; ++i)
        values[static_cast<std::size_t>(i)] = static_cast<float>(random.normal()) * 0.2F;
      if (head && acts) {
        std::ranges::fill(values, 0.0F);
        for (std::int64_t i = (bins_end - bins) * width; i < bins_end * width; ++i)
          values[static_cast<std::size_t>(i)] = static_cast<float>(random.normal());
      }
      tensor = Tensor::of_f32({words, width}, std::move(values));
    }
    tensors.emplace(name, std::move(tensor));
  }
  REQUIRE(save_safetensors((folder / "model.safetensors").string(), tensors).ok());
  return folder.string();
}

struct Answer {
  std::vector<std::int32_t> tokens;
  std::string text;
};

/// The engine by itself.
Answer answered(const ChatModel& chat, const std::string& question, const Tensor& picture) {
  ChatMessage message;
  message.role = "user";
  message.text = question;
  message.pictures = {chat.encode_picture(picture).value()};
  GenerationOptions options;
  options.tokens_max = 7;
  KvPool pool(chat.model().text().kv_shape(16), 16);
  CpuText text(chat.model().text(), pool);
  GenerationTask task(chat.begin({&message, 1}, options).value(), &chat.tokenizer());
  ModelEngine engine(text, {});
  engine.add(1, task);
  std::vector<TaskId> advanced;
  while (engine.step(advanced)) continue;
  engine.remove(1);
  return {task.generation().tokens, task.generation().text};
}

std::string said(RunningWorkflow& workflow, const std::string& question, const std::string& picture,
                 const std::string& session) {
  const Outputs outputs = workflow.call(
      {{"request", make_json(R"({"content": [{"type": "image", "data": ")" +
                             base64_encode(picture) + R"("}, {"type": "text", "text": ")" +
                             question + R"("}], "options": {"max_tokens": 7}})")}},
      session);
  std::string text;
  for (const PayloadRef& piece : outputs.at("text")) text += piece->text;
  return text;
}

std::unique_ptr<Role> eyes(const std::string& directory) {
  RoleSpec role;
  role.name.text = "eyes";
  role.options = {{{"precision", {}}, {"exact", {}}}};
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  return std::get<std::unique_ptr<Role>>(vision_encoder_plugin().make(making).value());
}

}  // namespace

TEST_CASE("OpenVLA answers as one role and as encoder and language model as it does by itself") {
  const std::string directory = openvla_with_words();
  const std::string file = whole(root + "/tests/golden/conversation_qwen/picture.png");
  const Tensor picture = decode_image(file).value();
  const ChatModel chat = ChatModel::open(directory, Model::open(directory).value()).value();
  std::vector<std::pair<std::string, std::string>> changes{
      {"tests/golden/conversation_qwen", directory}};
  RunningWorkflow one("chat.yaml", changes), parts("vlm_split.yaml", changes);
  changes.emplace_back("plugin: vision_encoder,", "plugin: vision_encoder, global_params: [kv],");
  RunningWorkflow shared("vlm_split.yaml", changes);
  std::string last;
  for (const char* question : {"open the drawer", "pick up the cup"}) {
    const Answer want = answered(chat, question, picture);
    REQUIRE(want.tokens.size() == 7);
    CHECK(!want.text.empty());
    CHECK(want.text != last);
    CHECK(said(one, question, file, question) == want.text);
    CHECK(said(parts, question, file, question) == want.text);
    CHECK(said(shared, question, file, question) == want.text);
    last = want.text;
  }
}

TEST_CASE("a policy's tower sees a picture as it sees that of its only camera") {
  Tensor photo = Tensor::zeros(Dtype::u8, {20, 31, 3}).value();
  SplitMix64 random(4);
  for (std::uint8_t& v : photo.u8()) v = static_cast<std::uint8_t>(random.next());
  const PayloadRef image = make_image(std::move(photo));
  for (const char* family : {"pi0", "pi05", "smolvla"}) {
    INFO(family);
    const auto role = eyes(root + "/tests/golden/" + family);
    FakeActivation picture("encode"), cameras("encode_cameras");
    picture.give("image", image);
    cameras.give("image0", image);
    for (FakeActivation* one : {&picture, &cameras}) REQUIRE(role->run(*one).ok());
    const Tensor& got = picture.frames.at(0).second->tensor;
    const Tensor& want = cameras.frames.at(0).second->tensor;
    CHECK(got.shape() == want.shape());
    CHECK(std::ranges::equal(got.f32(), want.f32()));
    const auto seen = got.f32();
    CHECK(std::ranges::any_of(seen, [](float v) { return v != 0; }));
  }
}

TEST_CASE("openvla.yaml gives the actions that the policy's own tokens stand for") {
  const std::string directory = openvla_with_words(true);
  const Tensor picture =
      decode_image(whole(root + "/tests/golden/conversation_qwen/picture.png")).value();
  const ChatModel chat = ChatModel::open(directory, Model::open(directory).value()).value();
  RunningWorkflow workflow("openvla.yaml", {{"tests/golden/openvla", directory}});
  const double low[] = {-1, -0.5, 0, -2, 0.1, 0.2}, high[] = {1, 0.5, 2, 2, 0.4, 0.9};
  std::vector<std::int32_t> last;
  for (const char* instruction : {"open the drawer", "pick up the cup"}) {
    const std::vector<std::int32_t> tokens = answered(chat, instruction, picture).tokens;
    REQUIRE(tokens.size() == 7);
    CHECK(tokens != last);
    last = tokens;
    // OpenVLA's: edges of bins from -1 to 1, their centres, and all but the gripper scaled back.
    std::vector<float> want;
    for (std::size_t i = 0; i < 7; ++i) {
      const int place = std::clamp(29932 - tokens[i] - 1, 0, 254);
      const auto edge = [](int n) { return -1 + 2.0 * n / 255; };
      const double centre = (edge(place) + edge(place + 1)) / 2;
      want.push_back(
          static_cast<float>(i == 6 ? centre : 0.5 * (centre + 1) * (high[i] - low[i]) + low[i]));
    }
    const Outputs outputs = workflow.call(
        {{"camera", make_image(picture)}, {"instruction", make_text(instruction)}}, instruction);
    const Tensor& actions = outputs.at("actions").at(0)->tensor;
    REQUIRE(actions.describe() == "f32[1, 7]");
    for (std::size_t i = 0; i < 7; ++i) CHECK(std::abs(actions.f32()[i] - want[i]) < 1e-6F);
  }
}
