// Workflows over tiny checkpoints, as they are shipped: what they give is what the engine gives by
// itself.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/base64.h"
#include "base/random.h"
#include "engine/picture/image_file.h"
#include "engine/policy/flow_policy.h"
#include "engine/policy/policy_prompt.h"
#include "engine/tasks/chat_model.h"
#include "engine/tasks/ddim_steps.h"
#include "running_workflow.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string root = SLUICE_SOURCE_DIR;

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

PayloadRef tensor(std::vector<std::int64_t> shape, std::vector<float> values) {
  return make_tensor(Tensor::of_f32(std::move(shape), std::move(values)));
}

Tensor photo(std::uint64_t seed) {
  Tensor made = Tensor::zeros(Dtype::u8, {20 + static_cast<std::int64_t>(seed), 31, 3}).value();
  SplitMix64 random(seed);
  for (std::uint8_t& v : made.u8()) v = static_cast<std::uint8_t>(random.next());
  return made;
}

std::vector<float> values_of(const Outputs& outputs, const std::string& name) {
  const auto it = outputs.find(name);
  REQUIRE(it != outputs.end());
  REQUIRE(it->second.size() == 1);
  const auto values = it->second.front()->tensor.f32();
  return {values.begin(), values.end()};
}

const std::vector<float> robot_state{0.25F, -1.0F, 0.999F, -3.0F};

/// The policy by itself: the same pictures, words and noise, by hand.
std::vector<float> acted(const std::string& family, std::span<const Tensor> photos,
                         const std::string& instruction, std::vector<std::int32_t> tokens,
                         std::vector<float> noise) {
  const std::string directory = root + "/tests/golden/" + family;
  const Model model = Model::open(directory).value();
  const FlowPolicy policy = FlowPolicy::load(model).value();
  const PictureSteps steps = PictureSteps::load(directory, model.architecture()).value();
  std::vector<float> pixels;
  for (const Tensor& one : photos) {
    const auto made = prepare_picture(steps, model.architecture(), one).value();
    pixels.insert(pixels.end(), made.pixels.begin(), made.pixels.end());
  }
  std::vector<float> state = robot_state;
  if (!instruction.empty())
    tokens = open_tokenizer(directory)->encode(
        policy_prompt(model.architecture().family, instruction, state), true);
  state.resize(policy.shape().state_dims);
  KvPool pool(policy.kv_shape(16), 16);
  KvSequence prefix;
  const auto rows = policy.embed({pixels, tokens, state}).value();
  REQUIRE(policy.prefill(pool, prefix, rows, policy.picture_rows({pixels, tokens, state}), nullptr)
              .ok());
  ActionRequest request{&prefix, std::move(noise), state};
  REQUIRE(policy.act(pool, {&request, 1}, {policy.shape().steps, 1.0F}).ok());
  return request.x;
}

std::vector<float> drawn(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> noise(count);
  for (float& v : noise) v = static_cast<float>(random.normal());
  return noise;
}

}  // namespace

TEST_CASE("robot_policy.yaml gives the policy's own actions, bit for bit") {
  RunningWorkflow workflow("robot_policy.yaml");
  const Tensor photos[] = {photo(1), photo(2)};
  for (const char* instruction : {"pick up the red_cup", "open the drawer"}) {
    const Outputs outputs = workflow.call({{"front", make_image(photos[0])},
                                           {"wrist", make_image(photos[1])},
                                           {"state", tensor({4}, robot_state)},
                                           {"instruction", make_text(instruction)}});
    CHECK(outputs.at("actions").at(0)->tensor.describe() == "f32[6, 32]");
    CHECK(values_of(outputs, "actions") ==
          acted("pi05", photos, instruction, {}, drawn(6 * 32, 0)));
  }
}

namespace {

Inputs robot(std::uint64_t seed, const std::string& instruction) {
  return {{"front", make_image(photo(seed))},
          {"wrist", make_image(photo(seed + 1))},
          {"state", tensor({4}, robot_state)},
          {"instruction", make_text(instruction)}};
}

/// With a picture, if there is one, and at most 12 tokens for an answer.
Inputs asked(const std::string& question, const std::string& picture = "") {
  std::string content;
  if (!picture.empty())
    content = R"({"type": "image", "data": ")" + base64_encode(picture) + "\"}, ";
  content += R"({"type": "text", "text": ")" + question + "\"}";
  return {{"request",
           make_json("{\"content\": [" + content + "], \"options\": {\"max_tokens\": 12}}")}};
}

std::string answered(const Outputs& outputs) {
  std::string text;
  if (const auto it = outputs.find("text"); it != outputs.end())
    for (const PayloadRef& piece : it->second) text += piece->text;
  return text;
}

/// The encoder uses the checkpoint and the engine of the others' paged_kv.
const std::pair<std::string, std::string> over_kv{"plugin: vision_encoder,",
                                                  "plugin: vision_encoder, global_params: [kv],"};

}  // namespace

