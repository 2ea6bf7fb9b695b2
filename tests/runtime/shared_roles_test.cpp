// Workflows beside each other that import the same roles, and sessions that end.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

/// What a session has said, for whoever shares it.
class Memory final : public GlobalParam {
 public:
  void end_session(std::string_view session) override {
    const std::lock_guard held(mutex);
    said.erase(std::string(session));
    ++ended;
  }
  std::mutex mutex;
  std::map<std::string, std::string> said;
  int ended = 0;
};

/// Says all that its session has said to it.
class Parrot final : public Role {
 public:
  Parrot(Memory& memory, std::function<void()> before)
      : memory_(memory), before_(std::move(before)) {}
  Result<void> run(Activation& activation) override {
    if (before_) before_();
    const std::lock_guard held(memory_.mutex);
    std::string& said = memory_.said[std::string(activation.session())];
    said += activation.input("v")->text;
    activation.yield("v", make_text(said));
    return {};
  }

 private:
  Memory& memory_;
  std::function<void()> before_;
};

/// A folder that goes when the test does.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("sluice_shared_" + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

struct World {
  Catalog catalog;
  int made = 0;
  Memory* memory = nullptr;
  int memories = 0;
  std::function<void()> before;
  std::vector<LoadedWorkflow> loaded;
  std::vector<Plan> plans;
  std::vector<std::unique_ptr<Runner>> runners;

  World() {
    Plugin plugin;
    plugin.declaration.name = "parrot";
    plugin.declaration.any_ports = true;
    plugin.declaration.global_param_kinds = {"memory"};
    plugin.make = [this](const RoleMaking& making) -> Result<RoleInstance> {
      ++made;
      auto* shared = dynamic_cast<Memory*>(making.global_params.at(0));
      return RoleInstance(std::unique_ptr<Role>(std::make_unique<Parrot>(*shared, before)));
    };
    catalog.add(std::move(plugin));
    catalog.add_global_param(
        "memory", [this](const GlobalParamMaking&) -> Result<std::unique_ptr<GlobalParam>> {
          auto one = std::make_unique<Memory>();
          memory = one.get();
          ++memories;
          return std::unique_ptr<GlobalParam>(std::move(one));
        });
  }
  void run(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
      loaded.push_back(load_workflow_file(file).value());
      check(loaded.back().spec, catalog.declarations(), loaded.back().diagnostics);
      plans.push_back(
          compile(loaded.back().spec, catalog.declarations(), loaded.back().diagnostics));
      std::string wrong;
      for (const Diagnostic& d : loaded.back().diagnostics) wrong += d.message + "; ";
      INFO(wrong);
      REQUIRE(!has_errors(loaded.back().diagnostics));
    }
    std::vector<Graph> graphs;
    for (std::size_t i = 0; i < files.size(); ++i) graphs.push_back({&loaded[i].spec, &plans[i]});
    auto together = Runner::create_together(graphs, catalog, {});
    REQUIRE(together.ok());
    runners = std::move(together).value();
  }
  std::string call(std::size_t runner, const std::string& session, const std::string& text) {
    std::string out;
    const CallOutcome outcome =
        runners[runner]->call({session, {{"x", make_text(text)}}},
                              [&](std::string_view, const PayloadRef& v) { out += v->text; });
    // No assertion here: tests call from threads of their own.
    return outcome.ok ? out : "failed: " + outcome.error.message;
  }
};

const std::string library = R"(
sluice: 1
workflow: library
global_params: { said: { kind: memory } }
roles: { parrot: { plugin: parrot, global_params: [said], balance: session } }
)";
const std::string user = R"(
sluice: 1
workflow: user
include: [library.yaml]
inputs: { x: text }
nodes: { n: { run: parrot.say, inputs: [ { v: inputs.x } ], outputs: [v] } }
outputs: { o: n.v }
)";
const std::string loner = R"(
sluice: 1
workflow: loner
inputs: { x: text }
global_params: { said: { kind: memory } }
roles: { parrot: { plugin: parrot, global_params: [said], balance: session } }
nodes: { n: { run: parrot.say, inputs: [ { v: inputs.x } ], outputs: [v] } }
outputs: { o: n.v }
)";

}  // namespace

