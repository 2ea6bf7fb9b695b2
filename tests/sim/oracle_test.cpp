// Each rule of docs/SIMULATION.md: the oracle says what breaks it, word for word, and nothing of
// what only nearly does.
#include "runtime/sim/oracle.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "watched.h"

using namespace sluice;
using namespace std::chrono_literals;
using sluice::testing::bind;
using sluice::testing::Bound;
using sluice::testing::bound_to;
using sluice::testing::three_calls;
using sluice::testing::Watched;

namespace {

constexpr const char* counts_workflow = R"(
sluice: 1
workflow: counted
inputs: { x: text, n: number }
roles: { a: { plugin: scripted }, talk: { plugin: scripted, balance: session } }
nodes:
  some: { run: a.go, inputs: [ { x: inputs.x } ], outputs: [ y, m ] }
  turn: { run: talk.go, inputs: [ { x: some.y }, { x: turn.again } ], outputs: [ again, z ] }
  two: { run: a.go, inputs: [ { y: some.y } ], count: { y: 2 }, outputs: [ o ] }
  asked: { run: a.go, inputs: [ { y: some.y } ], count: { y: inputs.n }, outputs: [ o ] }
  told: { run: a.go, inputs: [ { y: some.y } ], count: { y: some.m }, outputs: [ o ] }
  every: { run: a.go, inputs: [ { y: some.y } ], count: { y: all }, outputs: [ o ] }
outputs: { a: two.o, b: asked.o, c: told.o, d: every.o, e: turn.z }
limits: { loop_iterations: 3 }
)";

Watched diamond() { return Watched(bind(three_calls)); }

}  // namespace

TEST_CASE("the oracle sees every identity that comes a second time, however many came before") {
  Watched w = diamond();
  const sim::FrameNumber first = w.begin(0);
  for (sim::Token identity = 1; identity <= 7; ++identity)
    w.start("split", {{"x", first}}, {.identity = identity});
  CHECK(w.said().empty());
  for (sim::Token identity = 1; identity <= 7; ++identity) {
    w.start("split", {{"x", first}}, {.identity = identity});
    CHECK(w.said() == "C1: call 0, node 'split' group 0 fired twice for the same inputs");
  }
  w.start("split", {{"x", w.begin(1, 1)}}, {.call = 1, .identity = 1});
  CHECK(w.said().empty());  // another call's
}

TEST_CASE("the oracle sees a join that fires while something upstream can still add to it") {
  Watched w = diamond();
  const auto split = w.start("split", {{"x", w.begin(0)}});
  const auto one = w.oracle.yielded(split), other = w.oracle.yielded(split);
  w.oracle.ended(split);
  const auto left = w.start("left", {{"x", one}});
  const auto right = w.start("right", {{"x", one}});
  const auto l = w.oracle.yielded(left), r = w.oracle.yielded(right);
  const auto join = [&] {
    w.oracle.ended(w.start("both", {{"l", l}, {"r", r}}));
    return w.said();
  };
  const std::string fired = "C2: call 0, node 'both' group 0 fired while ";
  CHECK(join() ==
        fired + "'left' could still add to it; " + fired + "'right' could still add to it");
  w.oracle.ended(left);
  CHECK(join() == fired + "'right' could still add to it");
  w.oracle.ended(right);
  CHECK(join().empty());
  const auto elsewhere = w.start("left", {{"x", other}});
  CHECK(join().empty());  // it adds to another yield's
  w.oracle.ended(elsewhere);

  for (const auto& [from, to] : {std::pair{"split", "left"},
                                 {"split", "right"},
                                 {"left", "both"},
                                 {"right", "both"},
                                 {"both", "out"}}) {
    INFO(from << " to " << to);
    const bool upstream = std::string(to) != "out";
    const sim::Flight flight = w.send(w.edge(from, to), one);
    CHECK(join() == (upstream ? fired + "a frame for it was on its way" : ""));
    CHECK(w.oracle.arrived(flight));
    CHECK(join().empty());
    const sim::Flight of_other = w.send(w.edge(from, to), other);
    CHECK(join().empty());
    CHECK(w.oracle.arrived(of_other));
  }
  w.send(Message::Kind::credit);  // has no frame
  CHECK(join().empty());
  w.start("left", {{"x", one}});
  w.oracle.cancelled(0);  // then a join may fire with what there is
  CHECK(join().empty());
}

