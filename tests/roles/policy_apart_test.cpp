// A robot policy's trunk and its action expert over one pool of pages, each in a process of its own
// as far as it can tell: the actions and words of one process, over the pages that the trunk wrote.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "fake_activation.h"
#include "roles/class_denoiser.h"
#include "roles/diffusion_kv.h"
#include "roles/language_model.h"
#include "roles/policy_kv.h"
#include "roles/robot_policy.h"
#include "tests/directories.h"

using namespace sluice;

namespace {

constexpr std::int64_t page_tokens = 8;

std::string golden(const std::string& name) {
  return std::string(SLUICE_SOURCE_DIR) + "/tests/golden/" + name;
}

GlobalParamSpec pool_of(std::int64_t pages) {
  GlobalParamSpec param;
  param.name.text = "kv";
  param.page_tokens = page_tokens;
  param.pages = pages;
  return param;
}

std::unique_ptr<SharedParam> share(const GlobalParamSpec& param, const std::string& family) {
  const Architecture architecture = Architecture::load(golden(family)).value();
  return share_pages(*architecture.text, param).value();
}

PayloadRef tokens_of(std::size_t count) {
  Tensor made = Tensor::zeros(Dtype::i32, {static_cast<std::int64_t>(count)}).value();
  for (std::size_t i = 0; i < count; ++i) made.i32()[i] = static_cast<std::int32_t>(5 + 7 * i % 90);
  return make_tensor(std::move(made), {{"max_tokens", 5}, {"temperature_milli", 700}, {"seed", 3}});
}

PayloadRef a_state() { return make_tensor(Tensor::of_f32({1}, {0.25F})); }

/// Of some of the roles; null `shared`: with pages of its own.
struct Process {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> kv;
  std::unique_ptr<SteppedRole> trunk, hand;
  std::vector<StepOutcome> ended;
  std::string directory;

  Process(const std::string& family, const GlobalParamSpec& spec, SharedParam* shared,
          const char* precision = "exact")
      : param(spec), directory(golden(family)) {
    GlobalParamMaking making{.spec = &param, .model_directory = directory};
    if (shared != nullptr) making.shared = shared->connect("one").value();
    kv = PolicyKv::make(making).value();
    role.name.text = "robot";
    role.options = {{{"precision", {}}, {precision, {}}}};
    trunk = make(language_model_plugin());
    hand = make(action_expert_plugin());
  }
  std::unique_ptr<SteppedRole> make(const Plugin& plugin) {
    RoleMaking making;
    making.role = &role;
    making.model_directory = directory;
    making.global_params = {kv.get()};
    return std::get<std::unique_ptr<SteppedRole>>(plugin.make(making).value());
  }
  KvPool& pool() { return static_cast<PolicyKv&>(*kv).pool(); }
  /// Once what was told has been heard.
  std::size_t free() {
    (void)pool().ask({}, {}, 1);
    return pool().pages_free();
  }
  std::string outcome(const FakeActivation& activation) const {
    for (const StepOutcome& one : ended)
      if (one.activation == &activation) return one.result.ok() ? "" : one.result.error().message;
    return "it has not ended";
  }
  std::string run(SteppedRole& by, FakeActivation& activation) {
    ended.clear();
    by.admit(activation);
    for (int i = 0; i < 500 && by.busy(); ++i) by.step(ended);
    return outcome(activation);
  }
  FakeActivation read(std::size_t tokens, const std::string& session = "s") {
    FakeActivation made("prefill", session);
    made.give("tokens", tokens_of(tokens));
    if (directory == golden("smolvla")) made.give("state", a_state());
    CHECK(run(*trunk, made) == "");
    return made;
  }
};

FakeActivation behind(const FakeActivation& prefix, const char* interface,
                      const std::string& session = "s") {
  FakeActivation made(interface, session);
  made.give("prefix", prefix.frames.at(0).second);
  return made;
}

/// Empty: it failed, and says why.
std::vector<float> acted(Process& by, const FakeActivation& prefix, std::string& why) {
  FakeActivation made = behind(prefix, "act");
  if (by.directory == golden("pi0")) made.give("state", a_state());
  why = by.run(*by.hand, made);
  if (made.frames.empty()) return {};
  const auto values = made.frames.at(0).second->tensor.f32();
  return {values.begin(), values.end()};
}

std::string said(Process& by, const FakeActivation& prefix) {
  FakeActivation made = behind(prefix, "decode");
  CHECK(by.run(*by.trunk, made) == "");
  std::string text;
  for (const auto& [field, value] : made.frames) text += value->text;
  return text;
}

/// A process that reads and one that acts.
struct Apart {
  std::string family;
  GlobalParamSpec param;
  std::unique_ptr<SharedParam> shared;
  std::unique_ptr<Process> brain, hand;