TEST_CASE("a policy as encoder, language model and action expert has the whole one's actions") {
  for (const char* family : {"pi05", "smolvla", "pi0"}) {
    INFO(family);
    const bool reads_words = family == std::string("pi05");
    std::vector<std::pair<std::string, std::string>> changes{
        {"tests/golden/pi05", std::string("tests/golden/") + family}};
    std::vector<std::pair<std::string, std::string>> split = changes;
    if (!reads_words) {  // those have no tokenizer
      changes.push_back({"instruction: inputs.instruction", "tokens: inputs.tokens"});
      changes.push_back({"instruction: text", "tokens: tensor"});
      split = changes;
    }
    if (family == std::string("pi0")) {  // its state stands beside the actions
      split.push_back({", state: inputs.state", ""});
      split.push_back({"{ prefix: read.prefix }", "{ prefix: read.prefix, state: inputs.state }"});
    }
    RunningWorkflow whole("robot_policy.yaml", changes), parts("policy_split.yaml", split);
    split.push_back(over_kv);
    RunningWorkflow shared("policy_split.yaml", split);
    for (const std::uint64_t seed : {1, 5}) {
      Inputs inputs = robot(seed, "pick up the cup");
      if (!reads_words) {
        Tensor tokens = Tensor::zeros(Dtype::i32, {3}).value();
        for (std::int64_t i = 0; i < 3; ++i) tokens.i32()[i] = static_cast<std::int32_t>(seed + i);
        inputs.back() = {"tokens", make_tensor(std::move(tokens))};
      }
      const auto want = values_of(whole.call(inputs), "actions");
      CHECK(want.size() % 6 == 0);
      CHECK(values_of(parts.call(inputs), "actions") == want);
      CHECK(values_of(shared.call(inputs), "actions") == want);
    }
  }
}

namespace {

/// The trunk by itself: greedy words behind a prefix that it reads in one piece.
std::string spoken(const std::string& family, std::span<const Tensor> photos,
                   std::span<const std::int32_t> tokens, std::size_t words) {
  const std::string directory = root + "/tests/golden/" + family;
  const Model model = Model::open(directory).value();
  const FlowPolicy policy = FlowPolicy::load(model).value();
  const PictureSteps steps = PictureSteps::load(directory, model.architecture()).value();
  std::vector<float> pixels;
  for (const Tensor& one : photos) {
    const auto made = prepare_picture(steps, model.architecture(), one).value();
    pixels.insert(pixels.end(), made.pixels.begin(), made.pixels.end());
  }
  const Observation observation{pixels, tokens, {}};
  KvPool pool(policy.kv_shape(16), 16);
  KvSequence sequence;
  std::vector<float> hidden, logits;
  REQUIRE(policy
              .prefill(pool, sequence, policy.embed(observation).value(),
                       policy.picture_rows(observation), &hidden)
              .ok());
  std::vector<std::int32_t> said;
  while (said.size() < words) {
    model.text().logits(std::span(hidden).last(model.text().width()), logits);
    said.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    std::vector<float> row;
    model.text().embed({&said.back(), 1}, row);
    const Chunk chunk{&sequence, row};
    REQUIRE(model.text().forward(pool, {&chunk, 1}, hidden).ok());
  }
  return open_tokenizer(directory)->decode(said);
}

}  // namespace

TEST_CASE("robot_words.yaml acts as the whole policy does and says what its trunk says") {
  RunningWorkflow workflow("robot_words.yaml");
  const Tensor photos[] = {photo(1), photo(2)};
  const std::string directory = root + "/tests/golden/pi05";
  std::string last;
  for (const char* instruction : {"pick up the red_cup", "Open the drawer"}) {
    const std::vector<std::int32_t> tokens =
        open_tokenizer(directory)->encode(subtask_prompt(instruction), true);
    const std::string want = spoken("pi05", photos, tokens, 12);
    CHECK(want != last);
    last = want;
    for (const char* session : {"arm", "leg", "arm"}) {
      const Outputs outputs = workflow.call({{"front", make_image(photos[0])},
                                             {"wrist", make_image(photos[1])},
                                             {"instruction", make_text(instruction)}},
                                            session);
      CHECK(values_of(outputs, "actions") == acted("pi05", photos, "", tokens, drawn(6 * 32, 0)));
      std::string words;
      for (const PayloadRef& piece : outputs.at("words")) words += piece->text;
      CHECK(words == want);
    }
  }
  // The whole policy, told the same tokens, over pages of the same kind.
  RunningWorkflow whole("robot_policy.yaml",
                        {{"instruction: inputs.instruction", "tokens: inputs.tokens"},
                         {"instruction: text", "tokens: tensor"},
                         {"state: tensor, ", ""},
                         {"state: inputs.state, ", ""}});
  const auto tokens = open_tokenizer(directory)->encode(subtask_prompt("open the drawer"), true);
  Tensor ids = Tensor::zeros(Dtype::i32, {static_cast<std::int64_t>(tokens.size())}).value();
  std::ranges::copy(tokens, ids.i32().begin());
  const Outputs outputs = whole.call({{"front", make_image(photos[0])},
                                      {"wrist", make_image(photos[1])},
                                      {"tokens", make_tensor(std::move(ids))}});
  CHECK(values_of(outputs, "actions") == acted("pi05", photos, "", tokens, drawn(6 * 32, 0)));
}

