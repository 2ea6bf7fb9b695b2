// chat_model and language_model whose decoder is on a GPU: they say what they say on the CPU, over
// pages that are shared, gone on with, waited for and given back as there.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/picture/image_file.h"
#include "roles/language_model.h"
#include "roles/robot_policy.h"
#include "tests/cuda_roles/watched_texts.h"
#include "tests/directories.h"
#include "tests/roles/chat_world.h"
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

FakeActivation picture(const std::string& model, const std::string& session) {
  FakeActivation made("answer", session);
  made.give("image", make_image(decode_image(read(model + "/picture.png")).value()));
  return made;
}

FakeActivation sampled(std::int64_t seed) {
  FakeActivation asked("answer", "a");
  auto* payload = new Payload;
  payload->type = ValueType::text;
  payload->text = "Hello there";
  payload->attributes = {{"generate", 1}, {"max_tokens", 12},   {"temperature_milli", 900},
                         {"top_k", 40},   {"top_p_milli", 950}, {"seed", seed}};
  asked.give("text", PayloadRef(payload));
  return asked;
}

ChatWorld world_on(const TextDevice* device, const std::string& model = directory,
                   std::int64_t pages = 64, std::vector<OptionSpec> options = {}) {
  return ChatWorld(pages, std::move(options), {}, device, model);
}

/// What a session is told when it asks these, one after the other.
std::vector<std::string> answers(ChatWorld& world, const std::vector<std::string>& questions,
                                 bool with_picture, const std::string& session = "a") {
  std::vector<std::string> made;
  std::uint64_t call = 100;
  for (const std::string& question : questions) {
    FakeActivation image = picture(world.model, session), asked = piece(question, session);
    image.call_number = asked.call_number = ++call;
    if (with_picture && made.empty()) world.chat->admit(image);
    world.chat->admit(asked);
    world.run();
    made.push_back(said(asked));
  }
  for (const StepOutcome& outcome : world.ended) CHECK(outcome.result.ok());
  world.ended.clear();
  return made;
}

const std::vector<std::string> questions{"What is on the table?", "And then?", "Why?"};

}  // namespace

TEST_CASE("a conversation with a picture is word for word the CPU's, and transformers'") {
  if (!cuda_is_there()) return;
  for (const char* name : {"conversation_qwen", "conversation_smolvlm"}) {
    INFO(name);
    const std::string model = golden + name;
    ChatWorld here = world_on(nullptr, model), there = world_on(&cuda_texts(), model);
    const auto want = answers(here, questions, true), got = answers(there, questions, true);
    CHECK(got == want);
    const auto expected = nlohmann::json::parse(read(model + "/expected.json"));
    CHECK(got[0] == expected.at("answer").get<std::string>());
    CHECK(got[1] != got[0]);
  }
}

TEST_CASE("a sampled answer is drawn as on the CPU, and by its seed") {
  if (!cuda_is_there()) return;
  std::vector<std::string> drawn;
  for (const std::int64_t seed : {5, 6, 7}) {
    ChatWorld here = world_on(nullptr), there = world_on(&cuda_texts());
    FakeActivation one = sampled(seed), two = sampled(seed);
    here.chat->admit(one);
    there.chat->admit(two);
    here.run();
    there.run();
    CHECK(said(two) == said(one));
    drawn.push_back(said(two));
  }
  CHECK((drawn[0] != drawn[1] && drawn[1] != drawn[2]));
}

TEST_CASE("tokens are chosen on the GPU, those of two sessions in one step") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  ChatWorld alone = world_on(nullptr), world = world_on(&watched);
  FakeActivation one = piece("Hello there", "a", true, 12), two = piece("Why?", "b", true, 12);
  world.chat->admit(one);
  world.chat->admit(two);
  world.run();
  CHECK(said(one) == answers(alone, {"Hello there"}, false, "a")[0]);
  CHECK(said(two) == answers(alone, {"Why?"}, false, "b")[0]);
  const Asked asked = watched.take();
  CHECK(asked.logits == 2);  // the first token of each, behind its prompt
  CHECK(std::ranges::count(asked.steps, 2U) >= 8);
}

