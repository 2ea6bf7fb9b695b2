// Activations of idempotent roles are tried once more when their host dies, and no others.
#include <signal.h>

#include "hosted_world.h"

using namespace sluice;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// `one` and `two` are idempotent, `three` is not; all are in the host `shaky`.
std::string three_roles(const std::string& plugin) {
  std::string text =
      "sluice: 1\nworkflow: test\ncalls: overlap\n"
      "inputs: { one: text, two: text, three: text }\nroles:\n";
  for (const std::string role : {"one", "two", "three"})
    text += "  " + role + ": { plugin: " + plugin + (role == "three" ? "" : ", idempotent: true") +
            " }\n";
  text += "nodes:\n";
  for (const std::string role : {"one", "two", "three"})
    text +=
        "  n_" + role + ": { run: " + role + ".act, inputs: [ { text: inputs." + role + " } ] }\n";
  return text + "outputs: { one: n_one.word, two: n_two.word, three: n_three.word }\n";
}

struct Shaky : HostedWorld {
  explicit Shaky(const std::string& plugin, const hosts::HostOptions& options = host_options())
      : HostedWorld(three_roles(plugin), {{"shaky", {"one", "two", "three"}}}, options) {
    REQUIRE(refused == "");
  }
  Answer ask(const std::string& input, const std::string& text) {
    return call({.session = input, .inputs = {{input, make_text(text)}}});
  }
  hosts::HostStatus host() const { return hosted.report().at(0).status; }
};

using Texts = std::vector<std::string>;
const Texts told{"n_one: tried again: host 'shaky' died by SIGSEGV"};

}  // namespace

TEST_CASE("an activation of an idempotent role whose host dies is tried again, and its call told") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  const Folder folder;
  Shaky world(plugin);
  folder.write("alive", "");
  const Answer answer = world.ask("one", "once " + folder.str() + "/alive");
  CHECK(answer.error() == "ok");
  CHECK(answer.outputs == Texts{"survived"});
  CHECK(answer.outcome.warnings == told);
  CHECK(world.host().tried_again == 1);
  CHECK(world.host().starts == 2);
  CHECK(world.ask("one", "hello").outcome.warnings.empty());
}

TEST_CASE("an activation whose host dies at both tries ends with how it died") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  Shaky world(plugin);
  const Answer answer = world.ask("one", "segv");
  CHECK_THAT(answer.error(),
             Contains("n_one: role 'one': host 'shaky' died by SIGSEGV; activations that were in "
                      "it: 1 (node 'n_one' of call 1); this was its second try"));
  CHECK(answer.outcome.warnings == told);
  CHECK(answer.outputs.empty());
  CHECK(world.host().tried_again == 1);
  CHECK(world.say("one", "hello") == "hello");
  CHECK(world.host().starts == 3);
}

TEST_CASE("an activation that has yielded is not tried again") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  const Folder folder;
  Shaky world(plugin);
  Gate gate(folder);
  std::promise<std::string> heard;
  CallOutcome outcome;
  std::thread caller([&] {
    outcome = world.runner->call(
        {.session = "s", .inputs = {{"one", make_text("then " + gate.deed().substr(3))}}},
        [&](std::string_view, const PayloadRef& value) { heard.set_value(value->text); });
  });
  gate.meet();
  CHECK(heard.get_future().get() == "said");
  gate.open();
  caller.join();
  CHECK_FALSE(outcome.ok);
  CHECK_THAT(outcome.error.message, Contains("died by SIGSEGV") && !Contains("second try"));
  CHECK(outcome.warnings.empty());
  CHECK(world.host().tried_again == 0);
}

TEST_CASE("an activation of a role that is not idempotent is not tried again") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  const Folder folder;
  Shaky world(plugin);
  folder.write("alive", "");
  const std::string deed = "once " + folder.str() + "/alive";
  const Answer answer = world.ask("three", deed);
  CHECK_THAT(answer.error(), Contains("n_three: role 'three': host 'shaky' died by SIGSEGV") &&
                                 !Contains("second"));
  CHECK(answer.outcome.warnings.empty());
  CHECK(world.host().tried_again == 0);
  CHECK(world.say("three", deed) == "survived");
}

TEST_CASE("what was in a host beside the one that killed it is tried again too") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  const Folder folder;
  Shaky world(plugin);
  Gate gate(folder);
  std::future<std::string> beside = world.begin("two", gate.deed(), "a");
  gate.meet();
  folder.write("alive", "");
  CHECK(world.ask("three", "segv").error() != "ok");
  CHECK(world.say("one", "hello") == "hello");  // so the first reader is gone
  gate.meet();
  gate.open();
  CHECK(beside.get() == "x");
  CHECK(world.host().tried_again == 1);
}

