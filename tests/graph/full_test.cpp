// A node with `on_full: drop_oldest`: what is dropped, when, and what follows from it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "base/random.h"
#include "graph/print.h"
#include "harness.h"

using namespace sluice;
using sluice::testing::Firing;
using sluice::testing::Harness;
using sluice::testing::Yields;

namespace {

const std::string head = R"(
sluice: 1
workflow: film
inputs: { x: json }
roles:
  any: { plugin: scripted }
  two: { plugin: scripted, replicas: 2 }
  ordered: { plugin: scripted, balance: session }
)";

/// A camera, and a node that sees what it films: run by this role, with this queue.
std::string film(const std::string& role, const std::string& queue,
                 const std::string& more = "outputs: { out: see.v }\n") {
  return head + R"(
nodes:
  camera: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [v, w] }
  see: { run: )" +
         role + ".see, inputs: [ { v: camera.v } ], on_full: drop_oldest" + queue +
         ", outputs: [v] }\n" + more;
}

Yields frames(std::size_t count) { return Yields(count, {"v"}); }

/// Which of the camera's frames a node ran on, in the order in which it did.
std::vector<std::size_t> seen(const Harness& harness, const std::string& node = "see") {
  std::vector<std::size_t> numbers;
  for (const Firing& firing : harness.firings)
    if (firing.node == node) {
      const std::string& origin = firing.inputs.begin()->second.front();
      numbers.push_back(std::stoul(origin.substr(origin.find("camera#") + 7)));
    }
  return numbers;
}

std::string dropped(std::size_t times, std::size_t queue = 1) {
  const std::string text =
      "see: inputs that waited were dropped for newer ones (on_full: drop_oldest, queue: " +
      std::to_string(queue) + ")";
  return times == 1 ? text : text + " (" + std::to_string(times) + " times)";
}

using Numbers = std::vector<std::size_t>;
using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a node that drops the oldest runs on what had begun and on the newest") {
  for (const char* role : {"any", "ordered"}) {
    INFO(role);
    Harness harness(film(role, ""));
    harness.yields["camera"] = frames(7);
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(seen(harness) == Numbers{0, 6});
    CHECK(harness.warnings == Texts{dropped(5)});
    REQUIRE(harness.outputs[call].size() == 2);
    CHECK(harness.outputs[call][1].second.find("camera#6") != std::string::npos);
    require_clean(harness);
  }
}

TEST_CASE("a queue holds as many as it says, and one more pushes out one") {
  for (const std::size_t more : {0U, 1U}) {
    Harness harness(film("any", ", queue: 3"));
    harness.yields["camera"] = frames(4 + more);
    harness.call();
    harness.run();
    CHECK(seen(harness) == (more == 0 ? Numbers{0, 1, 2, 3} : Numbers{0, 2, 3, 4}));
    CHECK(harness.warnings == (more == 0 ? Texts{} : Texts{dropped(1, 3)}));
  }
}

TEST_CASE("as many activations of a call begin at once as its role has replicas") {
  Harness harness(film("two", ""));
  harness.yields["camera"] = frames(7);
  harness.call();
  harness.run();
  CHECK(seen(harness) == Numbers{0, 1, 6});
  CHECK(harness.warnings == Texts{dropped(4)});
  require_clean(harness);
}

TEST_CASE("without the key every frame runs, however many wait") {
  std::string yaml = film("any", "");
  const std::string key = ", on_full: drop_oldest";
  yaml.replace(yaml.find(key), key.size(), ", on_full: wait");
  Harness harness(yaml);
  harness.yields["camera"] = frames(50);
  harness.call();
  harness.run();
  CHECK(seen(harness).size() == 50);
  CHECK(harness.warnings.empty());
}