TEST_CASE("the oracle sees a join of values that do not descend from one yield of its root") {
  Watched w = diamond();
  const auto first = w.begin(0);
  const auto split = w.start("split", {{"x", first}});
  const auto one = w.oracle.yielded(split), other = w.oracle.yielded(split);
  w.oracle.ended(split);
  const auto from = [&](const char* node, sim::FrameNumber frame) {
    const auto made = w.start(node, {{"x", frame}});
    w.oracle.ended(made);
    return w.oracle.yielded(made);
  };
  const auto l = from("left", one), r = from("right", one), strange = from("right", other);
  w.start("both", {{"l", l}, {"r", r}});
  CHECK(w.said().empty());
  const std::string wrong =
      "C3: inputs of different yields of the root in call 0, node 'both' group 0";
  w.start("both", {{"l", l}, {"r", strange}});
  CHECK(w.said() == wrong);
  w.start("both", {{"l", first}, {"r", first}});
  CHECK(w.said() == wrong + "; " + wrong);  // of no yield of the root
}

TEST_CASE("the oracle sees releases and outputs that come out of their logical order") {
  Watched w = diamond();
  const auto first = w.begin(0), second = w.oracle.yielded(w.oracle.entry_of(0));
  const auto early = w.start("split", {{"x", first}}), late = w.start("split", {{"x", second}});
  const auto a = w.oracle.yielded(early), b = w.oracle.yielded(early), c = w.oracle.yielded(late);
  CHECK(w.said().empty());
  const auto release = [&](sim::FrameNumber frame) {
    w.start("right", {{"x", frame}});
    return w.said();
  };
  const std::string wrong = "C5: call 0, node 'right' group 0 was released out of order";
  CHECK(release(a).empty());
  CHECK(release(a).empty());
  CHECK(release(b).empty());
  CHECK(release(a) == wrong);
  CHECK(release(b).empty());  // after what came last
  CHECK(release(c).empty());
  CHECK(release(b) == wrong);
  w.start("left", {{"x", c}});
  w.start("left", {{"x", a}});
  CHECK(w.said().empty());  // no session's order is kept there

  const auto deliver = [&](sim::FrameNumber frame) {
    w.deliver(frame);
    return w.said();
  };
  CHECK(deliver(a).empty());
  CHECK(deliver(c).empty());
  CHECK(deliver(b) == "C5: output 'out' came out of order");
  CHECK(deliver(b).empty());
  CHECK(deliver(a) == "C5: output 'out' came out of order");
  // Of two that are no ancestors' order is known of, neither is first.
  const auto left = w.start("left", {{"x", a}}), right = w.start("left", {{"x", a}});
  CHECK(deliver(w.oracle.yielded(right)).empty());
  CHECK(deliver(w.oracle.yielded(left)).empty());
}

TEST_CASE("the oracle sees what happens after a call has ended, but where nobody could know") {
  Watched w = diamond();
  const auto first = w.begin(0);
  w.begin(1, 1);
  w.oracle.ended(w.start("split", {{"x", first}}));
  w.end_call(0);
  CHECK(w.said().empty());
  w.start("split", {{"x", first}}, {.fenced = true});
  CHECK(w.said().empty());
  w.start("split", {{"x", first}});
  CHECK(w.said() == "C7: call 0, node 'split' group 0 started after the end of its call");
  w.deliver(first);
  CHECK(w.said() == "C7: an output came after the end of its call");
  w.oracle.gave_up(0);
  w.end_call(0);
  CHECK(w.said() == "C7: call 0 ended twice");
  w.oracle.orphaned(1);
  w.start("split", {{"x", first}}, {.call = 1});
  CHECK(w.said().empty());
}

