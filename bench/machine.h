// A machine of a small cluster whose processes are all of this computer, linked over ipc.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/check.h"
#include "runtime/node/node.h"
#include "runtime/zmq/zmq_transport.h"
#include "workflows/load.h"

namespace sluice::bench {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

/// Any ports; each replica is an `R` of its own.
template <typename R>
Plugin plugin_of(const std::string& name) {
  Plugin plugin;
  plugin.declaration.name = name;
  plugin.declaration.any_ports = true;
  plugin.make = [](const RoleMaking&) -> Result<RoleInstance> {
    return RoleInstance(std::unique_ptr<Role>(std::make_unique<R>()));
  };
  return plugin;
}

class Machine {
 public:
  /// Machine `self` of as many as `placed` names, which says where each role of the workflow is;
  /// machine 0 is the home. Waits for the others; a failure ends the program.
  Machine(const std::string& folder, std::uint32_t self, Plugin plugin, const char* workflow,
          RoleMachines placed, std::uint32_t machines) {
    catalog_.add(std::move(plugin));
    loaded_ = load_workflow("bench.yaml", workflow);
    check(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    plan_ = compile(loaded_.spec, catalog_.declarations(), loaded_.diagnostics);
    for (const Diagnostic& d : loaded_.diagnostics) std::puts(d.message.c_str());
    NodeOptions options;
    for (std::uint32_t i = 0; i < machines; ++i) options.machines.push_back(std::to_string(i));
    options.self = self;
    options.placed = {std::move(placed)};
    options.connect = [folder, machines](Origin life) {
      const auto address = [&](std::uint32_t machine) {
        return "ipc://" + folder + "/" + std::to_string(machine);
      };
      ZmqOptions zmq;
      zmq.self = life;
      zmq.bind = address(life.machine);
      for (std::uint32_t i = 0; i < machines; ++i)
        if (i != life.machine) zmq.peers.push_back({i, address(i), ""});
      zmq.cluster = "bench";
      return make_zmq_transport(std::move(zmq));
    };
    const std::vector<Graph> graphs{{&loaded_.spec, &plan_}};
    auto node = Node::create(graphs, catalog_, std::move(options));
    if (!node.ok()) fail(node.error().message);
    node_ = std::move(node).value();
    if (const auto there = node_->wait_for_members(std::chrono::seconds(20)); !there.ok())
      fail(there.error().message);
  }
  Node& node() { return *node_; }
  const Node& node() const { return *node_; }

 private:
  Catalog catalog_;
  LoadedWorkflow loaded_;
  Plan plan_;
  std::unique_ptr<Node> node_;
};

}  // namespace sluice::bench
