// `robot_policy` over OpenVLA by itself: the reference's arithmetic, what it refuses, pages that
// come back.
#include "roles/token_policy.h"

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/random.h"
#include "engine/check/model_check.h"
#include "engine/checkpoint/named_tensors.h"
#include "engine/tasks/chat_model.h"
#include "fake_activation.h"
#include "roles/robot_policy.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

/// The tiny OpenVLA with a tokenizer, which its prompts as tokens do not need, and with a file
/// beside it.
std::string checkpoint(const std::string& name, const std::string& statistics = "") {
  const fs::path folder = fs::path(SLUICE_BINARY_DIR) / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* file : {"config.json", "model.safetensors"})
    fs::create_symlink(golden + "openvla/" + file, folder / file);
  fs::create_symlink(golden + "tokenizers/llama2/tokenizer.json", folder / "tokenizer.json");
  if (!statistics.empty()) std::ofstream(folder / "dataset_statistics.json") << statistics;
  return folder.string();
}

PayloadRef tokens_of(const std::vector<std::int32_t>& ids) {
  Tensor made = Tensor::zeros(Dtype::i32, {static_cast<std::int64_t>(ids.size())}).value();
  std::ranges::copy(ids, made.i32().begin());
  return make_tensor(std::move(made));
}

Tensor photo(std::uint64_t seed) {
  Tensor made = Tensor::zeros(Dtype::u8, {28, 28, 3}).value();
  SplitMix64 random(seed);
  for (std::uint8_t& v : made.u8()) v = static_cast<std::uint8_t>(random.next());
  return made;
}

struct World {
  std::string directory;
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> policy;
  std::deque<FakeActivation> activations;
  std::vector<StepOutcome> ended;
  std::string why;  // there is no role

  explicit World(std::string path, const std::string& statistics = "", std::int64_t pages = 32)
      : directory(std::move(path)) {
    param.page_tokens = 8;
    param.pages = pages;
    role.name.text = "robot";
    role.plugin.text = "robot_policy";
    role.options = {{{"precision", {}}, {"exact", {}}}};
    if (!statistics.empty()) role.options.push_back({{"statistics", {}}, {statistics, {}}});
    shared = ChatSessions::make({&param, directory}).value();
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {shared.get()};
    auto made = robot_policy_plugin().make(making);
    if (made.ok())
      policy = std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
    else
      why = made.error().message;
  }
  KvPages& pool() { return static_cast<ChatSessions&>(*shared).pages(); }
  FakeActivation& asked() { return activations.emplace_back("act"); }
  /// How it ended; empty: well.
  std::string run(FakeActivation& activation) {
    policy->admit(activation);
    for (int i = 0; i < 500 && policy->busy(); ++i) policy->step(ended);
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation)
        return outcome.result.ok() ? "" : outcome.result.error().message;
    return "it has not ended";
  }
};

/// As timm says for the two towers: ImageNet's, and a half each.
std::vector<float> pixels_of(const Tensor& image) {
  constexpr std::array<double, 6> mean{0.485, 0.456, 0.406, 0.5, 0.5, 0.5};
  constexpr std::array<double, 6> deviation{0.229, 0.224, 0.225, 0.5, 0.5, 0.5};
  std::vector<float> made;
  for (std::size_t channel = 0; channel < 6; ++channel)
    for (std::size_t i = 0; i < 28 * 28; ++i)
      made.push_back(static_cast<float>((image.u8()[3 * i + channel % 3] / 255.0 - mean[channel]) /
                                        deviation[channel]));
  return made;
}

struct Reference {
  std::vector<std::int32_t> tokens;
  std::vector<float> actions;
};

/// The run that tests/golden compares with timm's towers, transformers' Llama and OpenVLA's bins.
Reference reference(const std::string& directory, const Tensor& image,
                    const std::vector<std::int32_t>& prompt) {
  NamedTensors in;
  put_floats(in, "pixel_values", {1, 6, 28, 28}, pixels_of(image));
  put_integers(in, "input_ids", {1, static_cast<std::int64_t>(prompt.size())}, prompt);
  put_integers(in, "max_new_tokens", {1}, {7});
  const std::string path = directory + "/in.safetensors";
  REQUIRE(save_safetensors(path, in).ok());
  const SafetensorsFile inputs = SafetensorsFile::open(path).value();
  const Model model = Model::open(directory).value();
  const NamedTensors out = run_model(model, NamedInputs(inputs)).value();
  Reference made;
  const auto greedy = out.at("greedy_ids").bytes();
  for (std::size_t at = 0; at < greedy.size(); at += sizeof(std::int64_t)) {
    std::int64_t token = 0;
    std::memcpy(&token, greedy.data() + at, sizeof token);
    made.tokens.push_back(static_cast<std::int32_t>(token));
  }
  const auto actions = out.at("actions.toy").f32();
  made.actions.assign(actions.begin(), actions.end());
  return made;
}

