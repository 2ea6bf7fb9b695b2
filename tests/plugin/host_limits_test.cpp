// What each host may take, and how hosts are as whoever asks sees them.
#include "hosted_world.h"
#include "runtime/hosts/cores.h"
#include "tests/sanitized.h"

using namespace sluice;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using sluice::testing::sanitized;  // then more is reserved than any limit
using State = hosts::HostSupervision::State;

namespace {

constexpr const char* three_roles = R"(
sluice: 1
workflow: test
calls: overlap
inputs: { one: text, two: text, three: text }
roles: { one: { plugin: mortal }, two: { plugin: mortal }, three: { plugin: mortal } }
nodes:
  n_one: { run: one.act, inputs: [ { text: inputs.one } ] }
  n_two: { run: two.act, inputs: [ { text: inputs.two } ] }
  n_three: { run: three.act, inputs: [ { text: inputs.three } ] }
outputs: { one: n_one.word, two: n_two.word, three: n_three.word }
)";

constexpr std::uint64_t gib = std::uint64_t{1} << 30U;

std::vector<hosts::HostGroup> bound(hosts::HostLimits limits) {
  return {{"bound", {"one", "two"}, std::move(limits)}, {"free", {"three"}}};
}

/// As the role `mortal` says them.
std::string said(const std::vector<std::uint32_t>& cores) {
  std::string text;
  for (const std::uint32_t core : cores) text += " " + std::to_string(core);
  return text;
}

hosts::HostStatus status_of(const HostedWorld& world, const std::string& host) {
  for (const hosts::HostReport& one : world.hosted.report())
    if (one.status.name == host) return one.status;
  return {};
}

}  // namespace

TEST_CASE("cores are written as ranges") {
  using Cores = std::vector<std::uint32_t>;
  CHECK(hosts::cores_text(Cores{}).empty());
  CHECK(hosts::cores_text(Cores{3}) == "3");
  CHECK(hosts::cores_text(Cores{0, 1}) == "0-1");
  CHECK(hosts::cores_text(Cores{0, 2, 3, 4, 9}) == "0,2-4,9");
}

TEST_CASE("a core that the process may not use is named, with those that it may") {
  const std::vector<std::uint32_t> usable = hosts::usable_cores();
  REQUIRE_FALSE(usable.empty());
  CHECK(hosts::check_cores({}).ok());
  CHECK(hosts::check_cores(usable).ok());
  CHECK(hosts::check_cores(std::vector<std::uint32_t>{usable.front(), 1023}).error().message ==
        "core 1023 is none of those that this process may use: " + hosts::cores_text(usable));
}

TEST_CASE("each host takes what its limits say, and the others what all hosts may") {
  const NothingLeft nothing;
  const std::vector<std::uint32_t> usable = hosts::usable_cores();
  hosts::HostOptions options = HostedWorld::host_options();
  hosts::HostLimits limits{.cores = {usable.back()}};
  if (!sanitized) {
    options.memory = 2 * gib;
    limits.memory = gib;
  }
  HostedWorld world(three_roles, bound(limits), options);
  REQUIRE(world.refused == "");
  for (const char* when : {"in its first life", "in the next"}) {
    INFO(when);
    CHECK(world.say("one", "cores") == said({usable.back()}));
    CHECK(world.say("three", "cores") == said(usable));
    CHECK(world.say("two", "memory") == (sanitized ? "any" : std::to_string(gib)));
    CHECK(world.say("three", "memory") == (sanitized ? "any" : std::to_string(2 * gib)));
    CHECK_THAT(world.say("one", "segv"), Contains("SIGSEGV; activations"));
  }
  if (!sanitized)
    CHECK_THAT(world.say("one", "abort"),
               Contains("died by SIGABRT (its `memory` is limited to 1024 MiB of address space); "
                        "activations"));
}

TEST_CASE("a host is ended as soon as its own limit says") {
  const NothingLeft nothing;
  HostedWorld world(three_roles, bound({.hang_after = 50ms}));
  const Folder folder;
  Gate in_it(folder);
  std::future<std::string> lost = world.begin("two", in_it.deed(), "a");
  in_it.meet();
  CHECK_THAT(world.say("one", "loop", "s", 1s), Contains("deadline"));
  CHECK_THAT(lost.get(), Contains("did not return within 50 ms of its cancellation"));
}

TEST_CASE("a host that is bound to a core that is not there is an error of the start") {
  const NothingLeft nothing;
  CHECK(HostedWorld(three_roles, bound({.cores = {1023}})).refused ==
        "role 'one': host 'bound' cannot be started: core 1023 is none of those that this process "
        "may use: " +
            hosts::cores_text(hosts::usable_cores()));
}

TEST_CASE("hosts say which process they are, how often they were started and how they died") {
  const NothingLeft nothing;
  const Folder folder;
  hosts::HostOptions options = HostedWorld::host_options();
  options.rules.deaths_max = 1;
  options.rules.refusal = std::chrono::hours(1);
  HostedWorld world(three_roles, bound({}), options);
  REQUIRE(world.refused == "");
  REQUIRE(world.hosted.report().size() == 2);
  CHECK(world.hosted.report()[0].roles == std::vector<std::string>{"one", "two"});
  const hosts::HostStatus first = status_of(world, "bound");
  CHECK(first.state == State::serves);
  CHECK(std::to_string(first.pid) == world.say("one", "process"));
  CHECK(first.starts == 1);
  CHECK(first.ended.empty());
  CHECK(first.next == 0ms);

  Gate in_it(folder);
  std::future<std::string> lost = world.begin("two", in_it.deed(), "a");
  in_it.meet();
  CHECK(status_of(world, "bound").activations == 1);
  CHECK_THAT(world.say("one", "segv"), Contains("SIGSEGV"));
  CHECK_THAT(lost.get(), Contains("SIGSEGV"));
  CHECK(world.say("one", "hello") == "hello");
  const hosts::HostStatus second = status_of(world, "bound");
  CHECK(second.state == State::serves);
  CHECK(second.pid != first.pid);
  CHECK(second.starts == 2);
  CHECK(second.activations == 0);
  CHECK_THAT(second.ended, Contains("host 'bound' died by SIGSEGV"));

  CHECK_THAT(world.say("one", "abort"), Contains("SIGABRT"));
  const hosts::HostStatus third = status_of(world, "bound");
  CHECK(third.state == State::refused);
  CHECK(third.pid < 0);
  CHECK(third.starts == 2);
  CHECK(third.next > 59min);
  CHECK_THAT(third.ended, Contains("SIGABRT"));
  CHECK(status_of(world, "free").starts == 1);
  world.runner.reset();
  CHECK(world.hosted.report().empty());
}
