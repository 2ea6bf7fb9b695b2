// The roles of robot policies by themselves: what they refuse, and prefixes that come and go.
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <limits>

#include "engine/family/architecture.h"
#include "fake_activation.h"
#include "roles/language_model.h"
#include "roles/policy_kv.h"
#include "roles/robot_policy.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/pi05";

struct World {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> shared;
  std::unique_ptr<SteppedRole> policy, trunk, hand;
  std::deque<FakeActivation> activations;
  std::vector<StepOutcome> ended;

  explicit World(std::int64_t pages = 32) {
    param.page_tokens = 8;
    param.pages = pages;
    role.name.text = "robot";
    role.options = {{{"precision", {}}, {"exact", {}}}};
    shared = PolicyKv::make({&param, directory}).value();
    policy = make(robot_policy_plugin());
    trunk = make(language_model_plugin());
    hand = make(action_expert_plugin());
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

  FakeActivation& asked(const std::string& interface, const std::string& session = "s") {
    return activations.emplace_back(interface, session);
  }
  /// How it ended; empty: well.
  std::string run(SteppedRole& by, FakeActivation& activation) {
    by.admit(activation);
    for (int i = 0; i < 500 && by.busy(); ++i) by.step(ended);
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation)
        return outcome.result.ok() ? "" : outcome.result.error().message;
    return "it has not ended";
  }
  FakeActivation& read(const std::string& instruction, const std::string& session = "s") {
    FakeActivation& made = asked("prefill", session);
    made.give("instruction", make_text(instruction));
    REQUIRE(run(*trunk, made).empty());
    return made;
  }
  std::vector<float> acted(const FakeActivation& prefix, const std::string& session = "s") {
    FakeActivation& made = asked("act", session);
    made.give("prefix", prefix.frames.at(0).second);
    why = run(*hand, made);
    if (!why.empty()) return {};
    const auto values = made.frames.at(0).second->tensor.f32();
    return {values.begin(), values.end()};
  }
  std::string why;
};

PayloadRef floats(std::vector<std::int64_t> shape, std::vector<float> values) {
  return make_tensor(Tensor::of_f32(std::move(shape), std::move(values)));
}

}  // namespace

TEST_CASE("a robot is never told what is no number, and never told to move by it") {
  World world;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](const char* field, PayloadRef value) {
    FakeActivation& made = world.asked("act");
    made.give("instruction", make_text("go"));
    made.give(field, std::move(value));
    return world.run(*world.policy, made);
  };
  CHECK(refused("state", floats({2}, {0, nan})) ==
        "value 1 of the state is nan, not a number that can be used");
  CHECK(refused("state", floats({1}, {-std::numeric_limits<float>::infinity()})) ==
        "value 0 of the state is -inf, not a number that can be used");
  std::vector<float> noise(6 * 32);
  noise[7] = nan;
  CHECK(refused("noise", floats({6, 32}, noise)) ==
        "value 7 of the noise is nan, not a number that can be used");
  // What comes from another role is looked at when the actions are there.
  const auto width = static_cast<std::int64_t>(Architecture::load(directory)->text->block.width);
  FakeActivation& read = world.asked("prefill");
  read.give("instruction", make_text("go"));
  read.give("features",
            floats({1, width}, std::vector<float>(static_cast<std::size_t>(width), nan)));
  REQUIRE(world.run(*world.trunk, read).empty());
  CHECK(world.acted(read).empty());
  CHECK(world.why == "value 0 of the actions is nan, not a number that can be used");
}