std::vector<float> values_of(const FakeActivation& activation) {
  const auto values = activation.frames.at(0).second->tensor.f32();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("OpenVLA's role gives the actions of its reference, each cycle its own") {
  World world(checkpoint("openvla_role"));
  std::vector<float> last;
  for (const std::uint64_t seed : {1, 2}) {
    const Tensor image = photo(seed);
    const std::vector<std::int32_t> prompt{1, 9, 44, 7};
    FakeActivation& made = world.asked();
    made.give(seed == 1 ? "image0" : "image2", make_image(image));
    made.give("tokens", tokens_of(prompt));
    REQUIRE(world.run(made).empty());
    const Reference want = reference(world.directory, image, prompt);
    REQUIRE(made.frames.size() == 1);
    CHECK(made.frames.at(0).first == "actions");
    CHECK(made.frames.at(0).second->tensor.describe() == "f32[1, 7]");
    CHECK(values_of(made) == want.actions);
    CHECK(want.actions != last);
    last = want.actions;
    // Random weights say words as well as bins; 300 tokens are real, the last 256 of them bins.
    const auto words =
        std::ranges::count_if(want.tokens, [](std::int32_t id) { return id < 44 || id >= 300; });
    REQUIRE(made.warnings.size() == (words != 0 ? 1 : 0));
    if (words != 0)
      CHECK(made.warnings.at(0).starts_with(std::to_string(words) + " of 7 tokens of an action"));
  }
  CHECK(world.pool().pages_free() + 8 >= world.pool().pages());
}

TEST_CASE("cycles of several robots advance together and each has what it has alone") {
  World world(checkpoint("openvla_role"));
  std::vector<FakeActivation*> cycles;
  for (const std::uint64_t seed : {1, 2, 3}) {
    cycles.push_back(&world.asked());
    cycles.back()->give("image0", make_image(photo(seed)));
    cycles.back()->give("tokens", tokens_of({1, 12, static_cast<std::int32_t>(seed)}));
    world.policy->admit(*cycles.back());
  }
  for (int i = 0; i < 500 && world.policy->busy(); ++i) world.policy->step(world.ended);
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::vector<std::int32_t> prompt{1, 12, static_cast<std::int32_t>(seed)};
    CHECK(values_of(*cycles.at(seed - 1)) ==
          reference(world.directory, photo(seed), prompt).actions);
  }
}

TEST_CASE("what OpenVLA cannot act on is refused in words that name it") {
  World world(checkpoint("openvla_role"));
  const auto refused = [&](const std::function<void(FakeActivation&)>& give) {
    FakeActivation& made = world.asked();
    give(made);
    return world.run(made);
  };
  const PayloadRef image = make_image(photo(1)), tokens = tokens_of({1, 9, 44});
  CHECK(refused([&](FakeActivation& a) { a.give("tokens", tokens); }) ==
        "there is nothing to act on: no picture in image0, image1, image2 or image3");
  CHECK(refused([&](FakeActivation& a) { a.give("image0", image); }) ==
        "there is nothing to act on: no instruction, no tokens");
  const auto with = [&](const char* field, const PayloadRef& value) {
    return refused([&](FakeActivation& a) {
      a.give("image0", image);
      a.give("tokens", tokens);
      a.give(field, value);
    });
  };
  CHECK(with("image2", image) ==
        "there are pictures in image0 and image2; this policy sees one camera");
  const PayloadRef numbers = make_tensor(Tensor::of_f32({1}, {0}));
  CHECK(with("state", numbers) == "a policy of family openvla reads no state: leave it out");
  CHECK(with("noise", numbers) == "a policy of family openvla reads no noise: leave it out");
  const auto told = [&](const PayloadRef& ids) {
    return refused([&](FakeActivation& a) {
      a.give("image0", image);
      a.give("tokens", ids);
    });
  };
  CHECK(told(numbers) == "the tokens are f32[1], this policy reads i32 values, one at least");
  CHECK(told(tokens_of({})) == "the tokens are i32[0], this policy reads i32 values, one at least");
  CHECK(told(tokens_of({1, -2})) == "token -2 at 1 is outside the vocabulary of 320");
  CHECK(told(tokens_of({1, 320})).find("320") != std::string::npos);
  CHECK(refused([&](FakeActivation& a) {
          a.give("image1", numbers);
          a.give("tokens", tokens);
        }).starts_with("image1: "));
  CHECK(world.pool().pages_free() == world.pool().pages());
  CHECK(told(tokens).empty());
}

