// Roles in processes of their own: each way to die costs its own calls; everything else goes on.
#include "hosted_world.h"
#include "tests/sanitized.h"

using namespace sluice;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using sluice::testing::sanitized;

namespace {

/// Roles `one` and `two` are in the host `shaky`, `three` is in `calm`, each with a node and an
/// input of its name.
std::string three_roles(const std::string& plugin) {
  const bool stepped = plugin == "mortal_stepped";
  std::string text =
      "sluice: 1\nworkflow: test\ncalls: overlap\n"
      "inputs: { one: text, two: text, three: text }\n";
  if (stepped) text += "global_params: { shared: { kind: memory }, alone: { kind: memory } }\n";
  text += "roles:\n";
  for (const char* role : {"one", "two", "three"})
    text += std::string("  ") + role + ": { plugin: " + plugin +
            (stepped ? std::string(", balance: session, global_params: [") +
                           (role == std::string("three") ? "alone" : "shared") + "]"
                     : "") +
            " }\n";
  text += "nodes:\n";
  for (const char* role : {"one", "two", "three"})
    text += std::string("  n_") + role + ": { run: " + role + ".act, inputs: [ { text: inputs." +
            role + " } ] }\n";
  return text + "outputs: { one: n_one.word, two: n_two.word, three: n_three.word }\n";
}

const std::vector<hosts::HostGroup> shaky_and_calm{{"shaky", {"one", "two"}}, {"calm", {"three"}}};

struct Death {
  std::string deed, words;
};

std::vector<Death> lies() {
  const std::string wrong = "sent what is no message of a role host (";
  const std::string one = "; activations that were in it: 1 (";
  return {Death{"mute", "was ended, for it did not greet within 100 ms"},
          Death{"version", wrong + "byte 6: version 9, this is " +
                               std::to_string(hosts::protocol_version) + ")"},
          Death{"magic", wrong + "byte 5: the other side is no role host)"},
          Death{"made", "answered something else than was asked"},
          Death{"control", wrong + "byte 1: a message's kind is 9, at most 4 is allowed)"},
          Death{"reference", wrong + "yielded an input that is not there)"},
          Death{"field", wrong + "yielded an input that is not there)"},
          Death{"stranger", wrong + "an answer to what was not asked)"},
          Death{"stepped", wrong + "an answer to what was not asked)"},
          Death{"kind", wrong + "byte 1: a message's kind is 100, at most 5 is allowed)"},
          Death{"another", wrong + "an answer to what was not asked)"},
          Death{"warning", wrong + "an answer to what was not asked)"},
          Death{"made again", wrong + "an answer to what was not asked)"},
          Death{"steps idle", wrong + "a role that is not busy holds activations)"},
          Death{"steps, no number", wrong + "an answer to what was not asked)"},
          Death{"steps, stranger", wrong + "an answer to what was not asked)"},
          Death{"steps, reference", wrong + "yielded an input that is not there)"},
          Death{"status", "ended with status 3" + one},
          Death{"lost", "closed its connection" + one},
          Death{"killed", "died by SIGKILL" + one},
          Death{"nameless signal", "died by signal 34" + one},
          Death{"hello twice", "sent what was not asked" + one},
          Death{"unasked pong", "sent what was not asked" + one},
          Death{"cancel", "sent what was not asked" + one},
          Death{"closes", "closed its connection" + one},
          Death{"stays", "closed its connection" + one},
          Death{"hangs up", "closed its connection" + one},
          Death{"dies while it makes", "ended with status 4; activations that were in it: 0"},
          Death{"closes while it makes", "closed its connection; activations that were in it: 0"},
          Death{"refuses", "it has no room"}};
}

}  // namespace

TEST_CASE("a role that ends its process costs the calls that were in it, and no other") {
  const std::string plugin = GENERATE("mortal", "mortal_stepped");
  const Death death =
      GENERATE(Death{"segv", "died by SIGSEGV"}, Death{"null", "died by SIGSEGV"},
               Death{"abort", "died by SIGABRT"}, Death{"exit", "ended with status 7"},
               Death{"kill", "died by SIGKILL"}, Death{"close", "closed its connection"},
               Death{"garbage", "sent what is no message of a role host"});
  if (sanitized && death.deed == "null") return;  // the sanitizer ends it in its own way
  INFO(plugin << " " << death.deed);
  const NothingLeft nothing;
  const Folder folder;
  SECTION("alone") {
    HostedWorld world(three_roles(plugin), shaky_and_calm);
    REQUIRE(world.refused == "");
    CHECK(world.say("one", "hello") == "hello");
    CHECK_THAT(world.say("one", death.deed),
               Contains("n_one: role 'one': host 'shaky' " + death.words) &&
                   Contains("activations that were in it: 1 (node 'n_one' of call 2)"));
    CHECK(world.say("one", "hello") == "hello");
    CHECK(world.say("three", "hello") == "hello");
  }
  SECTION("beside others") {
    HostedWorld world(three_roles(plugin), shaky_and_calm);
    REQUIRE(world.refused == "");
    Gate in_it(folder), beside(folder);
    std::future<std::string> lost = world.begin("two", in_it.deed(), "a");
    in_it.meet();
    std::future<std::string> kept = world.begin("three", beside.deed(), "b");
    beside.meet();
    CHECK_THAT(world.say("one", death.deed), Contains("role 'one': host 'shaky' " + death.words) &&
                                                 Contains("activations that were in it: 2"));
    CHECK_THAT(lost.get(), Contains("n_two: role 'two': host 'shaky' " + death.words) &&
                               Contains("activations that were in it: 2"));
    beside.open();
    CHECK(kept.get() == "x");
    CHECK(world.say("two", "hello") == "hello");
  }
}