TEST_CASE("the oracle sees a failure that is hidden, and one that nobody had") {
  Watched w = diamond();
  const auto fails = [&](std::size_t call) {
    const auto split = w.start("split", {{"x", w.begin(call, call)}}, {.call = call});
    w.oracle.failed(split);
    w.oracle.ended(split);
  };
  fails(0);
  w.end_call(0);
  CHECK(w.said() == "C8: call 0 hides a failure");
  fails(1);
  w.end_call(1, FailureKind::role_failed, w.node("split"));
  CHECK(w.said().empty());
  fails(2);
  w.end_call(2, FailureKind::role_failed, w.node("left"));
  CHECK(w.said() == "C8: call 2 names 'left', which did not fail");
  fails(3);
  w.end_call(3, FailureKind::cancelled, w.node("left"));
  CHECK(w.said().empty());

  Bound skips = bind(three_calls);
  skips.plan.nodes[skips.plan.find("split")->id].skip_errors = true;
  Watched s(std::move(skips));
  const auto split = s.start("split", {{"x", s.begin(0)}});
  s.oracle.failed(split);
  s.oracle.ended(split);
  s.end_call(0);
  CHECK(s.said().empty());
}

TEST_CASE("the oracle counts what there is of a call, and says what is left of it") {
  Watched w = diamond();
  const auto first = w.begin(0);
  w.oracle.check_alive({0});
  CHECK(w.said().empty());  // it has not begun
  CHECK(w.oracle.remains(0) == ": 0 messages on their way");
  const sim::Flight message = w.send(Message::Kind::credit);
  const sim::Flight frame = w.send(w.edge("split", "left"), first);
  const sim::Flight farewell = w.send(Message::Kind::call_ended);
  CHECK(std::set{message, frame, farewell}.size() == 3);
  const auto split = w.start("split", {{"x", first}});
  CHECK(w.oracle.remains(0) == ": 2 messages on their way, 'split' runs");
  w.oracle.check_alive({0});
  w.end_call(0);
  CHECK(w.said() == "C9: call 0 ended with 2 messages and 1 activations of it about");

  w.begin(1, 1);
  const sim::Flight only = w.send(Message::Kind::credit, 1);
  w.oracle.check_alive({0, 1});
  CHECK(w.said().empty());
  CHECK(w.oracle.arrived(only));
  CHECK_FALSE(w.oracle.arrived(only));
  w.oracle.check_alive({0, 1});
  CHECK(w.said() == "C9: nothing of call 1 is left, and it has not ended");
  w.oracle.lost(only);  // it is there already
  w.oracle.check_alive({1});
  CHECK(w.said() == "C9: nothing of call 1 is left, and it has not ended");
  w.oracle.cancelled(1);
  w.oracle.gave_up(1);
  w.oracle.check_alive({1});
  CHECK(w.said().empty());
  CHECK(w.oracle.remains(1) == ": 0 messages on their way, cancelled, given up");
  w.oracle.ended(split);
  w.oracle.ended(split);
  CHECK(w.oracle.remains(0) == ": 2 messages on their way");
}

TEST_CASE("what is lost gives its call up, but for the news of its end") {
  Watched w = diamond();
  w.begin(0);
  w.oracle.lost(w.send(Message::Kind::call_ended));
  w.oracle.lost(sim::no_flight);
  CHECK(w.oracle.arrived(sim::no_flight));
  CHECK(w.oracle.remains(0) == ": 0 messages on their way");
  const sim::Flight credit = w.send(Message::Kind::credit);
  w.oracle.lost(credit);
  CHECK_FALSE(w.oracle.arrived(credit));
  CHECK(w.oracle.remains(0) == ": 0 messages on their way, given up");
  w.send(Message::Kind::credit);
  w.end_call(0);
  CHECK(w.said().empty());
}

