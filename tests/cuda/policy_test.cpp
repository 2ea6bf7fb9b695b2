// A whole policy on the device against the CPU's, which is held to its references.
#include <algorithm>

#include "engine/device/device_policy.h"
#include "engine/policy/flow_policy.h"
#include "on_device.h"
#include "tests/directories.h"

using namespace sluice;
using namespace sluice::device;

namespace {

constexpr double limit = 2e-5;  // as of the CPU to its references

std::string golden(const std::string& family) {
  return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + family;
}

struct Both {
  explicit Both(const std::string& family, DeviceDecoder::Precision precision)
      : model(Model::open(golden(family)).value()),
        cpu(FlowPolicy::load(model).value()),
        pool(cpu.kv_shape(4), 64),
        ours(cpu, pool) {
    auto loaded = load_device_policy(model.architecture(), model.file(), precision, 4, 64);
    INFO((loaded.ok() ? "" : loaded.error().message));
    REQUIRE(loaded.ok());
    device = std::move(loaded).value();
  }
  Model model;
  FlowPolicy cpu;
  KvPool pool;
  CpuPolicy ours;
  std::unique_ptr<PolicyEngine> device;
};

/// An observation and what it needs.
struct Scene {
  Scene(const Both& both, std::size_t cameras, std::size_t words, std::uint64_t seed) {
    SplitMix64 random(seed);
    const std::size_t side = both.model.vision().shape().side;
    pixels = random_floats(cameras * 3 * side * side, random, 0.5);
    const std::size_t vocabulary = both.model.text().shape().vocabulary;
    for (std::size_t i = 0; i < words; ++i)
      tokens.push_back(static_cast<std::int32_t>(random.next() % vocabulary));
    const ActionShape& shape = both.cpu.shape();
    state = random_floats(shape.state_dims, random);
    noise = random_floats(shape.horizon * shape.dims, random);
  }
  Observation observation() const { return {pixels, tokens, state}; }
  ActionRequest request(KvSequence& prefix) const { return {&prefix, noise, state}; }

  std::vector<float> pixels, state, noise;
  std::vector<std::int32_t> tokens;
};

/// Everything that the requests came to, one after the other.
std::vector<float> act(PolicyEngine& engine, std::vector<ActionRequest> requests,
                       const FlowSchedule& schedule, const PolicyEngine::Watch& watch = {}) {
  const Result<void> acted = engine.act(requests, schedule, watch);
  INFO((acted.ok() ? "" : acted.error().message));
  REQUIRE(acted.ok());
  std::vector<float> all;
  for (const ActionRequest& request : requests)
    all.insert(all.end(), request.x.begin(), request.x.end());
  return all;
}

}  // namespace

TEST_CASE("a policy on the device sees and acts as the CPU's") {
  if (!there()) return;
  for (const char* family : {"pi05", "pi0", "smolvla"}) {
    INFO(family);
    Both both(family, DeviceDecoder::Precision::exact);
    const Scene first(both, 2, 5, 1);
    const Scene second(both, 1, 9, 2);
    KvSequence ours[2], theirs[2];
    for (const auto& [engine, prefixes] :
         {std::pair<PolicyEngine*, KvSequence*>{&both.ours, ours}, {both.device.get(), theirs}})
      for (std::size_t i = 0; i < 2; ++i)
        REQUIRE(
            engine->prefill(prefixes[i], (i == 0 ? first : second).observation(), nullptr).ok());
    CHECK(theirs[1].tokens() == ours[1].tokens());
    // The rows behind the trunk, on the way of one that is seen again.
    std::vector<float> got, want;
    KvSequence again[2];
    REQUIRE(both.ours.prefill(again[0], first.observation(), &want).ok());
    REQUIRE(both.device->prefill(again[1], first.observation(), &got).ok());
    CHECK(distance(got, want) < limit);
    // Each flow step.
    std::vector<std::vector<float>> velocities[2];
    const auto watch = [&](std::size_t which) {
      return [&, which](std::size_t, std::span<const float> v) {
        velocities[which].emplace_back(v.begin(), v.end());
      };
    };
    const FlowSchedule full{2, 1.0F};
    want = act(both.ours, {first.request(ours[0])}, full, watch(0));
    got = act(*both.device, {first.request(theirs[0])}, full, watch(1));
    CHECK(distance(got, want) < limit);
    REQUIRE(velocities[1].size() == 2);
    for (std::size_t step = 0; step < 2; ++step)
      CHECK(distance(velocities[1][step], velocities[0][step]) < limit);
    CHECK(theirs[0].tokens() == ours[0].tokens());  // as it was

    // Two robots; thrice, so that a recording is made and serves another prefix and other noise.
    for (int round = 0; round < 3; ++round) {
      const bool swapped = round == 2;
      const auto requests = [&](KvSequence* prefixes) {
        std::vector<ActionRequest> made{first.request(prefixes[0]), second.request(prefixes[1])};
        if (swapped) std::swap(made[0], made[1]);
        return made;
      };
      if (swapped) {  // after a third, for whom everything has to grow
        KvSequence third;
        REQUIRE(both.device->prefill(third, second.observation(), nullptr).ok());
        std::vector<ActionRequest> three = requests(theirs);
        three.push_back(second.request(third));
        act(*both.device, three, full);
        both.device->pages().truncate(third, 0);
      }
      got = act(*both.device, requests(theirs), full);
      want = act(both.ours, requests(ours), full);
      CHECK(distance(got, want) < limit);
    }
    // A warm start of fewer steps, and the first schedule after it.
    const FlowSchedule warm{1, 0.5F};
    for (const FlowSchedule& schedule : {warm, warm, full, warm}) {
      want = act(both.ours, {second.request(ours[1])}, schedule);
      CHECK(distance(act(*both.device, {second.request(theirs[1])}, schedule), want) < limit);
    }
    CHECK(distance(act(*both.device, {second.request(theirs[0])}, warm), want) > 1e-3);
  }
}