TEST_CASE("a checkpoint as encoder and language model says what it says as one role") {
  for (const char* model : {"conversation_qwen", "conversation_smolvlm"}) {
    INFO(model);
    const std::string directory = root + "/tests/golden/" + model;
    std::vector<std::pair<std::string, std::string>> changes{{"conversation_qwen", model}};
    RunningWorkflow whole("chat.yaml", changes), parts("vlm_split.yaml", changes);
    changes.push_back(over_kv);
    RunningWorkflow shared("vlm_split.yaml", changes);
    const std::string picture = read(directory + "/picture.png");
    const Inputs turns[] = {asked("What is on the table?", picture), asked("And then?"),
                            asked("Is this the same?", picture)};
    std::string last;
    for (const Inputs& turn : turns) {
      const std::string want = answered(whole.call(turn));
      CHECK(want != last);
      CHECK(answered(parts.call(turn)) == want);
      CHECK(answered(shared.call(turn)) == want);
      last = want;
    }
    // And without a picture, in another session.
    CHECK(answered(parts.call(asked("Hello there"), "b")) ==
          answered(whole.call(asked("Hello there"), "b")));
  }
}

TEST_CASE("reading prompts and writing answers in two roles says what one role says") {
  RunningWorkflow whole("chat.yaml"), parts("prefill_decode.yaml");
  for (const char* session : {"a", "b", "a", "b", "a"}) {
    const Inputs turn = asked(std::string("What is on the table of ") + session + "?");
    const std::string want = answered(whole.call(turn, session));
    CHECK(!want.empty());
    CHECK(answered(parts.call(turn, session)) == want);
  }
  whole.end_session("a");
  parts.end_session("a");
  CHECK(answered(parts.call(asked("Hello"), "a")) == answered(whole.call(asked("Hello"), "a")));
}

TEST_CASE("a DiT and its VAE as two roles draw what both draw by themselves") {
  const Model dit = Model::open(root + "/tests/golden/dit").value();
  const Model vae = Model::open(root + "/tests/golden/vae").value();
  const DiffusionShape& shape = dit.diffusion().shape();
  KvPool pool(dit.diffusion().kv_shape(16), 8);
  const auto draw = [&](std::int32_t label) {
    auto steps = DdimSteps::make(dit.diffusion(), label, {10, 4.0F}, drawn(shape.latent(), 0));
    while (steps.value()->left() != 0) {
      DrawingRows step;
      steps.value()->lay_out(step);
      KvSequence with, without;
      const auto of = [&](KvSequence& sequence, std::uint32_t condition) {
        return Chunk{&sequence, step.rows, Mask::block, {},
                     {},        condition, nullptr,     step.conditions};
      };
      const Chunk chunks[] = {of(with, step.condition), of(without, step.unguided)};
      std::vector<float> hidden;
      REQUIRE(dit.diffusion().trunk().forward(pool, chunks, hidden).ok());
      steps.value()->take(std::span(hidden).first(step.rows.size()),
                          std::span(hidden).subspan(step.rows.size()));
    }
    return steps.value()->take_latents();
  };
  RunningWorkflow workflow("class_picture.yaml");
  // The same over pages that are a global parameter.
  RunningWorkflow shared("class_picture.yaml", {{"roles:\n",
                                                 "global_params: { kv: { kind: paged_kv, model: "
                                                 "tests/golden/dit, pages: 16 } }\nroles:\n"},
                                                {"plugin: class_denoiser,",
                                                 "plugin: class_denoiser, global_params: [kv],"}});
  std::vector<std::uint8_t> last;
  for (const std::int32_t label : {3, 7}) {
    const std::vector<float> latents = draw(label);
    const Plane pixels =
        vae.vae().decode(vae.vae().unscaled({latents, shape.channels, shape.side, shape.side}));
    const Outputs outputs = workflow.call({{"label", make_number(label)}});
    REQUIRE(outputs.contains("image"));
    const Tensor& image = outputs.at("image").at(0)->tensor;
    REQUIRE(image.describe() == "u8[32, 32, 3]");
    const Outputs again = shared.call({{"label", make_number(label)}});
    CHECK(std::ranges::equal(again.at("image").at(0)->tensor.u8(), image.u8()));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < pixels.values.size(); ++i) {
      const double value = std::min(std::max(pixels.values[i] / 2 + 0.5, 0.0), 1.0) * 255;
      const double got = image.u8()[i % pixels.pixels() * 3 + i / pixels.pixels()];
      wrong += std::abs(value - got) <= 0.501 ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(std::vector<std::uint8_t>(image.u8().begin(), image.u8().end()) != last);
    last.assign(image.u8().begin(), image.u8().end());
  }
  CHECK(workflow.error_of({{"label", make_number(11)}}).find("class 11 is not from 0 to 10") !=
        std::string::npos);
}