TEST_CASE("workflows that import a role share its one instance, and its sessions") {
  const Folder folder;
  folder.write("library.yaml", library);
  World world;
  world.run({folder.write("one.yaml", user), folder.write("two.yaml", user),
             folder.write("alone.yaml", loner)});
  CHECK(world.made == 2);  // one for the two, one for the loner
  CHECK(world.memories == 2);
  CHECK(world.call(0, "s", "a") == "a");
  CHECK(world.call(1, "s", "b") == "ab");
  CHECK(world.call(2, "s", "c") == "c");
  CHECK(world.call(1, "t", "d") == "d");
  world.runners[0].reset();  // the other goes on
  CHECK(world.call(1, "s", "e") == "abe");
}

TEST_CASE("calls of workflows that share a role run beside each other") {
  const Folder folder;
  folder.write("library.yaml", library);
  World world;
  world.run({folder.write("one.yaml", user), folder.write("two.yaml", user)});
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) world.call(t % 2, "s" + std::to_string(t), "x");
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < 4; ++t)
    CHECK(world.call(t % 2, "s" + std::to_string(t), "") == std::string(20, 'x'));
}

TEST_CASE("a session ends when nobody calls in it, and its name begins anew") {
  const Folder folder;
  folder.write("library.yaml", library);
  std::mutex mutex;
  std::condition_variable changed;
  bool inside = false;
  bool open = true;
  World world;
  world.before = [&] {
    std::unique_lock held(mutex);
    inside = true;
    changed.notify_all();
    changed.wait(held, [&] { return open; });
  };
  world.run({folder.write("one.yaml", user), folder.write("two.yaml", user)});
  CHECK(world.call(0, "s", "a") == "a");
  CHECK(world.call(0, "t", "b") == "b");
  CHECK(world.runners[0]->end_session("s").ok());
  CHECK(world.call(1, "s", "c") == "c");
  CHECK(world.call(0, "new", "d") == "d");  // takes the ended one's place
  CHECK(world.call(0, "t", "e") == "be");
  CHECK(world.call(0, "s", "f") == "cf");
  CHECK(world.runners[0]->end_session("never heard of").ok());

  inside = false;
  open = false;
  std::thread caller([&] { world.call(1, "t", "g"); });
  {
    std::unique_lock held(mutex);
    changed.wait(held, [&] { return inside; });
  }
  const Result<void> busy = world.runners[0]->end_session("t");
  {
    const std::lock_guard held(mutex);
    open = true;
    changed.notify_all();
  }
  caller.join();
  REQUIRE(!busy.ok());
  CHECK(busy.error().code == ErrorCode::unavailable);
  CHECK(world.call(0, "t", "h") == "begh");
  CHECK(world.runners[1]->end_session("t").ok());
  CHECK(world.call(0, "t", "i") == "i");
}

TEST_CASE("a session stays on one replica, whichever workflow calls") {
  const Folder folder;
  folder.write("library.yaml", R"(
sluice: 1
workflow: library
roles: { teller: { plugin: teller, replicas: 2, balance: session } }
)");
  const std::string calls = R"(
sluice: 1
workflow: user
include: [library.yaml]
inputs: { x: text }
nodes: { n: { run: teller.say, inputs: [ { v: inputs.x } ], outputs: [v] } }
outputs: { o: n.v }
)";
  World world;
  class Teller final : public Role {
   public:
    explicit Teller(std::uint32_t replica) : replica_(replica) {}
    Result<void> run(Activation& activation) override {
      activation.yield("v", make_text(std::to_string(replica_)));
      return {};
    }

   private:
    std::uint32_t replica_;
  };
  Plugin plugin;
  plugin.declaration.name = "teller";
  plugin.declaration.any_ports = true;
  plugin.make = [](const RoleMaking& making) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<Teller>(making.replica)));
  };
  world.catalog.add(std::move(plugin));
  world.run({folder.write("one.yaml", calls), folder.write("two.yaml", calls)});
  // The two workflows meet the sessions in different orders.
  const std::vector<std::string> sessions{"a", "b", "c", "d", "e"};
  for (const std::string& session : sessions) world.call(0, session, "");
  std::set<std::string> replicas;
  for (auto it = sessions.rbegin(); it != sessions.rend(); ++it) {
    const std::string other = world.call(1, *it, "");
    CHECK(other == world.call(0, *it, ""));
    replicas.insert(other);
  }
  CHECK(replicas.size() == 2);
}