  explicit Apart(std::string of = "pi05", std::int64_t pages = 64)
      : family(std::move(of)), param(pool_of(pages)), shared(share(param, family)) {
    brain = begin();
    hand = begin();
  }
  std::unique_ptr<Process> begin(const char* precision = "exact") const {
    return std::make_unique<Process>(family, param, shared.get(), precision);
  }
  std::size_t free() const {
    (void)hand->free();
    return brain->free();
  }
};

/// The frame of a prefix without its tensor, under another number.
PayloadRef changed(const FakeActivation& prefix, std::int64_t by) {
  const Payload& from = *prefix.frames.at(0).second;
  auto* made = new Payload;
  made->type = from.type;
  made->number = from.number + by;
  made->attributes = from.attributes;
  return PayloadRef(made);
}

/// Whoever has the table notices by itself that a process has gone.
void await_free(Process& by, std::size_t pages) {
  while (by.free() != pages) std::this_thread::yield();
}

constexpr char none_here[] = "the session has another prefix by now, or none: ";

}  // namespace

TEST_CASE("an expert in another process gives the actions of one process, over the same pages") {
  const std::string family = GENERATE("pi05", "pi0", "smolvla");
  Process one(family, pool_of(64), nullptr);
  const Apart apart(family);
  std::string why;
  for (std::size_t tokens = 13; tokens < 13 + page_tokens; ++tokens) {
    const FakeActivation alone = one.read(tokens), prefix = apart.brain->read(tokens);
    const auto length =
        static_cast<std::uint64_t>(prefix.frames.at(0).second->attribute("length").value());
    const std::uint64_t copied = one.pool().rows_copied();
    const std::vector<float> want = acted(one, alone, why);
    REQUIRE(!want.empty());
    const std::uint64_t before = apart.hand->pool().rows_copied();
    CHECK(acted(*apart.hand, prefix, why) == want);
    CHECK(why == "");
    CHECK(acted(*apart.hand, prefix, why) == want);  // as often as somebody asks
    // Whoever writes behind it copies what stands in the page that it does not fill, and no more.
    CHECK(one.pool().rows_copied() - copied == length % page_tokens);
    CHECK(apart.hand->pool().rows_copied() - before == 2 * (length % page_tokens));
  }
  CHECK(apart.brain->pool().rows_copied() == 0);
  CHECK(apart.hand->kv->pool_report(std::chrono::milliseconds(0))->sessions == 0);
  const PoolReport report = *apart.brain->kv->pool_report(std::chrono::milliseconds(0));
  CHECK(report.sessions == 1);
  CHECK(apart.free() < 64);
  apart.brain->kv->end_session("s");
  CHECK(apart.free() == 64);
}

TEST_CASE("words behind a prefix of another process are those of one, as the message asked") {
  Process one("pi05", pool_of(64), nullptr);
  const Apart apart;
  const std::string want = said(one, one.read(20));
  REQUIRE(!want.empty());
  const FakeActivation prefix = apart.brain->read(20);
  CHECK(said(*apart.hand, prefix) == want);  // a second trunk
  CHECK(said(*apart.brain, prefix) == want);
  FakeActivation without("decode", "s");
  without.give("prefix", changed(prefix, 0));
  CHECK(apart.hand->run(*apart.hand->trunk, without) ==
        "the prefix is none that a `prefill` of this model has made");
}

TEST_CASE("a prefix is gone for other processes with the next one, and with its session") {
  const Apart apart;
  std::string why;
  const FakeActivation first = apart.brain->read(20);
  CHECK(!acted(*apart.hand, first, why).empty());
  // One that has begun goes on.
  FakeActivation begun = behind(first, "act");
  apart.hand->hand->admit(begun);
  apart.hand->hand->step(apart.hand->ended);
  const FakeActivation second = apart.brain->read(21);
  while (apart.hand->hand->busy()) apart.hand->hand->step(apart.hand->ended);
  CHECK(apart.hand->outcome(begun) == "");
  CHECK(acted(*apart.hand, first, why).empty());
  CHECK(why.starts_with(none_here));
  CHECK(why.ends_with(", nor one whose process has died since"));
  CHECK(!acted(*apart.hand, second, why).empty());
  // Nobody guesses a number, from the one before neither.
  const auto number = [](const FakeActivation& prefix) {
    return static_cast<std::uint64_t>(prefix.frames.at(0).second->number);
  };
  CHECK(number(second) - number(first) + (1U << 20U) > (2U << 20U));
  FakeActivation thief("act", "s");
  thief.give("prefix", changed(second, 1));
  CHECK(apart.hand->run(*apart.hand->hand, thief).starts_with(none_here));
  apart.brain->kv->end_session("s");
  CHECK(acted(*apart.hand, second, why).empty());
  CHECK(apart.free() == 64);
}

TEST_CASE("where the trunk's process goes actions that have begun end well, others say why not") {
  Apart apart;
  Process one("pi05", pool_of(64), nullptr);
  std::string why;
  const std::vector<float> want = acted(one, one.read(20), why);
  const FakeActivation prefix = apart.brain->read(20);
  FakeActivation begun = behind(prefix, "act");
  apart.hand->hand->admit(begun);
  apart.hand->hand->step(apart.hand->ended);
  apart.brain = nullptr;
  while (apart.hand->hand->busy()) apart.hand->hand->step(apart.hand->ended);
  REQUIRE(apart.hand->outcome(begun) == "");
  CHECK(std::ranges::equal(begun.frames.at(0).second->tensor.f32(), want));
  await_free(*apart.hand, 64);
  CHECK(acted(*apart.hand, prefix, why).empty());
  CHECK(why.starts_with(none_here));
  apart.brain = apart.begin();
  CHECK(acted(*apart.hand, apart.brain->read(20), why) == want);
}