TEST_CASE("a later turn goes on behind what its session said, and others begin with its pages") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  const std::vector<OptionSpec> apart{{{"share_prefixes", {}}, {"no", {}}}};
  ChatWorld alone = world_on(nullptr), keeps = world_on(&watched, directory, 64, apart),
            forgets = world_on(&watched, directory, 64, apart), world = world_on(&watched);
  const auto want = answers(alone, questions, true);
  std::size_t rows[2] = {};
  for (ChatWorld* one : {&forgets, &keeps}) {
    CHECK(answers(*one, {questions[0]}, true)[0] == want[0]);
    KvSequence& kept = static_cast<ChatSessions&>(*one->sessions).session("a", "").sequence;
    CHECK(kept.tokens() > 40);
    if (one == &forgets) one->pool().truncate(kept, 0);
    watched.take();
    FakeActivation second = piece(questions[1], "a");
    one->chat->admit(second);
    one->run();
    CHECK(said(second) == want[1]);
    rows[one == &keeps] = watched.take().rows;
  }
  CHECK(rows[1] + 40 <= rows[0]);
  CHECK(answers(world, {questions[0], questions[1]}, true)[1] == want[1]);
  watched.take();
  // The same picture and question: but for the last page, keys and values are there.
  CHECK(answers(world, {questions[0]}, true, "b")[0] == want[0]);
  CHECK(watched.take().rows <= 8);
  // Both go on from pages that they share, each with its own words.
  ChatWorld other = world_on(nullptr);
  CHECK(answers(world, {questions[2]}, false, "b")[0] ==
        answers(other, {questions[0], questions[2]}, true)[1]);
  CHECK(answers(world, {questions[2]}, false, "a")[0] == want[2]);
}

TEST_CASE("sessions that may not share prefixes compute their own") {
  if (!cuda_is_there()) return;
  const WatchedTexts watched;
  ChatWorld world = world_on(&watched, directory, 64, {{{"share_prefixes", {}}, {"no", {}}}});
  answers(world, {questions[0]}, false, "a");
  const std::size_t first = watched.take().rows;
  answers(world, {questions[0]}, false, "b");
  CHECK(watched.take().rows == first);
}

TEST_CASE("an answer that is cancelled amid its steps leaves the chat and the pages as they were") {
  if (!cuda_is_there()) return;
  ChatWorld alone = world_on(nullptr);
  const auto want = answers(alone, {"Hello there", "And then?"}, false);
  for (const int steps : {1, 3, 6}) {
    ChatWorld world = world_on(&cuda_texts());
    CHECK(answers(world, {"Hello there"}, false)[0] == want[0]);
    FakeActivation wrong = piece("Never mind", "a"), again = piece("And then?", "a");
    wrong.call_number = 2;
    again.call_number = 3;
    world.chat->admit(wrong);
    for (int i = 0; i < steps; ++i) world.chat->step(world.ended);
    wrong.is_cancelled = true;
    world.run();
    REQUIRE(world.ended.size() == 1);
    CHECK(world.ended[0].result.error().code == ErrorCode::cancelled);
    world.chat->admit(again);
    world.run();
    CHECK(said(again) == want[1]);
    world.sessions->end_session("a");
    CHECK(world.pool().pages_free() == world.pool().pages());
  }
}

TEST_CASE("what the GPU's pages do not hold fails alone; who waits for pages gets them") {
  if (!cuda_is_there()) return;
  ChatWorld world = world_on(&cuda_texts(), directory, 5);  // 40 tokens
  FakeActivation image = picture(directory, "a"), large = piece(questions[0], "a"),
                 small = piece("Hi", "b", true, 2), next = piece("Hi", "c", true, 2);
  for (FakeActivation* one : {&image, &large, &small, &next}) world.chat->admit(*one);
  world.run();
  std::size_t failed = 0;
  for (const StepOutcome& outcome : world.ended)
    if (!outcome.result.ok()) {
      ++failed;
      CHECK(outcome.activation == &large);
      CHECK(outcome.result.error().code == ErrorCode::exhausted);
      CHECK(outcome.result.error().message.find("raise `pages`") != std::string::npos);
    }
  CHECK(failed == 1);
  CHECK(!said(small).empty());
  CHECK(said(next) == said(small));
}

TEST_CASE("one role reads a prompt on the GPU and another answers it; a session may end between") {
  if (!cuda_is_there()) return;
  ChatWorld alone = world_on(nullptr), world = world_on(&cuda_texts());
  RoleSpec reading = world.role, writing = world.role;
  const auto made = [&](RoleSpec& role, const char* name) {
    role.name.text = name;
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {world.sessions.get()};
    return std::get<std::unique_ptr<SteppedRole>>(language_model_plugin().make(making).value());
  };
  const auto reader = made(reading, "reader"), writer = made(writing, "writer");
  const auto run = [&](SteppedRole& role, FakeActivation& activation) {
    role.admit(activation);
    while (role.busy()) role.step(world.ended);
  };
  const auto prompt = [](const std::string& session) {
    FakeActivation read("prefill", session);
    const FakeActivation like = piece("Hello there", session);
    read.give("text", like.inputs("text").front());
    return read;
  };
  FakeActivation read = prompt("a"), write("decode", "a"), left = prompt("b");
  run(*reader, read);
  REQUIRE(read.frames.size() == 1);
  write.give("prefix", read.frames[0].second);
  run(*writer, write);
  CHECK(said(write) == answers(alone, {"Hello there"}, false)[0]);
  run(*reader, left);
  CHECK(world.pool().pages_free() < world.pool().pages());
  for (const char* session : {"a", "b"}) world.sessions->end_session(session);
  CHECK(world.pool().pages_free() == world.pool().pages());
}

