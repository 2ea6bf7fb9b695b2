// Sessions of a model that draws share the pages of what begins alike: which they find, of whom,
// and that answers and drawings are the same, in another process too, which has them of a folder.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "roles/tenant.h"
#include "scenes_world.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace shared_drawings {

namespace {

const std::string color = "what color is the circle", many = "how many shapes are there",
                  draw = "draw a red circle left of a blue square";
constexpr std::uint64_t page = 4;  // rows of one
constexpr std::uint64_t few = 5;   // of a prompt, that are computed at least

/// What a session is told, and where its prompts came from.
struct World : ScenesWorld {
  explicit World(const std::string& ssd = {}) : ScenesWorld(256, ssd, true, page) {}

  PoolReport report() { return *shared->pool_report(std::chrono::milliseconds{0}); }
  std::string say(const std::string& text, const std::string& session,
                  std::optional<std::int64_t> step = {}) {
    FakeActivation& asked = ScenesWorld::say(text, ++calls, true, session, step);
    run();
    REQUIRE(well(asked));
    return frames_in_words(asked);
  }
  /// Words behind a picture's features, all zeros but where one is `changed`, for a tenant.
  std::string show(const std::string& session, std::optional<std::size_t> changed,
                   const std::string& tenant = {}) {
    FakeActivation& shown = activations.emplace_back("generate", session);
    shown.call_number = ++calls;
    Tensor rows = Tensor::zeros(Dtype::f32, {16, 256}).value();
    if (changed) rows.f32()[*changed] = 1;
    std::vector<std::pair<std::string, std::int64_t>> whose;
    if (!tenant.empty()) add_tenant(tenant, whose);
    shown.give("features", make_tensor(std::move(rows), whose));
    model->admit(shown);
    run();
    REQUIRE(well(shown));
    FakeActivation embed("embed", session);
    embed.give("text", make_text(color));
    model->admit(embed);
    run();
    const Payload& hidden = *embed.frames.at(0).second;
    FakeActivation& asked = activations.emplace_back("generate", session);
    asked.call_number = calls;
    auto attributes = hidden.attributes;
    attributes.insert(attributes.end(), whose.begin(), whose.end());
    asked.give("hidden", make_tensor(hidden.tensor, std::move(attributes)));
    model->admit(asked);
    run();
    REQUIRE(well(asked));
    return frames_in_words(asked);
  }
  /// Of what the session was asked last.
  Tensor drawn(const std::string& session) {
    FakeActivation drawing("generate", session);
    drawing.give("prompt", activations.back().frames.back().second);
    denoiser->admit(drawing);
    std::vector<StepOutcome> done;
    while (denoiser->busy()) denoiser->step(done);
    REQUIRE(done.at(0).result.ok());
    return drawing.frames.at(0).second->tensor;
  }
  std::uint64_t calls = 0;
};

/// Of a pool that nobody else uses.
std::string alone(const std::vector<std::string>& messages) {
  World world;
  std::string last;
  for (const std::string& message : messages) last = world.say(message, "s");
  return last;
}

/// How far apart: the last bits of a sum are a library's.
float between(const Tensor& a, const Tensor& b) {
  float most = 0;
  for (std::size_t i = 0; i < a.f32().size(); ++i)
    most = std::max(most, std::abs(a.f32()[i] - b.f32()[i]));
  return most;
}

}  // namespace

TEST_CASE("what a session of a drawing model begins with as another did is not computed again") {
  World world;
  const std::string first = world.say(draw, "a");
  const Tensor picture = world.drawn("a");
  const PoolReport asked = world.report();
  CHECK((asked.prompts == 1 && asked.memory == 0 && asked.computed > 2 * page));
  // A drawing's own rows are nobody's to find.
  CHECK(asked.published == world.sequence("a").tokens() / page);
  CHECK(world.say(draw, "b") == first);
  CHECK(between(world.drawn("b"), picture) < 1e-3F);
  const PoolReport again = world.report();
  CHECK(again.asked == 2 * asked.asked);
  CHECK(again.computed - asked.computed < asked.computed);
  CHECK(again.computed - asked.computed < page + few);
  CHECK(again.memory == again.asked - again.computed);
  // One that only begins so, and what a session has itself.
  CHECK(world.say(many, "b") == alone({draw, many}));
  CHECK(world.say("draw a red circle left of a green square", "c") ==
        alone({"draw a red circle left of a green square"}));
  CHECK(world.report().memory > again.memory + asked.asked);
}

