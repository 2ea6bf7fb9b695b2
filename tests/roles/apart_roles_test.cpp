// The language model and the denoiser of models/scenes, each over a pool of its own on the pages
// that both share, as in two processes: a drawing reads what was said where it stands.
#include <algorithm>
#include <string>
#include <vector>

#include "roles/kv_pages.h"
#include "scenes_world.h"

using namespace sluice;

namespace {

std::unique_ptr<GlobalParam> attached(const GlobalParamSpec& param, SharedParam& shared) {
  GlobalParamMaking making{&param, ScenesWorld::directory()};
  making.shared = shared.connect("one").value();
  return PagedKv::make(making).value();
}

PagedKv& pages_of(GlobalParam& param) { return static_cast<PagedKv&>(param); }

/// Two processes, of which `world` has the language model.
struct Apart {
  static GlobalParamSpec spec(std::int64_t pages) {
    GlobalParamSpec made;
    made.name.text = "kv";
    made.pages = pages;
    return made;
  }
  static std::unique_ptr<SharedParam> share(const GlobalParamSpec& spec) {
    const Architecture architecture = Architecture::load(ScenesWorld::directory()).value();
    return share_pages(*architecture.text, spec).value();
  }

  GlobalParamSpec param;
  std::unique_ptr<SharedParam> shared;
  std::unique_ptr<GlobalParam> other;
  ScenesWorld world;  // its denoiser is the other process's

  explicit Apart(std::int64_t pages = 64)
      : param(spec(pages)), shared(share(param)), other(attached(param, *shared)), world(pages) {
    world.model = nullptr;
    world.denoiser = nullptr;
    world.shared = attached(param, *shared);
    world.model = std::get<std::unique_ptr<SteppedRole>>(world.make(language_model_plugin()));
    std::swap(world.shared, other);
    world.denoiser = std::get<std::unique_ptr<SteppedRole>>(world.make(denoiser_plugin()));
    std::swap(world.shared, other);
  }
  ~Apart() { world.denoiser = nullptr; }  // before its pages
  /// With all that both have told.
  PoolReport seen() {
    (void)world.kv().pool().ask({}, {}, 1);
    (void)pages_of(*other).pool().ask({}, {}, 1);
    PoolReport report;
    shared->show(report);
    return report;
  }
};

std::vector<float> draw(ScenesWorld& world, const PayloadRef& prompt, std::string& why) {
  FakeActivation drawing("generate", "s");
  drawing.give("prompt", prompt);
  world.denoiser->admit(drawing);
  std::vector<StepOutcome> ended;
  while (world.denoiser->busy()) world.denoiser->step(ended);
  why = ended.at(0).result.ok() ? "" : ended.at(0).result.error().message;
  if (drawing.frames.empty()) return {};
  const Tensor& latents = drawing.frames.at(0).second->tensor;
  return {latents.f32().begin(), latents.f32().end()};
}

/// Turns of a session, each of which asks for a drawing.
std::vector<std::vector<float>> drawings(ScenesWorld& world) {
  std::vector<std::vector<float>> made;
  std::string why;
  for (std::uint64_t call = 1; call <= 3; ++call) {
    FakeActivation& asked = world.say("draw a red circle", call);
    world.run();
    REQUIRE(!asked.frames.empty());
    REQUIRE(asked.frames.back().first == "draw_prompt");
    made.push_back(draw(world, asked.frames.back().second, why));
    CHECK(why == "");
  }
  return made;
}

}  // namespace

TEST_CASE("a drawing over another process's pages has the bits of one in the same process") {
  ScenesWorld one;
  Apart apart;
  const auto wanted = drawings(one), made = drawings(apart.world);
  CHECK(made == wanted);
  CHECK(apart.world.sequence().tokens() == one.sequence().tokens());
  // The denoiser has nothing of the session.
  CHECK(pages_of(*apart.other).pool_report(std::chrono::milliseconds(0))->sessions == 0);
  const PoolReport seen = apart.seen();
  CHECK(seen.pages == 64);
  CHECK(seen.used == apart.world.sequence().pages().size());
  CHECK(seen.shared == seen.used);  // they are offered still
}

TEST_CASE("what was said is read where it stands, as often as wanted, until the session goes on") {
  Apart apart;
  FakeActivation& asked = apart.world.say("draw a red circle", 1);
  apart.world.run();
  REQUIRE(asked.frames.back().first == "draw_prompt");
  const PayloadRef prompt = asked.frames.back().second;
  const std::int64_t offered = prompt->attribute("offer").value_or(0);
  REQUIRE(offered != 0);
  KvSequence& said = apart.world.sequence();
  {
    const KvSequence there = pages_of(*apart.other)
                                 .prompt_of("s", said.tokens(), static_cast<std::uint64_t>(offered))
                                 .value();
    CHECK(std::ranges::equal(there.pages(), said.pages()));
    // The same memory, mapped twice.
    const Page page = said.pages().front();
    pages_of(*apart.other).pool().keys(page, 0)[0] += 1;
    CHECK(pages_of(*apart.other).pool().keys(page, 0)[0] ==
          apart.world.kv().pool().keys(page, 0)[0]);
    pages_of(*apart.other).pool().keys(page, 0)[0] -= 1;
  }
  std::string why;
  const std::vector<float> first = draw(apart.world, prompt, why);
  CHECK(why == "");
  CHECK(draw(apart.world, prompt, why) == first);
  apart.world.say("what color is", 2, false);  // a piece of a turn, which asks for no drawing
  apart.world.run();
  CHECK(draw(apart.world, prompt, why).empty());
  CHECK(why.starts_with("the session has moved on since the drawing was asked for"));
  apart.world.shared->end_session("s");
  CHECK(apart.seen().free == 64);
}

TEST_CASE("a denoiser without the pages that it was promised says so") {
  Apart apart;
  FakeActivation& asked = apart.world.say("draw a red circle", 1);
  apart.world.run();
  auto* odd = new Payload;
  odd->type = ValueType::tensor;
  odd->attributes = asked.frames.back().second->attributes;
  for (auto& [name, value] : odd->attributes)
    if (name == "offer") value += 1;
  std::string why;
  CHECK(draw(apart.world, PayloadRef(odd), why).empty());
  CHECK(why.starts_with("the session has moved on since the drawing was asked for"));
}

TEST_CASE("pages that another process has are waited for, and had when they come back") {
  Apart apart(8);
  KvPool& other = pages_of(*apart.other).pool();
  KvSequence held;
  REQUIRE(other.extend(held, other.pages() * other.shape().page_tokens).ok());
  FakeActivation& asked = apart.world.say("draw a red circle", 1);
  for (int step = 0; step < 5; ++step) apart.world.model->step(apart.world.ended);
  CHECK(apart.world.ended.empty());
  other.release(held);
  other.settle(0);
  CHECK(apart.seen().free == 8);
  apart.world.run();
  CHECK(apart.world.well(asked));
}