TEST_CASE("a pool on a GPU tells of its pages, in the precision that they have") {
  if (!cuda_is_there()) return;
  for (const bool narrow : {false, true}) {
    GlobalParamSpec param;
    param.name.text = "kv";
    param.page_tokens = 8;
    param.pages = 12;
    param.device = EngineDevice::cuda;
    const auto sessions = ChatSessions::make({&param, directory}, &cuda_texts()).value();
    CHECK(sessions->pool_report(std::chrono::milliseconds(0))->pages == 0);
    auto& chats = static_cast<ChatSessions&>(*sessions);
    REQUIRE(chats
                .engine(directory,
                        narrow ? kernels::WeightFormat::bf16 : kernels::WeightFormat::exact, {})
                .ok());
    const PoolReport report = *sessions->pool_report(std::chrono::milliseconds(100));
    CHECK((report.pages == 12 && report.free == 12 && report.page_tokens == 8));
    INFO(report.layout);
    CHECK(report.layout.ends_with(narrow ? "in bf16, on a GPU" : "in f32, on a GPU"));
    CHECK(report.page_bytes ==
          chats.pages().shape().page_values() * (narrow ? std::size_t{2} : std::size_t{4}));
  }
}

TEST_CASE("a policy whose actions are words acts as on the CPU") {
  if (!cuda_is_there()) return;
  const ScratchFolder folder;
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(golden + "openvla/" + file, folder.path() + "/" + file);
  std::filesystem::create_symlink(golden + "tokenizers/llama2/tokenizer.json",
                                  folder.path() + "/tokenizer.json");
  Tensor photo = Tensor::zeros(Dtype::u8, {28, 28, 3}).value();
  for (std::size_t i = 0; i < photo.u8().size(); ++i)
    photo.u8()[i] = static_cast<std::uint8_t>(i * 31 % 251);
  Tensor words = Tensor::zeros(Dtype::i32, {4}).value();
  std::ranges::copy(std::vector<std::int32_t>{1, 5, 9, 2}, words.i32().begin());
  const WatchedTexts watched;
  const auto act = [&](EngineDevice device) {
    GlobalParamSpec spec;
    spec.page_tokens = 8;
    spec.pages = 32;
    spec.device = device;
    const auto kv = ChatSessions::make({&spec, folder.path()}, &watched).value();
    RoleSpec role;
    role.plugin.text = "robot_policy";
    role.options = {{{"precision", {}}, {"exact", {}}}, {{"statistics", {}}, {"toy", {}}}};
    RoleMaking making;
    making.role = &role;
    making.model_directory = folder.path();
    making.global_params = {kv.get()};
    auto made = robot_policy_plugin().make(making);
    REQUIRE(made.ok());
    const auto policy = std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
    FakeActivation asked("act");
    asked.give("image0", make_image(photo));
    asked.give("tokens", make_tensor(words));
    std::vector<StepOutcome> ended;
    policy->admit(asked);
    while (policy->busy()) policy->step(ended);
    REQUIRE(ended.size() == 1);
    INFO((ended[0].result.ok() ? "" : ended[0].result.error().message));
    REQUIRE(ended[0].result.ok());
    const auto values = asked.frames.at(0).second->tensor.f32();
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> want = act(EngineDevice::cpu);
  CHECK(watched.formats.empty());
  CHECK(act(EngineDevice::cuda) == want);
  CHECK(watched.formats.size() == 1);
}

TEST_CASE("of a decoder that runs on the GPU the host keeps the embedding alone") {
  if (!cuda_is_there()) return;
  const auto bytes = [](ChatWorld& world) {
    auto& chats = static_cast<ChatSessions&>(*world.sessions);
    const Result<ChatEngine*> engine = chats.engine(directory, kernels::WeightFormat::exact, {});
    return (*engine)->model.model().text().stream_bytes();
  };
  ChatWorld here = world_on(nullptr), there = world_on(&cuda_texts());
  CHECK(bytes(there) < bytes(here) / 2);
}