TEST_CASE("of many activations that a death costs, four are named") {
  const std::size_t waiting = GENERATE(3U, 4U);
  const NothingLeft nothing;
  const Folder folder;
  std::string inputs, roles, nodes, outputs;
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= waiting; ++i) {
    const std::string name = "r" + std::to_string(i), comma = i == 0 ? "" : ", ";
    names.push_back(name);
    inputs += comma + name + ": text";
    roles += "  " + name + ": { plugin: mortal }\n";
    nodes +=
        "  n_" + name + ": { run: " + name + ".act, inputs: [ { text: inputs." + name + " } ] }\n";
    outputs += comma + name + ": n_" + name + ".word";
  }
  const std::string head = "sluice: 1\nworkflow: test\ncalls: overlap\ninputs: { ";
  HostedWorld world(head + inputs + " }\nroles:\n" + roles + "nodes:\n" + nodes + "outputs: { " +
                        outputs + " }\n",
                    {{"shaky", names}});
  REQUIRE(world.refused == "");
  std::vector<std::unique_ptr<Gate>> gates;
  std::vector<std::future<std::string>> lost;
  for (std::size_t i = 1; i <= waiting; ++i) {
    gates.push_back(std::make_unique<Gate>(folder));
    lost.push_back(world.begin(names[i], gates.back()->deed(), names[i]));
    gates.back()->meet();
  }
  const std::string words = world.say(names[0], "abort");
  INFO(words);
  std::size_t named = 0;
  for (std::size_t at = 0; (at = words.find("node '", at)) != std::string::npos; ++at) ++named;
  CHECK(named == 4);
  CHECK_THAT(words, Contains("activations that were in it: " + std::to_string(waiting + 1) + " ("));
  CHECK(words.ends_with(", ...)") == (waiting == 4));
  CHECK(words.ends_with(")"));
  for (std::future<std::string>& one : lost) CHECK_THAT(one.get(), Contains("SIGABRT"));
}

TEST_CASE("what a role in a host throws or says is its call's error, and its process goes on") {
  const std::string plugin = GENERATE("mortal", "mortal_stepped");
  const Death death =
      GENERATE(Death{"throw", "n_one: the role threw: a tantrum"}, Death{"fail", "n_one: as told"});
  INFO(plugin << " " << death.deed);
  const NothingLeft nothing;
  const Folder folder;
  HostedWorld world(three_roles(plugin), shaky_and_calm);
  const std::string process = world.say("one", "process");
  Gate beside(folder);
  std::future<std::string> kept = world.begin("two", beside.deed(), "a");
  beside.meet();
  CHECK(world.say("one", death.deed) == death.words);
  beside.open();
  CHECK(kept.get() == "x");
  CHECK(world.say("one", "process") == process);
}

TEST_CASE("a role that does not return from a cancelled call ends with its process") {
  const std::string plugin = GENERATE("mortal", "mortal_stepped");
  const std::string deed = GENERATE("loop", "deaf");
  INFO(plugin << " " << deed);
  const NothingLeft nothing;
  const Folder folder;
  hosts::HostOptions options = HostedWorld::host_options();
  options.hang_after = 50ms;
  HostedWorld world(three_roles(plugin), shaky_and_calm, options);
  const std::string process = world.say("one", "process");
  Gate in_it(folder), beside(folder);
  std::future<std::string> lost = world.begin("two", in_it.deed(), "a");
  in_it.meet();
  std::future<std::string> kept = world.begin("three", beside.deed(), "b");
  beside.meet();
  CHECK_THAT(world.say("one", deed, "s", 1s), Contains("deadline"));
  CHECK_THAT(lost.get(), Contains("host 'shaky' was ended, for node 'n_one' of call 4 did not "
                                  "return within 50 ms of its cancellation"));
  beside.open();
  CHECK(kept.get() == "x");
  const std::string anew = world.say("one", "process");
  CHECK_THAT(anew, Catch::Matchers::Matches("[0-9]+"));
  CHECK(anew != process);
}

