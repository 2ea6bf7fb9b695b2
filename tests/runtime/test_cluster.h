// A cluster of nodes in one process, and roles for it.
#pragma once

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "chain_roles.h"
#include "memory_network.h"
#include "remembering.h"
#include "runtime/node/node.h"
#include "world.h"

namespace sluice {

using namespace std::chrono_literals;

struct Wiring {
  std::uint32_t machines = 3;
  Connect connect{};  // empty: links in memory
  std::size_t window = 0;
  RoleMachines spread{};  // not empty: in place of `placed`, for roles on several machines
  std::function<std::unique_ptr<SteppedRole>()> stepped{};  // of the plugin `stepped`
  std::vector<std::uint32_t> homes{0};
  std::uint32_t keeper = 0;
  std::size_t sessions = std::size_t{1} << 20U;  // of each home
  std::function<std::unique_ptr<GlobalParam>()> param{};  // of kind `memory`; empty: `Memory`
  std::function<std::unique_ptr<Role>(const RoleMaking&)> keeping{};  // of the plugin `keeping`
};

/// What roles hold of sessions, elsewhere.
class Memory final : public GlobalParam {
 public:
  explicit Memory(const std::function<void(std::string)>& ends) : ends_(ends) {}
  void end_session(std::string_view session) override {
    if (ends_) ends_(std::string(session));
  }

 private:
  const std::function<void(std::string)>& ends_;
};

/// A cluster of machines 0 (the home and keeper, where nothing else is said), 1, 2 and maybe 3;
/// role i of each workflow runs on machine `placed[i]`.
class TestCluster {
 public:
  TestCluster(std::vector<std::string> yamls, const std::vector<std::uint32_t>& placed,
              Script script, Wiring wiring = {})
      : placed_(std::move(wiring.spread)),
        connect_(std::move(wiring.connect)),
        window_(wiring.window),
        homes_(std::move(wiring.homes)),
        keeper_(wiring.keeper),
        sessions_(wiring.sessions),
        nodes_(wiring.machines) {
    if (placed_.empty())
      for (const std::uint32_t machine : placed) placed_.push_back({machine});
    PluginDeclaration declaration;
    declaration.name = "scripted";
    declaration.any_ports = true;
    catalog_.add_global_param(
        "memory",
        [this,
         make = wiring.param](const GlobalParamMaking&) -> Result<std::unique_ptr<GlobalParam>> {
          if (make) return make();
          return std::unique_ptr<GlobalParam>(std::make_unique<Memory>(session_ends));
        });
    Plugin plugin;
    plugin.declaration = declaration;
    plugin.make = [this, script](const RoleMaking& making) -> Result<RoleInstance> {
      ++made;
      return RoleInstance(
          std::unique_ptr<Role>(std::make_unique<ScriptedRole>(script, making.replica)));
    };
    catalog_.add(plugin);
    Plugin typed = plugin;
    typed.declaration.name = "typed";
    typed.declaration.any_ports = false;
    Port in{"x", ValueType::text, ""};
    in.frames = PortFrames::one;
    typed.declaration.interfaces.push_back({"ask", {in}, {Port{"v", ValueType::text, ""}}, {}});
    catalog_.add(std::move(typed));
    if (wiring.stepped) {
      Plugin stepped{declaration, [make = wiring.stepped](const RoleMaking&) {
                       return Result<RoleInstance>(RoleInstance(make()));
                     }};
      stepped.declaration.name = "stepped";
      catalog_.add(std::move(stepped));
    }
    plugin.declaration.name = "remembering";
    plugin.declaration.global_param_kinds = {"memory"};
    catalog_.add(plugin);
    if (wiring.keeping) {
      plugin.declaration.name = "keeping";
      plugin.make = [make = wiring.keeping](const RoleMaking& making) -> Result<RoleInstance> {
        return RoleInstance(make(making));
      };
      catalog_.add(std::move(plugin));
    }
    for (const std::string& yaml : yamls) {
      LoadedWorkflow& loaded = loaded_.emplace_back(load_workflow("test.yaml", yaml));
      plans_.push_back(plan_workflow(loaded, catalog_.declarations()));
      REQUIRE(!has_errors(loaded.diagnostics));
    }
    for (std::size_t i = 0; i < yamls.size(); ++i)
      graphs_.push_back({&loaded_[i].spec, &plans_[i]});
    for (std::uint32_t machine = 0; machine < nodes_.size(); ++machine) start(machine, 1);
    for (std::uint32_t machine = 0; machine < nodes_.size(); ++machine)
      REQUIRE(nodes_[machine]->wait_for_members(10s).ok());
  }
  ~TestCluster() {
    // The home first, as when a caller is done.
    for (auto& node : nodes_) node.reset();
  }

  void start(std::uint32_t machine, std::uint32_t incarnation) {
    NodeOptions options;
    options.machines = {"front", "gpu", "disk", "arm"};
    options.machines.resize(nodes_.size());
    options.self = machine;
    options.homes = homes_;
    options.keeper = keeper_;
    options.placed.assign(graphs_.size(), placed_);
    options.connect = [this](Origin self) -> Result<std::unique_ptr<Transport>> {
      return connect_ ? connect_(self) : network.join(self);
    };
    options.incarnation = incarnation;
    options.window_bytes = window_;
    options.sessions_max = sessions_;
    options.notice = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      notices_ += line + "\n";
    };
    nodes_[machine].reset();
    auto node = Node::create(graphs_, catalog_, std::move(options));
    REQUIRE(node.ok());
    nodes_[machine] = std::move(*node);
  }
  /// It is gone without a word; the others find out.
  void kill(std::uint32_t machine) {
    network.freeze(machine);
    for (std::uint32_t by = 0; by < nodes_.size(); ++by)
      if (by != machine) network.silence_frozen(machine, by);
  }
  Node& home() { return *nodes_[0]; }
  const Plan& plan() const { return plans_[0]; }
  Node& node(std::uint32_t machine) { return *nodes_[machine]; }
  std::pair<CallOutcome, std::string> call(const std::string& session = "s",
                                           const std::string& text = "x", std::size_t graph = 0) {
    return call_at(0, session, text, graph);
  }
  /// Where a test says nothing: a session is at one home at a time, so each has another.
  static std::string session_of(std::uint32_t home) { return home == 3 ? "t" : "s"; }
  std::pair<CallOutcome, std::string> call_at(std::uint32_t machine, std::string session = "",
                                              const std::string& text = "x",
                                              std::size_t graph = 0) {
    if (session.empty()) session = session_of(machine);
    std::string came;
    CallOutcome outcome = node(machine).runner(graph).call(
        {session, {{"x", make_text(text)}}, 20s},
        [&](std::string_view, const PayloadRef& value) { came += value->text + " "; });
    return {std::move(outcome), came};
  }
  std::string notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }
  bool noticed(const std::string& words) {
    const std::lock_guard lock(mutex_);
    return notices_.find(words) != std::string::npos;
  }

  MemoryNetwork network;
  std::atomic<int> made{0};
  std::function<void(std::string)> session_ends;  // set before the first call

 private:
  RoleMachines placed_;
  Connect connect_;
  std::size_t window_;
  std::vector<std::uint32_t> homes_;
  std::uint32_t keeper_;
  std::size_t sessions_;
  Catalog catalog_;
  std::deque<LoadedWorkflow> loaded_;
  std::deque<Plan> plans_;
  std::vector<Graph> graphs_;
  std::mutex mutex_;
  std::string notices_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Polls until it is so, for at most ten seconds.
template <typename Condition>
bool eventually(Condition is_so) {
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace sluice