TEST_CASE("a policy in bf16 on the device is near to f32, as the CPU's in bf16 is") {
  if (!there()) return;
  for (const char* family : {"pi05", "pi0", "smolvla"}) {
    INFO(family);
    Both both(family, DeviceDecoder::Precision::bf16);
    const Model model = Model::open(golden(family), kernels::WeightFormat::bf16).value();
    const FlowPolicy policy = FlowPolicy::load(model).value();
    KvPool pool(policy.kv_shape(4), 64);
    CpuPolicy narrow(policy, pool);
    const Scene scene(both, 1, 6, 3);
    std::vector<std::vector<float>> made;
    for (PolicyEngine* engine : {static_cast<PolicyEngine*>(&both.ours), both.device.get(),
                                 static_cast<PolicyEngine*>(&narrow)}) {
      KvSequence prefix;
      REQUIRE(engine->prefill(prefix, scene.observation(), nullptr).ok());
      made.push_back(act(*engine, {scene.request(prefix)}, {2, 1.0F}));
    }
    // The device also keeps in bf16 what goes from one product to the next.
    CHECK(distance(made[1], made[0]) < 2 * distance(made[2], made[0]));
    CHECK(distance(made[1], made[0]) > 1e-5);  // it was bf16
  }
}

TEST_CASE("a policy on the device names what does not fit, and keeps nothing of it") {
  if (!there()) return;
  Both both("pi0", DeviceDecoder::Precision::exact);
  const Scene scene(both, 1, 3, 4);
  KvSequence prefix;
  const std::size_t free = both.device->pages().pages_free();
  Observation wrong = scene.observation();
  const std::vector<std::int32_t> outside{1, -1};
  wrong.tokens = outside;
  const auto seen = both.device->prefill(prefix, wrong, nullptr);
  REQUIRE(!seen.ok());
  CHECK(seen.error().message.starts_with("token -1 at 1 is outside the vocabulary of "));
  wrong = scene.observation();
  wrong.pictures = wrong.pictures.first(7);
  CHECK(!both.device->prefill(prefix, wrong, nullptr).ok());
  CHECK(!both.device->prefill(prefix, {}, nullptr).ok());
  const std::vector<std::int32_t> many(260, 1);
  wrong.tokens = many;
  wrong.pictures = scene.pixels;
  const auto full = both.device->prefill(prefix, wrong, nullptr);
  REQUIRE(!full.ok());
  CHECK(full.error().code == ErrorCode::exhausted);
  CHECK(both.device->pages().pages_free() == free);
  REQUIRE(both.device->prefill(prefix, scene.observation(), nullptr).ok());
  ActionRequest request = scene.request(prefix);
  request.state = {};
  CHECK(!both.device->act({&request, 1}, {2, 1.0F}, {}).ok());
  const std::size_t after = prefix.tokens();
  CHECK(act(*both.device, {scene.request(prefix)}, {1, 1.0F}).size() == scene.noise.size());
  CHECK(prefix.tokens() == after);
}
