// Memory that runs out anywhere in a role's step: who has ended is told of once, and the sessions
// go on as if the message had not been said.
#include <algorithm>
#include <array>
#include <new>

#include "chat_world.h"

using namespace sluice;

namespace {

/// At the n-th question that the role asks of it memory runs out.
class Starving final : public Activation {
 public:
  Starving(FakeActivation& inner, int at) : at_(at), inner_(inner) {}
  std::string_view node() const override { return inner_.node(); }
  std::string_view interface() const override { return asked().interface(); }
  std::string_view session() const override { return inner_.session(); }
  std::uint64_t call() const override { return inner_.call(); }
  std::size_t group() const override { return inner_.group(); }
  std::span<const PayloadRef> inputs(std::string_view field) const override {
    return asked().inputs(field);
  }
  using Activation::yield;
  void yield(std::span<const FieldValue> fields) override { inner_.yield(fields); }
  void warn(std::string warning) override { inner_.warn(std::move(warning)); }
  bool cancelled() const override { return asked().cancelled(); }
  bool has_run_out() const { return at_ <= 0; }

 private:
  FakeActivation& asked() const {
    if (--at_ == 0) throw std::bad_alloc();
    return inner_;
  }
  mutable int at_;
  FakeActivation& inner_;
};

/// As a lane steps it: behind a step that throws all that it held are cancelled.
void run(SteppedRole& role, std::vector<StepOutcome>& ended,
         std::initializer_list<FakeActivation*> held) {
  for (int steps = 0; role.busy(); ++steps) {
    REQUIRE(steps < 500);
    try {
      role.step(ended);
    } catch (const std::bad_alloc&) {
      for (FakeActivation* one : held) one->is_cancelled = true;
    }
  }
}

/// How often the role said that it has ended.
std::ptrdiff_t ends(const std::vector<StepOutcome>& ended, const Activation& activation) {
  return std::ranges::count(ended, &activation, &StepOutcome::activation);
}

FakeActivation in_call(FakeActivation made, std::uint64_t call) {
  made.call_number = call;
  return made;
}

}  // namespace

TEST_CASE("wherever memory runs out in a chat's step, its sessions go on") {
  ChatWorld still;
  std::array<FakeActivation, 2> asked{in_call(piece("Hello there", "a"), 1),
                                      in_call(piece("And then?", "a"), 3)};
  for (FakeActivation& one : asked) {
    still.chat->admit(one);
    still.run();
  }
  for (int at = 1; at <= 30; ++at) {
    INFO(at);
    ChatWorld world;
    FakeActivation first = in_call(piece("Hello there", "a"), 1);
    world.chat->admit(first);
    world.run();
    REQUIRE(said(first) == said(asked[0]));
    // In one step with one that is cancelled, and beside one that has said all before it has.
    FakeActivation gone = piece("Never mind", "c"), brief = piece("Hello there", "b", true, 2),
                   wrong = in_call(piece("Never mind", "a", true, 60), 2);
    gone.is_cancelled = true;
    Starving starving(wrong, at);
    for (Activation* one : std::array<Activation*, 3>{&gone, &brief, &starving})
      world.chat->admit(*one);
    run(*world.chat, world.ended, {&gone, &brief, &wrong});
    REQUIRE(starving.has_run_out());
    CHECK(ends(world.ended, gone) == 1);
    CHECK(ends(world.ended, brief) == 1);
    CHECK(ends(world.ended, starving) <= 1);
    FakeActivation next = in_call(piece("And then?", "a"), 3);
    world.chat->admit(next);
    run(*world.chat, world.ended, {});
    REQUIRE(ends(world.ended, next) == 1);
    CHECK(said(next) == said(asked[1]));
    world.sessions->end_session("a");
    world.sessions->end_session("b");
    CHECK(world.pool().pages_free() == world.pool().pages());
  }
}
