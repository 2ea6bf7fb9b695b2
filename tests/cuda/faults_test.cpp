// A device that fails at any of its calls: an error each time, never a crash, and what was made
// before works as if nothing had been asked of it.
#ifdef SLUICE_EMULATED_TESTS
#include "../model/golden.h"
#include "engine/device/device_policy.h"
#include "engine/device/device_text.h"
#include "engine/policy/flow_policy.h"
#include "kernels/cuda/emulation.h"
#include "on_device.h"
#include "tests/directories.h"
#include "tests/sanitized.h"

using namespace sluice;
using namespace sluice::device;

namespace {

const std::string directory = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

/// `attempt` with each call of one kind failing in turn, every `stride`th of them. Ends when the
/// attempt makes fewer calls than that; returns how many it makes at least.
std::size_t with_each_fault(
    emulated::Fault::Of of, std::size_t stride, const std::function<Result<void>()>& attempt,
    const std::function<void()>& prepare = [] {}) {
  for (std::size_t call = 0;; call += stride) {
    INFO((of == emulated::Fault::Of::products ? "product " : "call ") << call);
    prepare();
    emulated::Fault fault{of, call};
    emulated::plan_fault(&fault);
    const Result<void> done = attempt();
    emulated::plan_fault(nullptr);
    if (!fault.happened) {
      REQUIRE(done.ok());
      return call;
    }
    REQUIRE_FALSE(done.ok());
    REQUIRE(done.error().message.find("the device was told to fail") != std::string::npos);
  }
}

template <typename T>
Result<void> outcome(const Result<T>& made) {
  if (made.ok()) return {};
  return made.error();
}

}  // namespace

TEST_CASE("a policy that the device fails is refused, and works when it is made again") {
  for (const std::string family : {"pi05", "pi0", "smolvla"}) {
    if (testing::sanitized && family != "pi05") continue;
    INFO(family);
    const Model model = Model::open(directory + family).value();
    const auto precision = DeviceDecoder::Precision::exact;
    const auto make = [&] {
      return load_device_policy(model.architecture(), model.file(), precision, 4, 64);
    };
    CHECK(with_each_fault(emulated::Fault::Of::others, 1, [&] { return outcome(make()); }) > 10);
    const FlowPolicy cpu = FlowPolicy::load(model).value();
    std::unique_ptr<PolicyEngine> device = std::move(make()).value();
    SplitMix64 random(3);
    const std::size_t side = model.vision().shape().side;
    const std::vector<float> pixels = random_floats(3 * side * side, random, 0.5);
    const std::vector<std::int32_t> tokens{1, 2, 3};
    const std::vector<float> state = random_floats(cpu.shape().state_dims, random);
    const std::vector<float> noise = random_floats(cpu.shape().horizon * cpu.shape().dims, random);
    std::vector<float> last;
    const std::size_t free = device->pages().pages_free();
    const auto act = [&]() -> Result<void> {
      KvSequence prefix;
      if (auto seen = device->prefill(prefix, {pixels, tokens, state}, nullptr); !seen.ok()) {
        CHECK(device->pages().pages_free() == free);
        return seen.error();
      }
      ActionRequest request{&prefix, noise, state};
      const Result<void> acted = device->act({&request, 1}, {2, 1.0F}, {});
      if (acted.ok()) last = request.x;
      return acted;
    };
    REQUIRE(act().ok());
    const std::vector<float> first = last;
    // The first time memory is taken that the next ones find. One family is enough.
    const auto anew = [&] { device = std::move(make()).value(); };
    if (family == "pi05") CHECK(with_each_fault(emulated::Fault::Of::others, 1, act, anew) > 5);
    CHECK(last == first);
    CHECK(with_each_fault(emulated::Fault::Of::others, 1, act) > 0);
    CHECK(last == first);
    CHECK(with_each_fault(emulated::Fault::Of::products, 5, act) > 5);
    CHECK(last == first);
    CHECK(device->pages().pages_free() == free);
  }
}

TEST_CASE("a decoder that the device fails says so each time, and goes on") {
  const Model cpu = Model::open(directory + "qwen2").value();
  const auto make = [&] {
    return DeviceText::load(cpu.architecture(), cpu.file(), DeviceDecoder::Precision::bf16,
                            {4, 16});
  };
  CHECK(with_each_fault(emulated::Fault::Of::others, 1, [&] { return outcome(make()); }) > 10);
  const std::unique_ptr<DeviceText> text = std::move(make()).value();
  const std::vector<std::int32_t> tokens{5, 6, 7, 8, 9};
  std::vector<float> rows;
  text->embed(tokens, rows);
  std::vector<float> logits;
  std::vector<std::int32_t> next;
  const std::size_t free = text->pages().pages_free();
  const auto say = [&]() -> Result<void> {
    KvSequence sequence;
    const Chunk chunk{&sequence, rows};
    std::vector<float> hidden;
    // What a sequence holds of a forward that failed is cut off by who asked for it.
    if (auto done = text->forward({&chunk, 1}, hidden); !done.ok()) return done;
    if (auto done = text->logits(hidden, logits); !done.ok()) return done;
    const DecodeStep step{&sequence, 10, Position::at(5), {}, {}, 0};
    return text->step({&step, 1}, next);
  };
  REQUIRE(say().ok());
  const std::vector<float> first = logits;
  const std::vector<std::int32_t> chosen = next;
  for (const auto of : {emulated::Fault::Of::others, emulated::Fault::Of::products}) {
    CHECK(with_each_fault(of, 1, say) > 0);
    CHECK(logits == first);
    CHECK(next == chosen);
    CHECK(text->pages().pages_free() == free);
  }
}
#endif
