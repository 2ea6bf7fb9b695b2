// A workflow with a role that remembers what its sessions say, for tests of a cluster.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "runtime/runner.h"
#include "world.h"

namespace sluice {

/// `b` says all that its session has said to it.
inline constexpr const char* remembering_yaml = R"(
sluice: 1
workflow: remembering
inputs: { x: text }
global_params: { said: { kind: memory } }
roles:
  first: { plugin: scripted }
  second: { plugin: remembering, global_params: [said] }
  third: { plugin: scripted }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

class Told {
 public:
  Script script() {
    return [this](Activation& activation, std::uint32_t) -> Result<void> {
      std::string text = activation.input("x")->text;
      if (activation.node() == "b") {
        const std::lock_guard lock(mutex_);
        text = said_[std::string(activation.session())] += text;
      }
      activation.yield("v", make_text(text));
      return {};
    };
  }
  void forget(const std::string& session) {
    const std::lock_guard lock(mutex_);
    said_.erase(session);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> said_;
};

}  // namespace sluice
