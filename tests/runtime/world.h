// A workflow with roles that a test writes as functions, and what makes tests deterministic.
#pragma once

#include <catch2/catch.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "graph/check.h"
#include "runtime/runner.h"
#include "workflows/load.h"

namespace sluice {

/// Opens once; whoever waits goes on then.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }
  bool is_open() {
    const std::lock_guard lock(mutex_);
    return open_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

using Script = std::function<Result<void>(Activation&, std::uint32_t replica)>;

class ScriptedRole final : public Role {
 public:
  ScriptedRole(Script script, std::uint32_t replica)
      : script_(std::move(script)), replica_(replica) {}
  Result<void> run(Activation& activation) override { return script_(activation, replica_); }

 private:
  Script script_;
  std::uint32_t replica_;
};

/// Admits, and at each step asks the script about each: true when it has ended.
class SteppedScript final : public SteppedRole {
 public:
  using Step = std::function<bool(Activation&)>;
  /// `deaf`: does not look whether its activations are cancelled.
  SteppedScript(Step admitted, Step step, bool deaf = false)
      : admitted_(std::move(admitted)), step_(std::move(step)), deaf_(deaf) {}
  void admit(Activation& activation) override {
    active_.push_back(&activation);
    if (admitted_) admitted_(activation);
  }
  bool busy() const override { return !active_.empty(); }
  void step(std::vector<StepOutcome>& ended) override {
    for (std::size_t i = 0; i < active_.size();) {
      Activation* const one = active_[i];
      if (!deaf_ && one->cancelled()) {
        ended.push_back({one, Error{ErrorCode::cancelled, "stopped"}});
      } else if (step_(*one)) {
        ended.push_back({one, {}});
      } else {
        ++i;
        continue;
      }
      active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

 private:
  Step admitted_, step_;
  bool deaf_;
  std::vector<Activation*> active_;
};

/// Waits for a call that was started. What the call tells outlives this where a test ends early.
class Waiting {
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    std::string text;
    CallOutcome outcome;
    int ends = 0;
  };
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();

 public:
  CallObserver observer() {
    return {[told = told_](std::string_view, const PayloadRef& value) {
              const std::lock_guard lock(told->mutex);
              told->text += value->text + " ";
            },
            [told = told_](CallOutcome ended) {
              const std::lock_guard lock(told->mutex);
              told->outcome = std::move(ended);
              ++told->ends;
              told->changed.notify_all();
            }};
  }
  CallOutcome& wait() {
    std::unique_lock lock(told_->mutex);
    told_->changed.wait(lock, [this] { return told_->ends > 0; });
    return outcome;
  }
  bool ended() {
    const std::lock_guard lock(told_->mutex);
    return told_->ends > 0;
  }
  std::string& text = told_->text;
  CallOutcome& outcome = told_->outcome;
  int& ends = told_->ends;
};

struct TestWorld {
  Catalog catalog;
  LoadedWorkflow loaded;
  std::unique_ptr<Runner> runner;

  void add(PluginDeclaration declaration, Script script) {
    Plugin plugin;
    plugin.declaration = std::move(declaration);
    plugin.make = [script](const RoleMaking& making) -> Result<RoleInstance> {
      return RoleInstance(
          std::unique_ptr<Role>(std::make_unique<ScriptedRole>(script, making.replica)));
    };
    catalog.add(std::move(plugin));
  }
  void add_scripted(Script script) {
    PluginDeclaration declaration;
    declaration.name = "scripted";
    declaration.any_ports = true;
    add(std::move(declaration), std::move(script));
  }
  void add_stepped(std::string name,
                   std::function<std::unique_ptr<SteppedRole>(const RoleMaking&)> make) {
    Plugin plugin;
    plugin.declaration.name = std::move(name);
    plugin.declaration.any_ports = true;
    plugin.make = [make](const RoleMaking& making) -> Result<RoleInstance> {
      return RoleInstance(make(making));
    };
    catalog.add(std::move(plugin));
  }
  void run(const std::string& yaml, RunnerOptions options = {}) {
    loaded = load_workflow("test.yaml", yaml);
    check(loaded.spec, catalog.declarations(), loaded.diagnostics);
    Plan plan;
    if (!has_errors(loaded.diagnostics))
      plan = compile(loaded.spec, catalog.declarations(), loaded.diagnostics);
    std::string wrong;
    for (const Diagnostic& d : loaded.diagnostics) wrong += d.message + "; ";
    INFO(wrong);
    REQUIRE(!has_errors(loaded.diagnostics));
    runner = std::move(Runner::create(loaded.spec, plan, catalog, std::move(options))).value();
  }
  std::pair<CallOutcome, std::string> call(const std::string& session = "s",
                                           const std::string& text = "x") {
    std::string came;
    CallOutcome outcome =
        runner->call({session, {{"x", make_text(text)}}},
                     [&](std::string_view, const PayloadRef& value) { came += value->text + " "; });
    return {std::move(outcome), came};
  }
  /// Until nothing of any call is left: roles that were given up have returned.
  void until_idle() {
    while (runner->counts().activations != 0 || runner->counts().calls != 0)
      std::this_thread::yield();
  }
};

inline std::string one_node(const std::string& more = "") {
  return R"(
sluice: 1
workflow: test
inputs: { x: text }
roles: { any: { plugin: scripted } }
nodes:
  work: { run: any.work, inputs: [ { x: inputs.x } ], outputs: [v] }
outputs: { out: work.v }
)" + more;
}

}  // namespace sluice
