// The role class_denoiser: drawings together as alone, and what it refuses.
#include "roles/class_denoiser.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "fake_activation.h"

using namespace sluice;

namespace {

std::unique_ptr<SteppedRole> painter() {
  RoleSpec role;
  role.name.text = "painter";
  role.options = {{{"precision", {}}, {"exact", {}}}, {{"steps", {}}, {"4", {}}}};
  RoleMaking making;
  making.role = &role;
  making.model_directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/dit";
  return std::get<std::unique_ptr<SteppedRole>>(class_denoiser_plugin().make(making).value());
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

std::vector<float> alone(std::int64_t label) {
  const auto role = painter();
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
    const std::vector<float> want = alone(static_cast<std::int64_t>(i % 3));
    const std::vector<float> got = latents(drawings[i]);
    REQUIRE(got.size() == want.size());
    double difference = 0;
    double size = 0;
    for (std::size_t k = 0; k < want.size(); ++k) {
      difference += std::pow(double{got[k]} - double{want[k]}, 2);
      size += std::pow(double{want[k]}, 2);
    }
    CHECK(std::sqrt(difference / size) < 2e-5);
  }
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