TEST_CASE("settling messages are bounded by frames, activations and collectors") {
  for (const std::uint64_t came : {0U, 1U, 3U}) {
    Watched w = diamond();
    const auto first = w.begin(0);
    for (std::uint64_t i = 0; i < came; ++i) {
      w.send(w.edge("split", "left"), first);
      w.oracle.ended(w.start("split", {{"x", first}}));
      w.send(Message::Kind::credit);
    }
    const std::uint64_t collectors = w.plan().collectors.size();
    REQUIRE(collectors > 1);
    const std::uint64_t most = ((2 * came + 1) * 2 + collectors) * collectors;
    for (std::uint64_t i = 0; i < most; ++i) w.send(Message::Kind::settled);
    CHECK(w.said().empty());
    w.send(Message::Kind::settled);
    CHECK(w.said() == "C12: " + std::to_string(most + 1) + " settling messages, more than " +
                          std::to_string(most) + " that frames and activations allow");
  }
}

TEST_CASE("the oracle sees a loop past its limit, and a loop's turns have no order") {
  Watched w(bound_to(counts_workflow));
  const auto some = w.start("some", {{"x", w.begin(0)}});
  const auto one = w.oracle.yielded(some), two = w.oracle.yielded(some);
  w.start("turn", {{"x", two}}, {.iteration = 2});
  CHECK(w.said().empty());
  w.start("turn", {{"x", one}}, {.iteration = 3});
  CHECK(w.said() == "C13: call 0, node 'turn' group 0 is past the limit of loop iterations");
  w.start("some", {{"x", one}}, {.iteration = 9});
  CHECK(w.said().empty());  // in no loop
  w.oracle.ended(w.start("turn", {{"x", two}}, {.group = 1}));
  w.deliver(two);
  w.deliver(one);
  CHECK(w.said() == "C5: output 'a' came out of order");
  const auto turn = w.start("turn", {{"x", two}});
  const auto later = w.oracle.yielded(turn), latest = w.oracle.yielded(turn);
  w.deliver(latest);
  w.deliver(later);
  CHECK(w.said().empty());
}

TEST_CASE("the oracle sees a count that fires with another number than its own") {
  Bound bound = bound_to(counts_workflow);
  bound.script.calls = {{0, 3, {0, 1}}, {1, 3, {0, 3}}};
  bound.script.nodes[bound.plan.find("some")->id].values = {0, 2};
  Watched w(std::move(bound));
  const auto some = w.start("some", {{"x", w.begin(0)}});
  const auto a = w.oracle.yielded(some), b = w.oracle.yielded(some);
  const auto with_one = [&](const char* node) {
    w.start(node, {{"y", a}});
    return w.said();
  };
  const auto with_two = [&](const char* node) {
    w.start(node, {{"y", a}, {"y", b}});
    return w.said();
  };
  CHECK(with_two("two").empty());
  CHECK(with_one("two") == "C14: call 0, node 'two' group 0 fired with 1 of 2 frames of y");
  CHECK(with_one("asked").empty());
  CHECK(with_two("asked") == "C14: call 0, node 'asked' group 0 fired with 2 of 1 frames of y");
  CHECK(with_two("told").empty());
  CHECK(with_one("told") == "C14: call 0, node 'told' group 0 fired with 1 of 2 frames of y");
  CHECK(with_one("every").empty());
  CHECK(with_two("every").empty());
  w.begin(1, 1);
  w.start("asked", {{"y", a}}, {.call = 1});
  CHECK(w.said() == "C14: call 1, node 'asked' group 0 fired with 1 of 3 frames of y");
}

