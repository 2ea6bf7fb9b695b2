// Roles and pools that share nothing but a checkpoint have its weights in memory once.
#include <catch2/catch.hpp>

#include "engine/checkpoint/loaded_parts.h"
#include "fake_activation.h"
#include "roles/chat_role.h"
#include "roles/chat_sessions.h"
#include "roles/class_denoiser.h"
#include "roles/diffusion_kv.h"
#include "roles/image_codec.h"
#include "roles/language_model.h"
#include "roles/paged_kv.h"
#include "roles/policy_kv.h"
#include "roles/robot_policy.h"
#include "roles/vision_encoder.h"
#include "tests/directories.h"

using namespace sluice;
using kernels::WeightFormat;

namespace {

const std::string root = SLUICE_SOURCE_DIR;
const std::string scenes = root + "/models/scenes";

std::uint64_t loads() { return LoadedParts::here().loads(); }

RoleInstance made(const Plugin& plugin, const std::string& directory, GlobalParam* kv = nullptr,
                  const std::string& precision = "exact") {
  RoleSpec role;
  role.name.text = "role";
  if (!precision.empty()) role.options = {{{"precision", {}}, {precision, {}}}};
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  if (kv != nullptr) making.global_params = {kv};
  Result<RoleInstance> instance = plugin.make(making);
  INFO((instance.ok() ? "" : instance.error().message));
  REQUIRE(instance.ok());
  return std::move(instance).value();
}

template <typename Kv>
std::unique_ptr<Kv> pool_of(const std::string& directory) {
  GlobalParamSpec spec;
  spec.pages = 32;
  std::unique_ptr<GlobalParam> param = Kv::make({&spec, directory}).value();
  return std::unique_ptr<Kv>(static_cast<Kv*>(param.release()));
}

EngineOptions options_of(WeightFormat format, std::uint32_t step_tokens = 256) {
  EngineOptions made;
  made.format = format;
  made.planner.budget = step_tokens;
  return made;
}

std::vector<float> drawn(RoleInstance& role) {
  auto& painter = *std::get<std::unique_ptr<SteppedRole>>(role);
  FakeActivation asked("draw");
  asked.give("label", make_number(1));
  std::vector<StepOutcome> ended;
  painter.admit(asked);
  while (painter.busy()) painter.step(ended);
  const auto values = asked.frames.at(0).second->tensor.f32();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("denoisers without a paged_kv draw with the same weights, as long as one is there") {
  const std::string dit = root + "/tests/golden/dit";
  const std::size_t alive = LoadedParts::here().alive();
  {
    RoleInstance one = made(class_denoiser_plugin(), dit);
    const std::uint64_t before = loads();
    RoleInstance other = made(class_denoiser_plugin(), dit);
    CHECK(loads() == before);
    const std::vector<float> first = drawn(one);
    one = {};
    CHECK(drawn(other) == first);
    (void)made(class_denoiser_plugin(), dit, nullptr, "bf16");
    CHECK(loads() == before + 1);
  }
  CHECK(LoadedParts::here().alive() == alive);
}

TEST_CASE("an encoder, a codec and two pools of a checkpoint have it once") {
  const RoleInstance eye = made(vision_encoder_plugin(), scenes);
  const auto first = pool_of<PagedKv>(scenes), second = pool_of<PagedKv>(scenes);
  const RoleInstance one = made(language_model_plugin(), scenes, first.get());
  const std::uint64_t before = loads();
  const RoleInstance other = made(language_model_plugin(), scenes, second.get());
  const RoleInstance codec = made(image_codec_plugin(), scenes, nullptr, "");
  const RoleInstance another_eye = made(vision_encoder_plugin(), scenes);
  CHECK(loads() == before);
  const EngineOptions options = options_of(WeightFormat::exact);
  const Model& mine = first->host(scenes, options).value()->model;
  const Model& yours = second->host(scenes, options).value()->model;
  CHECK(&mine.text() == &yours.text());
  CHECK(&mine.vision() == &yours.vision());
  CHECK(&mine.codec() == &yours.codec());
}

TEST_CASE("pools with other step_tokens share weights, those of another precision do not") {
  const auto first = pool_of<DiffusionKv>(root + "/tests/golden/dit");
  const auto second = pool_of<DiffusionKv>(root + "/tests/golden/dit");
  const auto third = pool_of<DiffusionKv>(root + "/tests/golden/dit");
  const auto weights = [](DiffusionKv& kv, const EngineOptions& options) {
    return &kv.host(root + "/tests/golden/dit", options).value()->model.diffusion();
  };
  const auto* mine = weights(*first, options_of(WeightFormat::exact));
  CHECK(weights(*second, options_of(WeightFormat::exact, 64)) == mine);
  CHECK(weights(*third, options_of(WeightFormat::int8)) != mine);
}

TEST_CASE("robot policies over two pools share trunk, tower and action expert") {
  const std::string pi05 = root + "/tests/golden/pi05";
  const auto left = pool_of<PolicyKv>(pi05), right = pool_of<PolicyKv>(pi05);
  const RoleInstance one = made(robot_policy_plugin(), pi05, left.get());
  const std::uint64_t before = loads();
  const RoleInstance other = made(robot_policy_plugin(), pi05, right.get());
  CHECK(loads() == before);
  const PlannerOptions planner = options_of(WeightFormat::exact).planner;
  const PolicyHost& mine = *left->host(pi05, WeightFormat::exact, planner).value();
  const PolicyHost& yours = *right->host(pi05, WeightFormat::exact, planner).value();
  CHECK(&mine.policy.expert() == &yours.policy.expert());
  CHECK(&mine.model.text() == &yours.model.text());
  CHECK(&mine.model.vision() == &yours.model.vision());
}

TEST_CASE("a chat and an encoder outside its pool share the tower") {
  const std::string smolvlm = root + "/tests/golden/conversation_smolvlm";
  const auto kv = pool_of<ChatSessions>(smolvlm);
  const RoleInstance chat = made(chat_model_plugin(), smolvlm, kv.get());
  const std::uint64_t before = loads();
  const RoleInstance eye = made(vision_encoder_plugin(), smolvlm);
  CHECK(loads() == before);
}
