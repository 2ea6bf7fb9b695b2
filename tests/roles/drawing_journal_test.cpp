// Sessions of a model that draws, under chance: what turns and drawings yield and how they end,
// beside what they did before. Values of drawings are compared elsewhere; here, how many there are.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "scenes_world.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

struct Sessions {
  explicit Sessions(std::uint64_t seed)
      : chance(seed), world(3 + static_cast<std::int64_t>(pick(12))) {}
  /// With room for all.
  Sessions(std::uint64_t seed, bool shares) : chance(seed), world(512, {}, shares, 4) {}

  std::uint64_t pick(std::uint64_t most) { return chance.next() % (most + 1); }
  template <typename List>
  auto of(const List& list) {
    return list[pick(std::size(list) - 1)];
  }

  PayloadRef embedded(const std::string& text) {
    if (embedder == nullptr)
      embedder = std::get<std::unique_ptr<SteppedRole>>(world.make(language_model_plugin()));
    FakeActivation embed("embed");
    auto* payload = new Payload;
    payload->type = ValueType::text;
    payload->text = text;
    const std::pair<const char*, std::vector<std::int64_t>> attributes[] = {
        {"generate", {0, 0, 1}},       {"max_tokens", {-1, 0, 1, 2, 9}},
        {"steps", {-1, 0, 1, 2}},      {"seed", {0, 7}},
        {"guidance_milli", {0, 1500}}, {"strength_milli", {999, 1000, 500}}};
    for (const auto& [name, values] : attributes)
      if (pick(2) == 0) payload->attributes.emplace_back(name, of(values));
    embed.give("text", PayloadRef(payload));
    std::vector<StepOutcome> embedded;
    embedder->admit(embed);
    while (embedder->busy()) embedder->step(embedded);
    return embed.frames.at(0).second;
  }
  FakeActivation& made(const std::string& session) {
    FakeActivation& activation = world.activations.emplace_back("generate", session);
    names[&activation] = world.activations.size();
    running.push_back(&activation);
    return activation;
  }
  std::string say() {
    constexpr const char* texts[] = {"what color is the circle",
                                     "draw a red circle",
                                     "draw a blue square",
                                     "how many shapes are there",
                                     "",
                                     "the"};
    const std::string session = of(sessions), text = of(texts);
    FakeActivation& activation = made(session);
    if (pick(2) != 0 || calls[session] == 0) calls[session] = ++call;
    activation.call_number = calls[session];
    if (pick(9) != 0) activation.give("hidden", embedded(text));
    if (pick(7) == 0) {
      activation.give("features", make_tensor(Tensor::zeros(Dtype::f32, {4, 256}).value()));
      activation.give("latents",
                      make_tensor(Tensor::zeros(Dtype::f32, {16, pick(5) == 0 ? 31 : 32}).value()));
    }
    if (pick(30) == 0) activation.give("text", make_text("x"));
    if (pick(30) == 0)
      activation.give("hidden", make_tensor(Tensor::zeros(Dtype::f32, {1, 255}).value()));
    world.model->admit(activation);
    return session + " says '" + text + "' in call " + std::to_string(activation.call_number);
  }
  std::string draw() {
    if (prompts.empty()) return "";
    const auto [session, prompt] = of(prompts);
    FakeActivation& activation = made(session);
    activation.give("prompt", prompt);
    world.denoiser->admit(activation);
    return session + " draws";
  }
  std::string step() {
    switch (pick(9)) {
      case 0:
      case 1:
        return say();
      case 2:
        return draw();
      case 3: {
        if (running.empty() || pick(2) != 0) return "";
        FakeActivation& one = *of(running);
        one.is_cancelled = true;
        return "cancels " + std::to_string(names[&one]);
      }
      case 4: {
        if (pick(4) != 0) return "";
        const std::string session = of(sessions);
        world.shared->end_session(session);
        return session + " ends";
      }
      case 5:
      case 6:
        if (!world.denoiser->busy()) return "";
        world.denoiser->step(world.ended);
        return "a step of drawings";
      default:
        if (!world.model->busy()) return "";
        world.model->step(world.ended);
        return "a step of answers";
    }
  }
  std::string line() {
    std::string text = step();
    if (text.empty()) return text;
    for (FakeActivation& activation : world.activations) {
      for (const auto& [field, value] : activation.frames) {
        text += "; " + std::to_string(names[&activation]) + " yields " + field + " '" +
                value->text + "'";
        if (value->type == ValueType::tensor) text += " " + value->tensor.describe();
        for (const auto& [name, number] : value->attributes)
          text += ' ' + name + '=' + std::to_string(number);
        if (field == "draw_prompt") prompts.emplace_back(activation.session(), value);
      }
      activation.frames.clear();
    }
    for (const StepOutcome& outcome : world.ended) {
      const auto* activation = static_cast<const FakeActivation*>(outcome.activation);
      std::erase(running, activation);
      text += "; " + std::to_string(names[activation]) + " ends" +
              (outcome.result.ok() ? "" : ": " + outcome.result.error().message);
    }
    world.ended.clear();
    if (world.kv().pool().pages() != 512)
      text += "; " + std::to_string(world.kv().pool().pages_free()) + " free";
    if (world.model->busy()) text += ", answers";
    if (world.denoiser->busy()) text += ", drawings";
    for (const char* session : sessions) {
      const Conversation& conversation = world.kv().conversation(session);
      text += ' ' + std::to_string(conversation.written.sequence.tokens()) + '/' +
              std::to_string(conversation.unwritten.size());
    }
    return text;
  }

  static constexpr const char* sessions[] = {"a", "b", "c"};
  SplitMix64 chance;
  ScenesWorld world;
  std::unique_ptr<SteppedRole> embedder;
  std::map<const Activation*, std::size_t> names;
  std::vector<FakeActivation*> running;
  std::map<std::string, std::uint64_t> calls;
  std::uint64_t call = 0;
  std::vector<std::pair<std::string, PayloadRef>> prompts;
};

}  // namespace

TEST_CASE("sessions that answer and draw under chance do what they did before") {
  test::Outcomes outcomes("drawing_sessions");
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Sessions sessions(seed);
    std::vector<std::string> journal;
    for (int i = 0; i < 300; ++i)
      if (std::string line = sessions.line(); !line.empty()) journal.push_back(std::move(line));
    if (seed == 1)
      for (std::size_t at = 0; at < 80; ++at) outcomes.add("chance 1", journal.at(at));
    outcomes.add("digests", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}

TEST_CASE("sessions that share the pages of what begins alike do what they do without") {
  std::uint64_t found = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    Sessions sharing(seed, true), alone(seed, false);
    for (int i = 0; i < 300; ++i) {
      INFO("seed " << seed << ", line " << i);
      REQUIRE(sharing.line() == alone.line());
    }
    const auto report = [](Sessions& of) {
      return *of.world.shared->pool_report(std::chrono::milliseconds{0});
    };
    found += report(sharing).memory - report(alone).memory;
    CHECK(report(sharing).asked == report(alone).asked);
    CHECK(report(alone).published == 0);
  }
  CHECK(found > 0);
}
