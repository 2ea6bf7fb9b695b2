// The role class_denoiser: drawings together as alone, whichever role asked, and what it refuses.
#include "roles/class_denoiser.h"

#include <catch2/catch.hpp>

#include "fake_activation.h"
#include "roles/diffusion_kv.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/dit";
using Said = std::vector<std::pair<std::string, std::string>>;

Result<RoleInstance> made(const Said& options, GlobalParam* kv = nullptr) {
  RoleSpec role;
  role.name.text = "painter";
  for (const auto& [key, value] : options) role.options.push_back({{key, {}}, {value, {}}});
  RoleMaking making;
  making.role = &role;
  making.model_directory = directory;
  if (kv != nullptr) making.global_params = {kv};
  return class_denoiser_plugin().make(making);
}

std::unique_ptr<SteppedRole> painter(const std::string& steps = "4", GlobalParam* kv = nullptr) {
  return std::get<std::unique_ptr<SteppedRole>>(
      made({{"precision", "exact"}, {"steps", steps}}, kv).value());
}

FakeActivation asked(std::int64_t label) {
  FakeActivation made("draw");
  made.give("label", make_number(label));
  return made;
}

std::vector<float> latents(const FakeActivation& activation) {
  const auto values = activation.frames.at(0).second->tensor.f32();
  return {values.begin(), values.end()};
}

std::vector<float> alone(std::int64_t label, const std::string& steps = "4") {
  const auto role = painter(steps);
  FakeActivation drawing = asked(label);
  std::vector<StepOutcome> ended;
  role->admit(drawing);
  while (role->busy()) role->step(ended);
  return latents(drawing);
}

}  // namespace

TEST_CASE("drawings that come at different steps advance together, each as alone") {
  const auto role = painter();
  std::vector<StepOutcome> ended;
  std::vector<FakeActivation> drawings;
  for (std::int64_t i = 0; i < 11; ++i) drawings.push_back(asked(i % 3));
  int steps = 0;
  for (FakeActivation& drawing : drawings) {
    role->admit(drawing);
    role->step(ended);
    ++steps;
  }
  while (role->busy()) {
    role->step(ended);
    ++steps;
  }
  CHECK(steps == 11 + 3);  // the last one comes at step 11 and takes four
  CHECK(ended.size() == drawings.size());
  for (std::size_t i = 0; i < drawings.size(); ++i) {
    CHECK(latents(drawings[i]) == alone(static_cast<std::int64_t>(i % 3)));
  }
}

TEST_CASE("roles over one paged_kv draw in the same forwards, each in its own number of steps") {
  GlobalParamSpec spec;
  spec.pages = 64;
  const std::unique_ptr<GlobalParam> kv = DiffusionKv::make({&spec, directory}).value();
  const auto few = painter("3", kv.get()), many = painter("7", kv.get());
  EngineOptions said;
  said.format = kernels::WeightFormat::exact;
  DiffusionHost& host = *static_cast<DiffusionKv&>(*kv).host(directory, said).value();
  std::vector<std::size_t> together;
  {
    SharedEngine::Turn turn(host.shared);
    turn.engine().watch = [&](const ForwardRecord& forward) {
      together.push_back(forward.items.size());
    };
  }
  FakeActivation a = asked(1), b = asked(2), c = asked(5);
  std::vector<StepOutcome> ended;
  few->admit(a);
  many->admit(b);
  many->admit(c);
  while (few->busy() || many->busy())
    for (SteppedRole* one : {many.get(), few.get()})
      if (one->busy()) one->step(ended);
  CHECK(ended.size() == 3);
  // The first role's step began before the second had told of its drawing.
  CHECK(together == std::vector<std::size_t>{2, 3, 3, 3, 2, 2, 2});
  CHECK(latents(a) == alone(1, "3"));
  CHECK(latents(b) == alone(2, "7"));
  CHECK(latents(c) == alone(5, "7"));

  const Result<RoleInstance> other = made({{"precision", "bf16"}}, kv.get());
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message == "another role over the same paged_kv has another precision");
}

TEST_CASE("a drawing that is cancelled ends between two steps, and the others go on") {
  const auto role = painter("6");
  FakeActivation kept = asked(3), unwanted = asked(4);
  std::vector<StepOutcome> ended;
  role->admit(kept);
  role->admit(unwanted);
  role->step(ended);
  role->step(ended);
  CHECK(ended.empty());
  unwanted.is_cancelled = true;
  role->step(ended);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].activation == &unwanted);
  CHECK(ended[0].result.error().code == ErrorCode::cancelled);
  while (role->busy()) role->step(ended);
  CHECK(unwanted.frames.empty());
  CHECK(latents(kept) == alone(3, "6"));
}

TEST_CASE("of drawings that do not fit into one forward the role with priority goes first") {
  GlobalParamSpec spec;
  spec.pages = 64;
  const std::unique_ptr<GlobalParam> kv = DiffusionKv::make({&spec, directory}).value();
  const Said narrow{{"precision", "exact"}, {"steps", "2"}, {"step_tokens", "32"}};
  Said urgent = narrow;
  urgent.push_back({"priority", "1"});
  urgent.push_back({"deadline_ms", "60000"});
  const auto usual = std::get<std::unique_ptr<SteppedRole>>(made(narrow, kv.get()).value());
  const auto first = std::get<std::unique_ptr<SteppedRole>>(made(urgent, kv.get()).value());
  FakeActivation a = asked(1), b = asked(2);
  std::vector<StepOutcome> ended;
  usual->admit(a);
  first->admit(b);
  usual->step(ended);  // nobody else has asked yet
  while (first->busy()) first->step(ended);
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].activation == &b);
  while (usual->busy()) usual->step(ended);
  CHECK(latents(a) == alone(1, "2"));
  CHECK(latents(b) == alone(2, "2"));
}

TEST_CASE("a drawing of no class, from other noise, or that nobody wants, ends alone") {
  const auto role = painter();
  std::vector<StepOutcome> ended;
  FakeActivation none = asked(11), odd = asked(1), unwanted = asked(2), well = asked(2);
  odd.give("noise", make_tensor(Tensor::of_f32({3}, {1, 2, 3})));
  for (FakeActivation* one : {&none, &odd, &unwanted, &well}) role->admit(*one);
  unwanted.is_cancelled = true;
  while (role->busy()) role->step(ended);
  const auto why = [&](const FakeActivation& activation) {
    for (const StepOutcome& outcome : ended)
      if (outcome.activation == &activation)
        return outcome.result.ok() ? std::string() : outcome.result.error().message;
    return std::string("it has not ended");
  };
  CHECK(why(none) == "class 11 is not from 0 to 10");
  CHECK(why(odd) == "the noise is f32[3], this model needs f32[4, 8, 8]");
  CHECK(why(unwanted) == "the drawing was cancelled");
  CHECK(why(well).empty());
  CHECK(latents(well) == alone(2));
}