TEST_CASE("what a policy cannot act on is refused in words that name it") {
  World world;
  const auto refused = [&](const std::function<void(FakeActivation&)>& give) {
    FakeActivation& made = world.asked("act");
    give(made);
    return world.run(*world.policy, made);
  };
  CHECK(refused([](FakeActivation&) {}) ==
        "there is nothing to act on: no picture in image0, image1, image2 or image3, "
        "no instruction");
  CHECK(world.run(*world.trunk, world.asked("prefill")) ==
        "there is nothing to act on: no features, no instruction");
  for (const char* blank : {"", " \n"}) {
    const std::string empty = "the instruction is empty: say what the robot is to do";
    CHECK(refused([&](FakeActivation& a) { a.give("instruction", make_text(blank)); }) == empty);
    FakeActivation& read = world.asked("prefill");
    read.give("instruction", make_text(blank));
    CHECK(world.run(*world.trunk, read) == empty);
  }
  const auto width = static_cast<std::int64_t>(Architecture::load(directory)->text->block.width);
  const auto unread = [&](Dtype dtype, const std::vector<std::int64_t>& shape) {
    FakeActivation& made = world.asked("prefill");
    made.give("features", make_tensor(Tensor::zeros(dtype, shape).value()));
    return world.run(*world.trunk, made)
               .find(", this policy reads f32[rows, " + std::to_string(width) + "]") !=
           std::string::npos;
  };
  CHECK_FALSE(unread(Dtype::f32, {2, width}));
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{width}, {1, 2, width}, {2, width + 1}, {2, width - 1}})
    CHECK(unread(Dtype::f32, shape));
  CHECK(unread(Dtype::bf16, {2, width}));
  CHECK(unread(Dtype::i32, {2, width}));
  CHECK(refused([](FakeActivation& a) {
          a.give("image1", floats({2}, {1, 2}));
        }).find("image1: ") == 0);
  CHECK(refused([](FakeActivation& a) { a.give("state", floats({33}, std::vector<float>(33))); }) ==
        "the state is f32[33], this policy reads 1 to 32 f32 values");
  CHECK(refused([](FakeActivation& a) {
          a.give("noise", floats({2, 3}, std::vector<float>(6)));
        }) == "the noise is f32[2, 3], this policy needs f32[6, 32]");
  const auto tokens = [](std::int32_t token) {
    Tensor made = Tensor::zeros(Dtype::i32, {1}).value();
    made.i32()[0] = token;
    return make_tensor(std::move(made));
  };
  CHECK(refused([&](FakeActivation& a) { a.give("tokens", tokens(512)); }) ==
        "token 512 at 0 is outside the vocabulary of 512");
  CHECK(refused([&](FakeActivation& a) {
          a.give("tokens", tokens(5));
          a.give("state", floats({1}, {0}));
        }).find("a pi05 policy reads its state as words") == 0);
  CHECK(refused([&](FakeActivation& a) { a.give("tokens", tokens(5)); }).empty());
  FakeActivation& late = world.asked("act");
  late.give("prefix", world.read("go").frames.at(0).second);
  late.give("state", floats({1}, {0}));
  CHECK(world.run(*world.hand, late) ==
        "a policy of family pi05 reads its state in its prefix: give it to `prefill`");
  CHECK(world.kv().pool().pages_free() < world.kv().pool().pages());
  world.shared->end_session("s");
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a prefix is its session's, and the last one; it serves many and goes with the session") {
  World world;
  const FakeActivation& first = world.read("open the drawer");
  const auto want = world.acted(first);
  REQUIRE(want.size() == 6 * 32);
  CHECK(world.acted(first) == want);
  CHECK(world.acted(first, "thief").empty());
  CHECK(world.why.find("the session has another prefix by now, or none: ") == 0);
  CHECK(world.why.find("`calls: overlap`") != std::string::npos);
  const FakeActivation& second = world.read("close the drawer");
  CHECK(world.acted(first).empty());
  CHECK(world.acted(second) != want);
  const auto number = static_cast<std::uint64_t>(second.frames.at(0).second->number);
  REQUIRE(world.kv().find("s", number) != nullptr);
  CHECK(second.frames.at(0).second->attribute("length") ==
        static_cast<std::int64_t>(world.kv().find("s", number)->sequence.tokens()));
  world.shared->end_session("s");
  CHECK(world.acted(second).empty());
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a cancelled cycle and a role that goes leave no page behind") {
  World world;
  FakeActivation& cancelled = world.asked("act");
  cancelled.give("instruction", make_text("open the drawer"));
  world.policy->admit(cancelled);
  world.policy->step(world.ended);  // its prefix
  CHECK(world.kv().pool().pages_free() < world.kv().pool().pages());
  cancelled.is_cancelled = true;
  world.policy->step(world.ended);
  CHECK_FALSE(world.policy->busy());
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
  FakeActivation& left = world.asked("act");
  left.give("instruction", make_text("open the drawer"));
  world.policy->admit(left);
  world.policy->step(world.ended);
  world.policy.reset();
  CHECK(world.kv().pool().pages_free() == world.kv().pool().pages());
}

TEST_CASE("a cycle that the pages cannot hold fails alone") {
  World world(3);
  FakeActivation& large = world.asked("act");
  large.give("instruction", make_text(std::string(200, 'x')));
  CHECK(world.run(*world.policy, large).find("the KV pool is full") == 0);
  FakeActivation& small = world.asked("act");
  small.give("instruction", make_text("go"));
  CHECK(world.run(*world.policy, small).empty());
}