TEST_CASE("a stepped role that goes on and never lets go of a cancelled activation ends too") {
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.hang_after = 50ms;
  HostedWorld world(three_roles("mortal_stepped"), shaky_and_calm, options);
  const std::string process = world.say("one", "process");
  CHECK_THAT(world.say("one", "keep", "s", 1s), Contains("deadline"));
  for (std::string now = process; now == process;) now = world.say("one", "process", "t");
  CHECK(world.say("one", "hello") == "hello");
}

TEST_CASE("a host that stands still is ended, whatever its roles do") {
  const std::string plugin = GENERATE("mortal", "mortal_stepped");
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.silent_after = 4s;
  HostedWorld world(three_roles(plugin), shaky_and_calm, options);
  CHECK_THAT(world.say("one", "stop"),
             Contains("host 'shaky' was ended, for it did not answer for 4000 ms"));
  CHECK(world.say("three", "hello") == "hello");
}

TEST_CASE("a role that looks at cancellation is told of it in its host, which goes on") {
  const NothingLeft nothing;
  HostedWorld world(three_roles("mortal"), shaky_and_calm);
  const std::string process = world.say("one", "process");
  CHECK_THAT(world.say("one", "flood", "s", 30ms), Contains("deadline"));
  CHECK(world.say("one", "process") == process);
}

TEST_CASE("a role that eats its host's memory fails, and its host goes on") {
  if (sanitized) return;  // which reserves more than any limit
  const std::string plugin = GENERATE("mortal", "mortal_stepped");
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.memory = std::uint64_t{1} << 30U;
  HostedWorld world(three_roles(plugin), shaky_and_calm, options);
  const std::string process = world.say("one", "process");
  CHECK(world.say("one", "eat") == "n_one: the role threw: std::bad_alloc");
  CHECK(world.say("one", "process") == process);
}

TEST_CASE("a session that lost what its host kept of it begins anew and says so") {
  const NothingLeft nothing;
  HostedWorld world(three_roles("mortal_stepped"), shaky_and_calm);
  const auto count = [&] {
    return world.call({.session = "s", .inputs = {{"one", make_text("count")}}});
  };
  CHECK(count().outputs == std::vector<std::string>{"1"});
  CHECK(count().outputs == std::vector<std::string>{"2"});
  REQUIRE(world.runner->end_session("s").ok());
  CHECK(count().outputs == std::vector<std::string>{"1"});
  CHECK_THAT(world.say("one", "segv", "other"), Contains("SIGSEGV"));
  const Answer after = count();
  CHECK(after.outputs == std::vector<std::string>{"1"});
  CHECK(after.outcome.warnings ==
        std::vector<std::string>{"n_one: what role 'one' kept of session 's' was lost when host "
                                 "'shaky' died; it begins anew"});
  REQUIRE(world.runner->end_session("s").ok());
  CHECK_THAT(world.say("one", "segv", "other"), Contains("SIGSEGV"));
  CHECK(count().outcome.warnings.empty());
}

TEST_CASE("a host that dies too often is refused by name until its time has come") {
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.rules.deaths_max = 1;
  options.rules.refusal = std::chrono::hours(1);
  HostedWorld world(three_roles("mortal"), shaky_and_calm, options);
  CHECK_THAT(world.say("one", "segv"), Contains("SIGSEGV"));
  CHECK_THAT(world.say("one", "abort"), Contains("SIGABRT"));
  CHECK_THAT(world.say("two", "hello"),
             Contains("role 'two': host 'shaky' died more than 1 time within 60000 ms and is "
                      "started again in ") &&
                 Contains("host 'shaky' died by SIGABRT"));
  CHECK(world.say("three", "hello") == "hello");
}

TEST_CASE("a role that dies while it is made is an error of the start, with role and host") {
  const NothingLeft nothing;
  std::string workflow = three_roles("mortal");
  workflow.replace(workflow.find("two: { plugin: mortal"), 21,
                   "two: { plugin: mortal, options: { born: dead }");
  const HostedWorld world(workflow, shaky_and_calm);
  CHECK(world.refused ==
        "role 'two': host 'shaky' died by SIGSEGV; activations that were in it: 0");
}

TEST_CASE("a host that can make a role once and not again says so") {
  const NothingLeft nothing;
  const Folder folder;
  folder.write("there", "");
  hosts::HostOptions options = HostedWorld::host_options();
  options.rules.deaths_max = 2;
  options.rules.refusal = std::chrono::hours(1);
  std::string workflow = three_roles("mortal");
  workflow.replace(
      workflow.find("two: { plugin: mortal"), 21,
      "two: { plugin: mortal, options: { born: once, file: " + folder.str() + "/there }");
  HostedWorld world(workflow, shaky_and_calm, options);
  REQUIRE(world.refused == "");
  CHECK_THAT(world.say("one", "segv"), Contains("SIGSEGV"));
  CHECK_THAT(world.say("one", "hello"),
             Contains("host 'shaky' died more than 2 times") && Contains("SIGABRT"));
}

