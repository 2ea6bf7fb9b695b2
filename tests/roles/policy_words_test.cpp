// A robot that acts and says words over one prefix: pi0.5's trunk as a language_model beside its
// action expert.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <deque>
#include <tuple>

#include "engine/checkpoint/named_tensors.h"
#include "engine/tasks/chat_model.h"
#include "fake_activation.h"
#include "roles/language_model.h"
#include "roles/policy_kv.h"
#include "roles/robot_policy.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pi05";

PayloadRef tokens_of(const std::vector<std::int32_t>& ids, std::int64_t most) {
  Tensor made = Tensor::zeros(Dtype::i32, {static_cast<std::int64_t>(ids.size())}).value();
  std::ranges::copy(ids, made.i32().begin());
  return make_tensor(std::move(made), {{"max_tokens", most}});
}

PayloadRef told(const std::string& instruction, std::int64_t most) {
  auto* made = new Payload;
  made->type = ValueType::text;
  made->text = instruction;
  made->attributes = {{"max_tokens", most}};
  return PayloadRef(made);
}

struct World {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> trunk, hand;
  std::deque<FakeActivation> activations;
  std::vector<StepOutcome> ended;
  std::size_t rows = 0, forwards = 0;  // of all tasks so far

  explicit World(bool asks_subtask = false, std::int64_t pages = 32) {
    param.page_tokens = 8;
    param.pages = pages;
    role.name.text = "robot";
    role.plugin.text = "language_model";
    role.options = {{{"precision", {}}, {"exact", {}}}};
    shared = PolicyKv::make({&param, directory}).value();
    hand = make(action_expert_plugin());
    if (asks_subtask) role.options.push_back({{"prompt", {}}, {"subtask", {}}});
    trunk = make(language_model_plugin());
    SharedEngine::Turn turn(host().shared);
    turn.engine().watch = [this](const ForwardRecord& record) {
      ++forwards;
      for (const BatchItem& item : record.items) rows += item.rows;
    };
  }
  std::unique_ptr<SteppedRole> make(const Plugin& plugin) {
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {shared.get()};
    auto made = plugin.make(making);
    INFO((made.ok() ? "" : made.error().message));
    REQUIRE(made.ok());
    return std::get<std::unique_ptr<SteppedRole>>(std::move(made).value());
  }
  PolicyKv& kv() { return static_cast<PolicyKv&>(*shared); }
  PolicyHost& host() {
    return *kv().host(directory, kernels::WeightFormat::exact, PlannerOptions()).value();
  }
  FakeActivation& asked(const std::string& interface, const std::string& session = "s") {
    return activations.emplace_back(interface, session);
  }
  std::string outcome(const FakeActivation& activation) const {
    for (const StepOutcome& one : ended)
      if (one.activation == &activation) return one.result.ok() ? "" : one.result.error().message;
    return "it has not ended";
  }
  void run_all() {
    for (int i = 0; i < 1000 && (trunk->busy() || hand->busy()); ++i) {
      if (hand->busy()) hand->step(ended);
      if (trunk->busy()) trunk->step(ended);
    }
  }
  std::string run(SteppedRole& by, FakeActivation& activation) {
    by.admit(activation);
    run_all();
    return outcome(activation);
  }
  FakeActivation& behind(const FakeActivation& prefix, const std::string& interface) {
    FakeActivation& made = asked(interface);
    made.give("prefix", prefix.frames.at(0).second);
    return made;
  }
  FakeActivation& read(const std::string& instruction, std::int64_t most = 6) {
    FakeActivation& made = asked("prefill");
    made.give("instruction", told(instruction, most));
    REQUIRE(run(*trunk, made).empty());
    return made;
  }
};

std::string words_of(const FakeActivation& activation) {
  std::string text;
  for (const auto& [field, value] : activation.frames) {
    CHECK(field == "token");
    text += value->text;
  }
  return text;
}

/// The golden file's inputs without what is masked, and its outputs.
struct Golden {
  SafetensorsFile file = SafetensorsFile::open(directory + "/model.safetensors").value();
  NamedInputs in{file};
  std::vector<float> pictures;
  std::vector<std::int32_t> tokens, words;
  std::vector<float> noise, actions;

  Golden() {
    const auto there = in.integers("image_mask").value();
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (there[i] == 0) continue;
      const auto one = in.floats("image" + std::to_string(i)).value();
      pictures.insert(pictures.end(), one.begin(), one.end());
    }
    const auto ids = in.integers("tokens").value(), mask = in.integers("token_mask").value();
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (mask[i] != 0) tokens.push_back(ids[i]);
    noise = in.floats("noise").value();
    words = in.integers("out.text_tokens").value();
    actions = in.floats("out.actions").value();
  }
};

}  // namespace

