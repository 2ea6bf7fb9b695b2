// A workflow of three roles in a row, its roles, and one that a test holds on to.
#pragma once

#include <atomic>
#include <string>
#include <utility>

#include "world.h"

namespace sluice {

/// Three roles in a row, a stream, and a join of two of its ways.
inline constexpr const char* chain_yaml = R"(
sluice: 1
workflow: chain
inputs: { x: text }
roles: { first: { plugin: scripted }, second: { plugin: scripted }, third: { plugin: scripted } }
nodes:
  a: { run: first.a, inputs: [ { x: inputs.x } ], outputs: [v] }
  b: { run: second.b, inputs: [ { x: a.v } ], outputs: [v] }
  c: { run: third.c, inputs: [ { x: a.v, y: b.v } ], outputs: [v] }
outputs: { out: c.v }
)";

/// `a` streams three frames, `b` marks them, `c` joins what came of each.
inline Result<void> chain_role(Activation& activation, std::uint32_t) {
  const std::string x = activation.input("x") != nullptr ? activation.input("x")->text : "";
  if (activation.node() == "a")
    for (int i = 0; i < 3; ++i) activation.yield("v", make_text(x + std::to_string(i)));
  if (activation.node() == "b") {
    activation.warn("marks");
    activation.yield("v", make_text("b" + x));
  }
  if (activation.node() == "c")
    activation.yield("v", make_text(std::string(activation.session()) + ":" + x + "+" +
                                    activation.input("y")->text));
  return {};
}

/// A role (a chain's, where nothing is said) that holds on once at this node, until it is let go.
struct HeldOnce {
  explicit HeldOnce(std::string at) : node(std::move(at)) {}
  Script role(Script then = chain_role) {
    return [this, then = std::move(then)](Activation& activation, std::uint32_t replica) {
      if (activation.node() == node && first.exchange(false)) {
        reached.open();
        let_go.wait();
      }
      return then(activation, replica);
    };
  }
  const std::string node;
  Gate reached, let_go;
  std::atomic<bool> first{true};
};

}  // namespace sluice