TEST_CASE("a host that cannot be started is an error of the start") {
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.command = {"/nowhere/sluice"};
  CHECK_THAT(HostedWorld(three_roles("mortal"), shaky_and_calm, options).refused,
             Contains("role 'one': host 'shaky' ended with status 127"));
  options.command = {"/bin/true"};
  CHECK_THAT(HostedWorld(three_roles("mortal"), shaky_and_calm, options).refused,
             Contains("role 'one': host 'shaky' ended with status 0"));
}

TEST_CASE("roles in a host say what they say in this process, their mistakes too") {
  const std::string workflow = R"(
sluice: 1
workflow: test
inputs: { text: text }
roles: { actor: { plugin: trouble } }
nodes:
  act: { run: actor.act, inputs: [ { text: inputs.text } ] }
outputs: { words: act.word, pictures: act.picture, grids: act.grid }
)";
  const NothingLeft nothing;
  World here(built_plugins(), workflow);
  HostedWorld hosted(workflow, {{"h", {"actor"}}});
  REQUIRE(hosted.refused == "");
  std::size_t seen = 0;
  for (const char* deed :
       {"well",          "throw",          "throw a number", "fail",   "fail oddly",
        "fail silently", "fail at length", "field",          "type",   "unknown type",
        "good grid",     "dtype",          "shape",          "rank",   "negative",
        "overflow",      "data size",      "no rows",        "huge",   "no data",
        "not text",      "long",           "three",          "handle", "no value",
        "no name",       "many fields",    "read",           "retire", "stale",
        "tensor"}) {
    INFO(deed);
    const CallRequest request{.inputs = {{"text", make_text(deed)}}};
    const Answer a = here.call(request);
    const Answer b = hosted.call(request);
    CHECK(a.error() == b.error());
    CHECK(a.outcome.error.code == b.outcome.error.code);
    CHECK(a.outputs == b.outputs);
    seen += a.outputs.size();
  }
  CHECK(seen > 5);
}

TEST_CASE("a stepped role in a host counts as it does in this process") {
  const NothingLeft nothing;
  World here(built_plugins(), counting);
  HostedWorld hosted(counting, {{"h", {"crowd"}}});
  REQUIRE(hosted.refused == "");
  for (const auto& [upto, note] : std::vector<std::pair<int, std::string>>{
           {7, "a"}, {0, "b"}, {-1, "c"}, {5, "throw"}, {12, "d"}}) {
    INFO(upto << " " << note);
    const CallRequest request{.inputs = {{"upto", make_number(upto)}, {"note", make_text(note)}}};
    const Answer a = here.call(request);
    const Answer b = hosted.call(request);
    CHECK(a.error() == b.error());
    CHECK(a.outputs == b.outputs);
  }
}

TEST_CASE("many calls at once through a host come back whole, each its own") {
  const NothingLeft nothing;
  HostedWorld world(three_roles("mortal_stepped"), shaky_and_calm);
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < 32; ++i)
    all.push_back(world.begin(i % 2 == 0 ? "one" : "two",
                              std::string(static_cast<std::size_t>(i) * 40'000, 'a'),
                              "s" + std::to_string(i)));
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i].get().size() == i * 40'000);
}

TEST_CASE("a host that does not keep to the protocol is ended, and the program goes on") {
  const Death lie = GENERATE(from_range(lies()));
  INFO(lie.deed);
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.command = {SLUICE_LYING_HOST, lie.deed};
  if (lie.deed == "mute") options.greets_within = 100ms;
  HostedWorld world(three_roles("mortal"), {{"liar", {"one"}}}, options);
  if (world.refused.empty()) {
    CHECK_THAT(world.say("one", "hello"), Contains("role 'one': host 'liar' " + lie.words));
    CHECK(world.say("two", "hello") == "hello");
  } else {
    CHECK_THAT(world.refused, Contains(lie.words));
    CHECK_THAT(world.refused, Contains("role 'one': "));
  }
}

TEST_CASE("a stepped role that speaks of what has ended for everybody is not listened to") {
  const NothingLeft nothing;
  hosts::HostOptions options = HostedWorld::host_options();
  options.command = {SLUICE_LYING_HOST, "steps, late words"};
  HostedWorld world(three_roles("mortal"), {{"late", {"one"}}}, options);
  const Answer answer = world.call({.inputs = {{"one", make_text("hello")}}});
  CHECK(answer.error() == "ok");
  CHECK(answer.outputs == std::vector<std::string>{"said"});
  CHECK(answer.outcome.warnings.empty());
}