TEST_CASE("a robot is not moved without the statistics that say what its bins mean") {
  CHECK(World(checkpoint("openvla_role"), "bridge").why ==
        "role 'robot': the checkpoint has no statistics of 'bridge'; there are toy");
  CHECK(World(checkpoint("openvla_none", "{}"))
            .why.starts_with(
                "role 'robot': the checkpoint has no statistics of actions, so nobody knows "));
  CHECK(World(checkpoint("openvla_role"), "toy").why.empty());
  // What a robot's own training left stands in place of the configuration's.
  const std::string own =
      R"({"mine": {"action": {"q01": [0, 0], "q99": [1, 100], "mask": [true, true]}}})";
  CHECK(World(checkpoint("openvla_own", own), "toy").why ==
        "role 'robot': the checkpoint has no statistics of 'toy'; there are mine");
  World world(checkpoint("openvla_own", own));
  FakeActivation& made = world.asked();
  made.give("image0", make_image(photo(1)));
  made.give("tokens", tokens_of({1, 9, 44, 7}));
  REQUIRE(world.run(made).empty());
  const auto tokens = reference(checkpoint("openvla_role"), photo(1), {1, 9, 44, 7}).tokens;
  std::vector<float> want;
  for (std::size_t i = 0; i < 2; ++i) {
    const double centre = -1 + (2.0 * std::clamp(300 - tokens[i] - 1, 0, 254) + 1) / 255;
    want.push_back(static_cast<float>(0.5 * (centre + 1) * (i == 0 ? 1 : 100)));
  }
  CHECK(values_of(made) == want);
  CHECK(Architecture::load(checkpoint("openvla_bad", R"({"mine": {"action": {"q01": [0]}}})"))
            .error()
            .message.ends_with("dataset_statistics.json: 'statistics' of 'mine' must have "
                               "action.q99, numbers"));
  CHECK(Architecture::load(checkpoint("openvla_bad", "[]"))
            .error()
            .message.ends_with("dataset_statistics.json: not a JSON object"));
}

TEST_CASE("a cycle that is cancelled, or whose role goes, leaves no page behind") {
  World world(checkpoint("openvla_role"));
  FakeActivation& cancelled = world.asked();
  const auto begin = [&](FakeActivation& made) {
    made.give("image0", make_image(photo(1)));
    made.give("tokens", tokens_of({1, 9, 44, 7}));
    world.policy->admit(made);
    for (int i = 0; i < 100 && world.pool().pages_free() == world.pool().pages(); ++i)
      world.policy->step(world.ended);
    CHECK(world.pool().pages_free() < world.pool().pages());
  };
  begin(cancelled);
  cancelled.is_cancelled = true;
  world.policy->step(world.ended);
  CHECK_FALSE(world.policy->busy());
  CHECK(cancelled.frames.empty());
  const std::size_t free = world.pool().pages_free();
  begin(world.asked());
  world.policy.reset();
  CHECK(world.pool().pages_free() >= free);
}

TEST_CASE("an answer that ends before the action does moves nobody") {
  World world(checkpoint("openvla_role"), "", 1);  // of eight tokens: no room for seven more
  FakeActivation& made = world.asked();
  made.give("image0", make_image(photo(1)));
  made.give("tokens", tokens_of({1, 9}));
  CHECK(world.run(made) ==
        "the policy's answer ended after 3 of 7 values: there are too few pages or positions");
  CHECK(made.frames.empty());
}