TEST_CASE("where there is an order the oldest is the first in it, whichever came first") {
  const std::string yaml = head + R"(
nodes:
  camera: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [v, w] }
  crop: { run: any.crop, inputs: [ { v: camera.v } ], outputs: [v] }
  see: { run: ordered.see, inputs: [ { v: crop.v } ], on_full: drop_oldest, queue: 2, outputs: [v] }
outputs: { out: see.v }
)";
  Harness harness(yaml);
  harness.yields["camera"] = frames(6);
  // The newest picture is cropped first, so the first comes last: until then nothing may run.
  harness.pick = [](std::size_t waiting) { return waiting - 1; };
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(seen(harness) == Numbers{0, 4, 5});
  CHECK(harness.warnings == Texts{dropped(3, 2)});
  require_clean(harness);
}

TEST_CASE("calls have queues of their own") {
  Harness harness(film("any", ""));
  harness.yields["camera"] = frames(3);
  harness.call(1);
  harness.call(2);
  harness.run();
  CHECK(seen(harness).size() == 4);
  CHECK(harness.warnings == Texts{dropped(1), dropped(1)});
  require_clean(harness);
}

TEST_CASE("what waits for a dropped frame's work goes on without it") {
  Harness harness(film("any", "", R"(
  look: { run: any.look, inputs: [ { v: camera.v } ], outputs: [v] }
  meet: { run: any.meet, inputs: [ { a: see.v, b: look.v } ], outputs: [v] }
  all: { run: any.all, inputs: [ { v: see.v } ], count: { v: all }, outputs: [v] }
  later: { run: ordered.later, inputs: [ { v: meet.v } ], outputs: [v] }
outputs: { out: later.v, every: all.v }
)"));
  harness.yields["camera"] = frames(5);
  const CallId call = harness.call();
  harness.run();
  CHECK(harness.status[call] == "ok");
  CHECK(seen(harness, "later") == Numbers{0, 4});
  const auto all = std::ranges::find(harness.firings, std::string("all"), &Firing::node);
  REQUIRE(all != harness.firings.end());
  CHECK(all->inputs.at("v").size() == 2);
  CHECK(harness.warnings == Texts{dropped(3)});
  require_clean(harness);
}

TEST_CASE("what a join has collected waits and is dropped as one") {
  for (const char* role : {"any", "ordered"}) {
    Harness harness(
        head + R"(
nodes:
  camera: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [v, w] }
  left: { run: any.left, inputs: [ { v: camera.v } ], outputs: [v] }
  right: { run: any.right, inputs: [ { v: camera.v } ], outputs: [v] }
  see: { run: )" +
        std::string(role) +
        R"(.see, inputs: [ { a: left.v, b: right.v } ], on_full: drop_oldest, outputs: [v] }
outputs: { out: see.v }
)");
    harness.yields["camera"] = frames(5);
    // Whatever is not `see` goes first, so all that is collected waits behind the first of it.
    const CallId call = harness.call();
    harness.pick = [&](std::size_t waiting) {
      return harness.firings.size() < 11 ? 0 : waiting - 1;
    };
    harness.run();
    CHECK(harness.status[call] == "ok");
    const Numbers ran = seen(harness);
    CHECK(ran.back() == 4);
    const std::size_t gone = 5 - ran.size();
    CHECK(harness.warnings == (gone == 0 ? Texts{} : Texts{dropped(gone)}));
    CHECK(gone > 0);
    require_clean(harness);
  }
}

TEST_CASE("a node that fails on a frame goes on with what waits") {
  for (const char* role : {"any", "ordered"}) {
    Harness harness(film(role, ", on_error: skip"));
    harness.yields["camera"] = frames(4);
    harness.fails["see"] = true;
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    CHECK(seen(harness) == Numbers{0, 3});
    require_clean(harness);
  }
}