TEST_CASE("pictures that differ share what stands before the difference and no more") {
  World world;
  const std::string first = world.show("a", {});
  const std::uint64_t computed = world.report().computed;
  CHECK(world.report().memory == 0);
  CHECK(world.show("b", {}) == first);
  CHECK(world.report().memory == 3 * page);
  const std::uint64_t before = world.report().computed;
  // Behind <bos>, <user> and <image> the first page ends with the picture's first row.
  world.show("c", 1);
  CHECK(world.report().computed - before == computed);
  const std::uint64_t behind = world.report().computed;
  world.show("d", 15 * 256);
  CHECK(world.report().computed - behind == computed - 3 * page);
}

TEST_CASE("tenants of a drawing model find none of each other's pages") {
  World world;
  const std::string first = world.show("a", {}, "one");
  const PoolReport one = world.report();
  CHECK(world.show("b", {}, "two") == first);
  const PoolReport two = world.report();
  CHECK(world.show("c", {}, "two") == first);
  const PoolReport again = world.report();
  CHECK(two.computed - one.computed > again.computed - two.computed + 2 * page);
}

TEST_CASE("a turn that comes to nothing, or that another stands in place of, misleads nobody") {
  World world;
  world.say(color, "a");
  FakeActivation& wrong = world.ScenesWorld::say(many, ++world.calls, true, "a");
  const int steps = GENERATE(0, 1, 3);
  for (int i = 0; i < steps; ++i) world.model->step(world.ended);
  wrong.is_cancelled = true;
  world.run();
  CHECK_FALSE(world.well(wrong));
  CHECK(world.say(draw, "a") == alone({color, draw}));
  CHECK(world.say(many, "a", 1) == alone({color, many}));
  CHECK(world.say(draw, "a") == alone({color, many, draw}));
  world.ScenesWorld::say(color, ++world.calls, true, "a", 9);  // there is no such turn
  world.run();
  CHECK(world.say(color, "a") == alone({color, many, draw, color}));
  for (const std::vector<std::string>& messages : std::vector<std::vector<std::string>>{
           {color, many, draw}, {color, draw, many}, {many, color}}) {
    world.shared->end_session("b");
    std::string last;
    for (const std::string& message : messages) last = world.say(message, "b");
    CHECK(last == alone(messages));
  }
}

TEST_CASE("what was said to a drawing model comes out of a folder after a restart") {
  const ScratchFolder folder;
  const std::string pages = folder.path() + "/pages";
  std::string first;
  std::optional<Tensor> picture;
  {
    World world(pages);
    first = world.say(draw, "a");
    picture = world.drawn("a");
    CHECK(world.report().disk_tokens == 0);
  }
  World world(pages);
  CHECK(world.say(draw, "b") == first);
  CHECK(between(world.drawn("b"), *picture) < 1e-3F);
  const PoolReport report = world.report();
  CHECK(report.source == PoolReport::Source::disk);
  CHECK(report.disk_tokens >= page);
  CHECK(report.disk_tokens == report.brought);
  CHECK(report.computed < page + few);
}

TEST_CASE("a call of a drawing model whose folder has failed is told why, once") {
  const ScratchFolder folder;
  const std::string pages = folder.path() + "/pages";
  World world(pages);
  world.say(color, "a");
  std::filesystem::remove_all(pages);
  std::size_t told = 0;
  for (const char* session : {"b", "c", "d"}) {
    world.say(std::string(many) + " " + session, session);
    const_cast<KvTier*>(world.kv().tier())->flush();  // writes end behind the forwards
  }
  for (const FakeActivation& activation : world.activations) told += activation.warnings.size();
  CHECK(told == 1);
}

}  // namespace shared_drawings