TEST_CASE("of one prefix the roles give the actions and the words that OxyGen's code gives") {
  World world;
  const Golden golden;
  REQUIRE(golden.words.size() == 8);
  const Model& model = world.host().model;
  std::vector<float> features = model.features(golden.pictures, {}).value();
  const auto width = static_cast<std::int64_t>(model.text().width());
  const auto pictures = static_cast<std::int64_t>(features.size()) / width;
  FakeActivation& read = world.asked("prefill");
  read.give("features", make_tensor(Tensor::of_f32({pictures, width}, std::move(features))));
  read.give("tokens", tokens_of(golden.tokens, 8));
  REQUIRE(world.run(*world.trunk, read).empty());
  const std::size_t prefix = static_cast<std::size_t>(pictures) + golden.tokens.size();
  CHECK(world.rows == prefix);
  FakeActivation& act = world.behind(read, "act");
  FakeActivation& say = world.behind(read, "decode");
  act.give("noise", make_tensor(Tensor::of_f32({6, 32}, golden.noise)));
  world.hand->admit(act);
  world.trunk->admit(say);
  world.run_all();
  REQUIRE(world.outcome(act).empty());
  REQUIRE(world.outcome(say).empty());
  const auto got = act.frames.at(0).second->tensor.f32();
  double far = 0, norm = 0;
  for (std::size_t i = 0; i < golden.actions.size(); ++i) {
    far += std::pow(got[i] - golden.actions[i], 2);
    norm += std::pow(golden.actions[i], 2);
  }
  CHECK(std::sqrt(far / norm) <= 2e-5);
  CHECK(words_of(say) == world.host().tokenizer->decode(golden.words));
  // Beside the prefix: six rows of actions a step, and a row for each word but the last.
  CHECK(world.rows == prefix + 10 * 6 + 7);
}

TEST_CASE("words and actions of one prefix are what each is alone, and advance together") {
  World world(true);
  const auto both = [&](const FakeActivation& prefix) {
    FakeActivation& act = world.behind(prefix, "act");
    FakeActivation& say = world.behind(prefix, "decode");
    const std::size_t before = world.forwards;
    world.hand->admit(act);
    world.trunk->admit(say);
    world.run_all();
    REQUIRE(world.outcome(act).empty());
    REQUIRE(world.outcome(say).empty());
    const auto values = act.frames.at(0).second->tensor.f32();
    return std::tuple(std::vector<float>(values.begin(), values.end()), words_of(say),
                      world.forwards - before);
  };
  const FakeActivation& prefix = world.read("fold the_SHIRT");
  const auto [actions, words, together] = both(prefix);
  CHECK(!words.empty());
  CHECK(together == 10);  // five words beside ten steps
  FakeActivation& act = world.behind(prefix, "act");
  REQUIRE(world.run(*world.hand, act).empty());
  CHECK(std::ranges::equal(act.frames.at(0).second->tensor.f32(), actions));
  FakeActivation& say = world.behind(prefix, "decode");
  REQUIRE(world.run(*world.trunk, say).empty());
  CHECK(words_of(say) == words);
  CHECK(say.frames.back().second->attribute("cut_off") == 1);
  // The prompt of a sub-task: in small letters, on one line, and no state.
  CHECK(both(world.read("Fold the shirt")) == std::tuple(actions, words, std::size_t{10}));
  CHECK(std::get<1>(both(world.read("open the drawer"))) != words);
  FakeActivation& state = world.asked("prefill");
  state.give("instruction", make_text("fold"));
  state.give("state", make_tensor(Tensor::of_f32({1}, {0.5F})));
  CHECK(world.run(*world.trunk, state) ==
        "the prompt of a sub-task holds no state: leave it out, or `prompt: subtask`");
}

TEST_CASE("words that have begun go on when the session's next prefix comes") {
  World world;
  const FakeActivation& first = world.read("open the drawer", 6);
  FakeActivation& alone = world.behind(first, "decode");
  REQUIRE(world.run(*world.trunk, alone).empty());
  FakeActivation& begun = world.behind(first, "decode");
  world.trunk->admit(begun);
  world.trunk->step(world.ended);
  CHECK_FALSE(begun.frames.empty());
  (void)world.read("close the drawer", 3);
  world.run_all();
  CHECK(world.outcome(begun).empty());
  CHECK(words_of(begun) == words_of(alone));
  FakeActivation& late = world.behind(first, "decode");
  CHECK(world.run(*world.trunk, late).starts_with("the session has another prefix by now"));
}

TEST_CASE("an answer of one word needs no forward of its own") {
  World world;
  const FakeActivation& prefix = world.read("open the drawer", 1);
  const std::size_t before = world.forwards;
  FakeActivation& say = world.behind(prefix, "decode");
  REQUIRE(world.run(*world.trunk, say).empty());
  CHECK(world.forwards == before);
  CHECK_FALSE(words_of(say).empty());
}

TEST_CASE("words that are cancelled, or whose role goes, leave no page behind") {
  World world;
  const FakeActivation& prefix = world.read("open the drawer", 40);
  const std::size_t free = world.kv().pool().pages_free();
  FakeActivation& cancelled = world.behind(prefix, "decode");
  world.trunk->admit(cancelled);
  for (int i = 0; i < 3; ++i) world.trunk->step(world.ended);
  CHECK(world.kv().pool().pages_free() < free);
  cancelled.is_cancelled = true;
  world.trunk->step(world.ended);
  CHECK(world.outcome(cancelled) == "the call was cancelled");
  CHECK(world.kv().pool().pages_free() == free);
  FakeActivation& left = world.behind(prefix, "decode");
  world.trunk->admit(left);
  for (int i = 0; i < 3; ++i) world.trunk->step(world.ended);
  world.trunk.reset();
  CHECK(world.kv().pool().pages_free() == free);
  world.shared->end_session("s");
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}