TEST_CASE(
    "a host that is killed from outside in the middle of an activation does not end its call") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  const Folder folder;
  Shaky world(plugin);
  Gate gate(folder);
  std::future<Answer> asked =
      std::async(std::launch::async, [&] { return world.ask("one", gate.deed()); });
  gate.meet();
  const pid_t before = world.host().pid;
  REQUIRE(before > 0);
  REQUIRE(::kill(before, SIGKILL) == 0);
  CHECK(world.say("two", "process") != std::to_string(before));  // so the first reader is gone
  gate.meet();
  gate.open();
  const Answer answer = asked.get();
  CHECK(answer.outputs == Texts{"x"});
  CHECK(answer.outcome.warnings == Texts{"n_one: tried again: host 'shaky' died by SIGKILL"});
}

TEST_CASE("what a role says of an activation is not tried again, and nor is what nobody awaits") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.hang_after = 50ms;
  Shaky world(plugin, options);
  CHECK(world.say("one", "fail") == "n_one: as told");
  CHECK(world.say("one", "throw") == "n_one: the role threw: a tantrum");
  CHECK(world.host().starts == 1);
  CHECK_THAT(world.say("one", "loop", "s", 2s), Contains("deadline"));
  CHECK(world.say("one", "hello") == "hello");
  CHECK(world.host().tried_again == 0);
  CHECK(world.host().starts == 2);
}

TEST_CASE("a second try does not wait for a host that is refused") {
  const std::string plugin = GENERATE("mortal", "mortal_steps");
  INFO(plugin);
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.rules.deaths_max = 0;
  options.rules.refusal = std::chrono::hours(1);
  Shaky world(plugin, options);
  CHECK_THAT(world.say("one", "segv"), Contains("host 'shaky' died more than 0 times") &&
                                           Contains("host 'shaky' died by SIGSEGV"));
  CHECK(world.host().starts == 1);
}

namespace {

/// `one` runs on each of its two replicas, in the host `shaky`.
struct Pair : HostedWorld {
  explicit Pair(const std::string& more)
      : HostedWorld("sluice: 1\nworkflow: test\ninputs: { one: text }\nroles:\n  one: { plugin: "
                    "mortal, replicas: 2, balance: broadcast" +
                        more +
                        " }\nnodes:\n  n_one: { run: one.act, inputs: [ { text: inputs.one } ] }\n"
                        "outputs: { one: n_one.word }\n",
                    {{"shaky", {"one"}}}) {
    REQUIRE(refused == "");
  }
  Answer ask(const std::string& text) { return call({.inputs = {{"one", make_text(text)}}}); }
};

}  // namespace

TEST_CASE("on each replica an activation whose host died is tried again") {
  const NothingLeft nothing;
  const Folder folder;
  Pair world(", idempotent: true");
  Gate gate(folder);
  std::future<Answer> asked =
      std::async(std::launch::async, [&] { return world.ask(gate.deed()); });
  gate.meet();
  REQUIRE(::kill(world.hosted.report().at(0).status.pid, SIGKILL) == 0);
  while (world.hosted.report().at(0).status.starts < 2) std::this_thread::yield();
  gate.meet();
  gate.open();
  gate.open();
  const Answer answer = asked.get();
  CHECK(answer.error() == "ok");
  CHECK(answer.outputs == Texts{"x", "x"});
  // The other replica may have begun behind the death.
  REQUIRE(answer.outcome.warnings.size() == 1);
  CHECK(answer.outcome.warnings[0].starts_with(
      "n_one: tried again: host 'shaky' died by SIGKILL"));
}

TEST_CASE("a host of all replicas that dies costs the call, and the next runs on each") {
  const NothingLeft nothing;
  Pair world("");
  const Answer answer = world.ask("segv");
  CHECK_THAT(answer.error(), Contains("n_one: role 'one': host 'shaky' died by SIGSEGV"));
  CHECK(answer.outputs.empty());
  // It is started again: what comes waits for it, and no replica is left out.
  CHECK(world.ask("hello").outputs == Texts{"hello", "hello"});
}

TEST_CASE("a role that keeps session state cannot be idempotent") {
  Catalog catalog;
  REQUIRE(add_plugins(catalog, built_plugins()) == "");
  LoadedWorkflow loaded = load_workflow("test.yaml", R"(
sluice: 1
workflow: test
inputs: { text: text }
global_params: { m: { kind: memory } }
roles:
  one: { plugin: mortal_stepped, balance: session, global_params: [ m ], idempotent: true }
nodes:
  act: { run: one.act, inputs: [ { text: inputs.text } ] }
outputs: { word: act.word }
)");
  plan_workflow(loaded, catalog.declarations());
  REQUIRE(loaded.diagnostics.size() == 1);
  CHECK(loaded.diagnostics[0].code == "idempotent-with-state");
  CHECK(loaded.diagnostics[0].mark.line == 7);
  CHECK(loaded.diagnostics[0].mark.column == 86);
}