TEST_CASE("the oracle sees a session's call that runs before the one before has ended") {
  Watched w = diamond();
  const auto first = w.begin(0, 5);
  w.begin(1, 6);
  w.begin(2, 5);
  w.begin(3, 5);
  w.start("split", {{"x", first}}, {.call = 1});
  w.start("split", {{"x", first}}, {.call = 0});
  w.start("split", {{"x", first}}, {.call = 2, .fenced = true});
  CHECK(w.said().empty());
  const std::string runs = ", node 'split' group 0 runs before call ";
  w.start("split", {{"x", first}}, {.call = 2});
  CHECK(w.said() == "C15: call 2" + runs + "0 of its session has ended");
  w.oracle.gave_up(0);
  w.end_call(0);
  w.start("split", {{"x", first}}, {.call = 2});
  CHECK(w.said().empty());
  w.start("split", {{"x", first}}, {.call = 3});
  CHECK(w.said() == "C15: call 3" + runs + "2 of its session has ended");

  Bound overlap = bind(three_calls);
  overlap.plan.calls = CallMode::overlap;
  Watched o(std::move(overlap));
  o.begin(0, 5);
  o.start("split", {{"x", o.begin(1, 5)}}, {.call = 1});
  CHECK(o.said().empty());
}

TEST_CASE("nothing of a lost home's call may run at the end") {
  Watched w = diamond();
  const auto split = w.start("split", {{"x", w.begin(0)}});
  w.oracle.check_orphans();
  CHECK(w.said().empty());
  w.oracle.orphaned(0);
  w.oracle.check_orphans();
  CHECK(w.said() == "C19: the home of call 0 is lost, and 'split' still runs");
  w.oracle.ended(split);
  w.oracle.check_orphans();
  CHECK(w.said().empty());
}

TEST_CASE("the oracle sees a deadline that was not over, and inputs that were not too old") {
  Bound bound = bind(three_calls);
  bound.plan.limits.deadline = 2s;
  const NodeId left = bound.plan.find("left")->id;
  bound.plan.nodes[left].max_age = 100ms;
  Watched w(std::move(bound));
  std::size_t call = 0;
  const auto ended = [&](FailureKind kind, NodeId node, Instant allowed, Instant after) {
    ++call;
    w.begin(call, call, 5s, allowed);
    w.end_call(call, kind, node, 5s + after);
    return w.said();
  };
  const std::string soon = " ended by its deadline too soon";
  const auto deadline = FailureKind::deadline;
  // A thousandth and a little more for clocks that go wrong.
  CHECK(ended(deadline, entry_node, 1s, 998ms) == "C21: call 1" + soon);
  CHECK(ended(deadline, entry_node, 1s, 998ms + 5us).empty());
  CHECK(ended(deadline, entry_node, Instant::max(), 1996ms) == "C21: call 3" + soon);
  CHECK(ended(deadline, entry_node, Instant::max(), 1997ms).empty());
  CHECK(ended(deadline, left, 1s, 1ms).empty());  // the node's own
  CHECK(ended(FailureKind::cancelled, entry_node, 1s, 1ms).empty());

  const auto warned = [&](Instant after, const char* words) {
    ++call;
    w.begin(call, call, 5s);
    w.end_call(call, {}, entry_node, 5s + after, {"another warning", words});
    return w.said();
  };
  CHECK(warned(99700us, "left: inputs older than max_age (100 ms)") ==
        "C21: call 7 lost inputs of 'left' as too old, and is not as old itself");
  CHECK(warned(99900us, "left: inputs older than max_age (100 ms)").empty());
  CHECK(warned(1ms, "right: inputs older than max_age (100 ms)").empty());
}