TEST_CASE("a call that is cancelled or past its deadline leaves nothing that waits") {
  for (const char* role : {"any", "ordered"})
    for (const bool cancelled : {true, false}) {
      Harness harness(film(role, ", queue: 4"));
      harness.yields["camera"] = frames(9);
      std::size_t answers = 0;
      const CallId call = harness.call();
      harness.pick = [&](std::size_t) -> std::size_t {
        if (++answers == 2 && cancelled) harness.loop().cancel(call);
        if (answers == 2 && !cancelled) harness.loop().tick(std::chrono::seconds(31));
        harness.loop().run();  // the node hears of it while it runs on the first frame
        return 0;
      };
      harness.run();
      CHECK(harness.status[call] != "ok");
      CHECK(seen(harness) == Numbers{0});
      require_clean(harness);
    }
}

TEST_CASE("in every order of answers each frame runs or is counted, and the newest runs") {
  std::set<std::size_t> drops;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    const char* const roles[] = {"any", "two", "ordered"};
    const std::size_t queue = 1 + seed % 4;
    Harness harness(
        head + R"(
nodes:
  camera: { run: any.film, inputs: [ { x: inputs.x } ], outputs: [v, w] }
  crop: { run: any.crop, inputs: [ { v: camera.v } ], outputs: [v] }
  see: { run: )" +
        roles[seed % 3] +
        ".see, inputs: [ { v: crop.v }, { v: camera.w } ], on_full: drop_oldest, queue: " +
        std::to_string(queue) + R"(, outputs: [v] }
  then: { run: ordered.then, inputs: [ { v: see.v } ], outputs: [v] }
outputs: { out: then.v }
)");
    SplitMix64 random(seed);
    harness.merge_last = seed % 2 == 0;
    // Long enough that shares become too small to divide.
    const std::size_t made = seed % 8 == 0 ? 600 : 12;
    harness.yields["camera"] =
        Yields(made, seed % 5 == 0 ? std::vector<std::string>{"w"} : std::vector<std::string>{"v"});
    harness.yields["see"] = {{"v"}, {"v"}};
    harness.pick = [&](std::size_t waiting) { return random.next() % waiting; };
    const CallId call = harness.call();
    harness.run();
    CHECK(harness.status[call] == "ok");
    const Numbers ran = seen(harness);
    const std::size_t gone = made - ran.size();
    CHECK(std::set(ran.begin(), ran.end()).size() == ran.size());
    CHECK(harness.warnings == (gone == 0 ? Texts{} : Texts{dropped(gone, queue)}));
    if (seed % 3 == 2) {
      CHECK(std::ranges::is_sorted(ran));
      CHECK(ran.back() == made - 1);
    }
    CHECK(harness.outputs[call].size() == 2 * ran.size());
    CHECK(std::ranges::is_sorted(seen(harness, "then")));
    drops.insert(gone);
    require_clean(harness);
  }
  CHECK(drops.size() > 5);
}

TEST_CASE("a plan says what a node drops, in words and as JSON") {
  Harness harness(film("two", ", queue: 3"));
  CHECK(plan_text(harness.plan())
            .find("    at most 3 of a call wait, for one more the oldest is dropped "
                  "(on_full: drop_oldest)\n") != std::string::npos);
  CHECK(plan_json(harness.plan()).find("\"on_full\":\"drop_oldest\",\"queue\":3}") !=
        std::string::npos);
  const PlanNode& see = *harness.plan().find("see");
  CHECK(explain_node(harness.plan(), see).find("  Of each call at most 3 may wait while 2 run.") !=
        std::string::npos);
  for (const std::string& picture :
       {plan_dot(harness.plan()), plan_mermaid(harness.plan()), plan_svg(harness.plan())})
    CHECK(picture.find("keeps the newest 3 that wait") != std::string::npos);
  Harness one(film("two", ""));
  CHECK(plan_mermaid(one.plan()).find("keeps the newest that waits") != std::string::npos);
  CHECK(plan_json(harness.plan()).find("\"queue\":") ==
        plan_json(harness.plan()).rfind("\"queue\":"));
}
