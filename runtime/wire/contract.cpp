#include "runtime/wire/contract.h"

#include <algorithm>
#include <utility>

namespace sluice::wire {

namespace {

const InterfaceDeclaration* interface_of(const WorkflowSpec& spec, const PlanNode& node,
                                         const Declarations& declarations) {
  if (node.role >= spec.roles.size()) return nullptr;
  const PluginDeclaration* plugin = find_plugin(declarations, spec.roles[node.role].plugin.text);
  return plugin == nullptr ? nullptr : find_interface(*plugin, node.interface);
}

}  // namespace

PortTable ports_of(const WorkflowSpec& spec, const Plan& plan, const Declarations& declarations) {
  PortTable ports(plan.nodes.size());
  for (const PlanNode& node : plan.nodes) {
    if (node.id == entry_node) continue;
    ports[node.id].resize(node.outputs.size());
    const InterfaceDeclaration* interface = interface_of(spec, node, declarations);
    for (std::size_t i = 0; interface != nullptr && i < node.outputs.size(); ++i)
      if (const Port* port = find_port(interface->outputs, node.outputs[i]))
        ports[node.id][i].push_back(*port);
  }
  // A call's input fits the workflow's declaration, and what each of its readers declares.
  for (std::size_t i = 0; i < plan.inputs.size(); ++i)
    ports[entry_node].push_back({Port{plan.inputs[i], plan.input_types[i], ""}});
  for (const EdgeId id : plan.nodes[entry_node].edges) {
    const Edge& edge = plan.edges[id];
    if (edge.is_output()) continue;
    const PlanNode& node = plan.nodes[edge.to];
    const InterfaceDeclaration* interface = interface_of(spec, node, declarations);
    for (const FieldMap& map : edge.fields) {
      const Port* port = interface == nullptr
                             ? nullptr
                             : find_port(interface->inputs, node.groups[edge.group].fields[map.to]);
      if (port == nullptr) continue;
      ports[entry_node][map.from].push_back(*port);
      ports[entry_node][map.from].back().name = plan.inputs[map.from];
    }
  }
  return ports;
}

Contract::Contract(const Plan& plan, Placement placement, PortTable ports)
    : plan_(plan),
      placement_(std::move(placement)),
      ports_(std::move(ports)),
      holders_(plan.collectors.size()),
      entry_holds_(plan.collectors.size()) {
  for (const PlanNode& node : plan.nodes)
    for (const Flow& flow : node.flows) {
      if (node.id == entry_node)
        entry_holds_[flow.collector] = true;
      else
        holders_[flow.collector].push_back(node.id);
    }
  // What waits in a scope is settled by whoever collects it, when nothing comes of it.
  for (const Collector& collector : plan.collectors)
    for (const CollectorId outer : collector.outer) holders_[outer].push_back(collector.owner);
  // Nodes that are always on one machine are asked for it once.
  const NodeMachines& where = placement_.nodes;
  const auto key = [&](NodeId node) {
    const bool moves = where.replicas.has(node);
    return std::pair(moves ? node : 0U, moves ? 0U : where.of[node]);
  };
  for (std::vector<NodeId>& nodes : holders_) {
    std::ranges::sort(nodes, {}, key);
    const auto alike = [&](NodeId a, NodeId b) { return key(a) == key(b); };
    nodes.erase(std::unique(nodes.begin(), nodes.end(), alike), nodes.end());
  }
}

bool Contract::may_hold(CollectorId collector, Origin holder, const CallId& call) const {
  const auto is_there = [&](NodeId node) { return lives(node, holder.machine, call); };
  return std::ranges::any_of(holders_[collector], is_there) ||
         (entry_holds_[collector] && holder == call.home);
}

bool Contract::may_open(CollectorId collector, Origin opener, const CallId& call,
                        bool refined) const {
  if (refined) return may_hold(collector, opener, call);
  const NodeId root = plan_.collectors[collector].root;
  return root == entry_node ? opener == call.home : lives(root, opener.machine, call);
}

std::string_view Contract::head_problem(const Message& message, Origin from,
                                        std::uint32_t self) const {
  const CallId& call = message.call;
  if (call.home.machine >= placement_.homes.size() || !placement_.homes[call.home.machine])
    return "a call of a machine on which none begin";
  if (message.to == entry_node ? call.home.machine != self : !lives(message.to, self, call))
    return "a message for a place that is not here";
  switch (message.kind) {
    case Message::Kind::frame: {
      const NodeId producer = plan_.edges[message.target].from;
      const bool own =
          producer == entry_node ? call.home == from : lives(producer, from.machine, call);
      return own ? "" : "a frame of a node that is not the sender's";
    }
    case Message::Kind::settled:
      return may_hold(message.target, from, call) ? "" : "a share that the sender cannot have";
    case Message::Kind::aborted:
      return lives(message.target, from.machine, call) ? ""
                                                       : "an answer of a node of somebody else";
    case Message::Kind::credit: {
      bool any = false;
      for (const PlanNode& node : plan_.nodes)
        any = any || (node.id != entry_node && lives(node.id, from.machine, call));
      return any ? "" : "credit of a machine that has no nodes";
    }
    case Message::Kind::cancel:
    case Message::Kind::abort:
    case Message::Kind::call_ended:
      break;
  }
  return call.home == from ? "" : "an order that only the call's home gives";
}

std::string_view Contract::notice_problem(const Message& message, Origin from) const {
  if (message.lost.node != entry_node && !lives(message.lost.node, from.machine, message.call))
    return "news of a node that is not the sender's";
  if (!message.failure) return "";
  const Failure& failure = *message.failure;
  if (failure.node == entry_node || !lives(failure.node, from.machine, message.call))
    return "a failure of a node that is not the sender's";
  const bool of_home =
      failure.kind == FailureKind::node_lost ||
      (failure.kind == FailureKind::frame_limit && !plan_.nodes[failure.node].frames_counted);
  return of_home ? "a failure that only the call's home tells" : "";
}

std::optional<std::string> Contract::value_problem(NodeId from, std::size_t output,
                                                   const Payload& value) const {
  if (ports_.empty()) return {};
  for (const Port& port : ports_[from][output])
    if (auto wrong = breach_of(port, value)) return wrong;
  return {};
}

}  // namespace sluice::wire