TEST_CASE("the oracle sees a call that is let in beyond the limit, and one refused below it") {
  Bound bound = bind(three_calls);
  bound.plan.limits.calls = 2;
  Watched w(std::move(bound));
  for (const std::size_t call : {0U, 1U}) {
    w.begin(call, call);
    w.oracle.check_admitted(call);
  }
  CHECK(w.said().empty());
  w.begin(2, 2);
  w.oracle.check_admitted(2);
  CHECK(w.said() == "C26: call 2 was let in as number 3 of 2");
  w.end_call(2, FailureKind::refused);
  w.oracle.check_admitted(2);
  w.oracle.check_admitted(1);
  CHECK(w.said().empty());
  w.end_call(1, FailureKind::refused);
  CHECK(w.said() == "C26: call 1 was refused beside 1 others");
  w.oracle.call_arrived(3, 3);
  w.oracle.call_named(3, {1, {4, 2}}, Instant{}, Instant::max());  // another home's first
  w.oracle.check_admitted(3);
  CHECK(w.said().empty());
  CHECK(w.oracle.call_of({1, {4, 2}}) == 3);
  CHECK(w.oracle.call_of(Watched::id_of(2)) == 2);
}

TEST_CASE("the oracle sees drops too early, of the wrong frame, too late, and those not told of") {
  for (const char* role : {"a", "talk"}) {
    Watched w(bound_to(R"(
sluice: 1
workflow: film
inputs: { x: text }
roles: { a: { plugin: scripted }, talk: { plugin: scripted, balance: session } }
nodes:
  film: { run: a.go, inputs: [ { x: inputs.x } ], outputs: [ x, y ] }
  see: { run: )" + std::string(role) +
                       R"(.go, inputs: [ { y: film.y } ], on_full: drop_oldest, outputs: [ z ] }
outputs: { out: see.z }
)"));
    const auto film = w.start("film", {{"x", w.begin(0)}});
    const EdgeId edge = w.edge("film", "see");
    const auto comes = [&] {
      const auto frame = w.oracle.yielded(film);
      w.oracle.arrived(w.send(edge, frame));
      return frame;
    };
    const auto gone = [&](const char* node, sim::FrameNumber frame, bool dropped = true) {
      w.oracle.not_started(
          {w.node(node), Watched::id_of(0), sim::token_payload(frame, frame, 0), dropped});
      return w.said();
    };
    const std::string at = "C27: call 0, node 'see' drops a frame ";
    const auto first = comes();
    CHECK(gone("film", first) == "C27: call 0, node 'film' does without inputs, and never may");
    CHECK(gone("see", first) == at + "while 1 wait, of 1 that may");
    const auto begun = comes();
    w.oracle.ended(w.start("see", {{"y", begun}}));
    CHECK(gone("see", begun) ==
          "C27: call 0, node 'see' does without a frame that did not wait "
          "for it");
    const auto older = comes();
    const auto newer = comes();
    w.oracle.check_alive({0});
    CHECK(w.said() == "C27: call 0, 2 wait for node 'see', of 1 that may");
    CHECK(gone("see", newer) == at + "that is not the oldest");
    const auto newest = comes();
    CHECK(gone("see", older).empty());
    w.oracle.check_alive({0});
    CHECK(w.said().empty());
    CHECK(gone("see", newest, false).empty());  // too old, say: any number may wait or none
    comes();
    w.oracle.ended(film);
    const auto twice = w.oracle.yielded(film);  // for two groups of the node
    for (int i = 0; i < 2; ++i) w.oracle.arrived(w.send(edge, twice));
    w.oracle.ended(w.start("see", {{"y", twice}}));
    CHECK(gone("see", twice, false).empty());
    const std::string words = "see: inputs that waited were dropped for newer ones";
    w.end_call(0, {}, entry_node, {}, {words + " (on_full: drop_oldest, queue: 1) (3 times)"});
    CHECK(w.said() ==
          "C27: 1 frames for node 'see' neither ran nor were dropped, and their call "
          "has ended; C27: node 'see' dropped 4, and the caller hears of 3");
  }
}

TEST_CASE("twenty violations are kept, the first") {
  Watched w = diamond();
  for (int i = 0; i < 25; ++i) w.oracle.violated(std::to_string(i));
  CHECK(w.oracle.violations().size() == 20);
  CHECK(w.oracle.violations().back() == "19");
}