TEST_CASE("where the expert's process goes the prefix stays, and is acted on by the next one") {
  Apart apart;
  std::string why;
  const FakeActivation prefix = apart.brain->read(20);
  const std::vector<float> want = acted(*apart.hand, prefix, why);
  const std::size_t free = apart.free();
  FakeActivation begun = behind(prefix, "act");
  apart.hand->hand->admit(begun);
  apart.hand->hand->step(apart.hand->ended);
  CHECK(apart.brain->free() < free);
  apart.hand = nullptr;
  await_free(*apart.brain, free);
  apart.hand = apart.begin();
  CHECK(acted(*apart.hand, prefix, why) == want);
}

TEST_CASE("a prefix of other weights is refused") {
  Apart apart;
  apart.hand = nullptr;
  apart.hand = apart.begin("bf16");  // as of files that have changed between two lives
  std::string why;
  CHECK(acted(*apart.hand, apart.brain->read(20), why).empty());
  CHECK(why.starts_with("the prefix was read with other weights"));
  apart.brain->kv->end_session("s");
  CHECK(apart.free() == 64);
}

TEST_CASE("an expert waits for pages that the trunk's process has") {
  const Apart apart("pi05", 8);
  const FakeActivation prefix = apart.brain->read(20);
  KvSequence held;
  KvPool& other = apart.brain->pool();
  REQUIRE(other.extend(held, apart.free() * page_tokens).ok());
  FakeActivation act = behind(prefix, "act");
  apart.hand->hand->admit(act);
  for (int i = 0; i < 5; ++i) apart.hand->hand->step(apart.hand->ended);
  CHECK(apart.hand->ended.empty());
  other.release(held);
  other.settle(0);
  while (apart.hand->hand->busy()) apart.hand->hand->step(apart.hand->ended);
  CHECK(apart.hand->outcome(act) == "");
}

namespace {

/// A DiT's drawing, by a role over pages of its own (null) or of several processes.
struct Painter {
  GlobalParamSpec param;
  RoleSpec role;
  std::unique_ptr<GlobalParam> kv;
  std::unique_ptr<SteppedRole> painter;

  Painter(const GlobalParamSpec& spec, SharedParam* shared) : param(spec) {
    GlobalParamMaking making{.spec = &param, .model_directory = golden("dit")};
    if (shared != nullptr) making.shared = shared->connect("one").value();
    kv = DiffusionKv::make(making).value();
    role.name.text = "painter";
    role.options = {{{"precision", {}}, {"exact", {}}}, {{"steps", {}}, {"4", {}}}};
    RoleMaking made;
    made.role = &role;
    made.model_directory = golden("dit");
    made.global_params = {kv.get()};
    painter = std::get<std::unique_ptr<SteppedRole>>(class_denoiser_plugin().make(made).value());
  }
  static FakeActivation asked(std::int64_t label) {
    FakeActivation made("draw");
    made.give("label", make_number(label));
    return made;
  }
  std::vector<float> draw(std::int64_t label) {
    FakeActivation made = asked(label);
    std::vector<StepOutcome> ended;
    painter->admit(made);
    while (painter->busy()) painter->step(ended);
    CHECK(ended.at(0).result.ok());
    if (made.frames.empty()) return {};
    const auto values = made.frames.at(0).second->tensor.f32();
    return {values.begin(), values.end()};
  }
};

}  // namespace

TEST_CASE("two painters in two processes take turns in one pool of pages") {
  const DecoderShape trunk = Architecture::load(golden("dit"))->diffusion->trunk;
  const GlobalParamSpec param = pool_of(4);  // of a drawing, guided
  const std::unique_ptr<SharedParam> shared = share_pages(trunk, param).value();
  Painter alone(param, nullptr), one(param, shared.get()), other(param, shared.get());
  const std::vector<float> want = alone.draw(1);
  REQUIRE(!want.empty());
  CHECK(one.draw(1) == want);
  FakeActivation begun = Painter::asked(1);
  std::vector<StepOutcome> ended, late;
  one.painter->admit(begun);
  one.painter->step(ended);
  FakeActivation waits = Painter::asked(2);
  other.painter->admit(waits);
  for (int i = 0; i < 10; ++i) other.painter->step(late);  // more than a drawing takes
  CHECK(late.empty());
  while (one.painter->busy()) one.painter->step(ended);
  while (other.painter->busy()) other.painter->step(late);
  CHECK(late.at(0).result.ok());
  CHECK(std::ranges::equal(begun.frames.at(0).second->tensor.f32(), want));
  CHECK(std::ranges::equal(waits.frames.at(0).second->tensor.f32(), alone.draw(2)));
}
