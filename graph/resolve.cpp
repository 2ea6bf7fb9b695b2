// Names to tables: nodes, groups, edges and outputs.
#include <algorithm>
#include <set>

#include "graph/compile.h"
#include "graph/fields_read.h"

namespace sluice::compiling {

namespace {

constexpr std::string_view inputs_name = "inputs";

std::vector<std::string> outputs_of(const NodeSpec& node, const RoleSpec* role,
                                    const Declarations& declarations,
                                    const FieldsByNode& referred) {
  std::vector<std::string> names;
  const PluginDeclaration* plugin =
      role != nullptr ? find_plugin(declarations, role->plugin.text) : nullptr;
  const InterfaceDeclaration* interface =
      plugin != nullptr ? find_interface(*plugin, node.interface.text) : nullptr;
  if (interface != nullptr) {
    for (const Port& port : interface->outputs) names.push_back(port.name);
  } else if (!node.outputs.empty() && node.refused_outputs.empty()) {
    for (const Name& name : node.outputs) names.push_back(name.text);
  } else if (const auto it = referred.find(node.name.text); it != referred.end()) {
    names.assign(it->second.begin(), it->second.end());
  }
  return names;
}

const InterfaceDeclaration* interface_of(const NodeSpec& spec, const RoleSpec* role,
                                         const Declarations& declarations) {
  const PluginDeclaration* plugin =
      role != nullptr ? find_plugin(declarations, role->plugin.text) : nullptr;
  return plugin != nullptr ? find_interface(*plugin, spec.interface.text) : nullptr;
}

/// What its frames may hold.
void declare_frames(const InterfaceDeclaration& interface, PlanNode& node) {
  const auto bit = [](std::size_t output) {
    return output < outputs_per_node_max ? std::uint64_t{1} << output : 0;
  };
  for (const std::vector<std::string>& names : interface.frames) {
    std::uint64_t& frame = node.frames.emplace_back(0);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (std::ranges::find(names, node.outputs[i]) != names.end()) frame |= bit(i);
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const Port* port = find_port(interface.outputs, node.outputs[i]);
    if (port != nullptr && port->count_source) node.once |= bit(i);
  }
}

/// A number is eight bytes; of others the declaration knows.
std::vector<std::uint64_t> bytes_of(const InterfaceDeclaration* interface,
                                    const std::vector<std::string>& outputs) {
  std::vector<std::uint64_t> bytes;
  for (const std::string& name : outputs) {
    const Port* port = interface != nullptr ? find_port(interface->outputs, name) : nullptr;
    const bool number = port != nullptr && port->type == ValueType::number;
    bytes.push_back(number ? sizeof(std::int64_t) : port != nullptr ? port->bytes_max : 0);
  }
  return bytes;
}

template <typename T>
std::uint16_t index_of(const std::vector<T>& items, const T& wanted) {
  const auto it = std::ranges::find(items, wanted);
  return it == items.end() ? none : static_cast<std::uint16_t>(it - items.begin());
}

class Resolver {
 public:
  Resolver(const WorkflowSpec& spec, Plan& plan) : spec_(spec), plan_(plan) {}

  void add_nodes(const Declarations& declarations) {
    PlanNode entry;
    entry.name = inputs_name;
    entry.role = none;
    for (const InputSpec& input : spec_.inputs) {
      entry.outputs.push_back(input.name.text);
      plan_.inputs.push_back(input.name.text);
      plan_.input_types.push_back(input.type);
    }
    plan_.nodes.push_back(std::move(entry));
    const FieldsByNode referred = fields_read(spec_);
    for (const NodeSpec& spec : spec_.nodes) {
      PlanNode node;
      node.id = static_cast<NodeId>(plan_.nodes.size());
      node.name = spec.name.text;
      node.mark = spec.name.mark;
      node.interface = spec.interface.text;
      node.run = spec.role.text + "." + spec.interface.text;
      node.skip_errors = spec.on_error == OnError::skip;
      node.deadline = spec.deadline;
      node.max_age = spec.max_age;
      if (spec.on_full == OnFull::drop_oldest)
        node.queue_max = static_cast<std::uint32_t>(spec.queue == 0 ? 1 : spec.queue);
      const auto role = std::ranges::find_if(
          spec_.roles, [&](const RoleSpec& r) { return r.name.text == spec.role.text; });
      const RoleSpec* found = role == spec_.roles.end() ? nullptr : &*role;
      node.role = found == nullptr ? none : static_cast<std::uint16_t>(role - spec_.roles.begin());
      node.executor = executor_of(node.role);
      if (found != nullptr) {
        node.replicas = found->replicas;
        node.balance = found->balance;
      }
      node.outputs = outputs_of(spec, found, declarations, referred);
      const InterfaceDeclaration* interface = interface_of(spec, found, declarations);
      node.yields_max = interface != nullptr ? interface->yields_max : 0;
      node.output_bytes_max = bytes_of(interface, node.outputs);
      if (interface != nullptr) declare_frames(*interface, node);
      interfaces_.push_back(interface);
      plan_.nodes.push_back(std::move(node));
    }
  }

  void add_groups() {
    for (std::size_t i = 0; i < spec_.nodes.size(); ++i) {
      PlanNode& node = plan_.nodes[i + 1];
      for (const GroupSpec& spec : spec_.nodes[i].groups) {
        const auto group = static_cast<std::uint16_t>(node.groups.size());
        node.groups.emplace_back();
        for (const FieldSpec& field : spec.fields) {
          const auto to = static_cast<std::uint16_t>(node.groups[group].fields.size());
          node.groups[group].fields.push_back(field.field.text);
          note_frames(interfaces_[i], field.field.text, to, node.groups[group]);
          for (const FieldRef& source : field.sources) connect(source, node.id, group, to);
        }
        if (!spec_.nodes[i].counts.empty() && group == 0) add_counts(spec_.nodes[i], node);
        finish_group(node.groups[group]);
      }
    }
  }

  void add_outputs() {
    for (const OutputSpec& spec : spec_.outputs) {
      const auto index = static_cast<std::uint16_t>(plan_.outputs.size());
      plan_.outputs.push_back({spec.name.text, {}, none});
      for (const FieldRef& source : spec.sources) connect(source, entry_node, index, 0);
    }
  }

 private:
  static void note_frames(const InterfaceDeclaration* interface, const std::string& field,
                          std::uint16_t index, PlanGroup& group) {
    const Port* port = interface != nullptr ? find_port(interface->inputs, field) : nullptr;
    if (port == nullptr || port->frames == PortFrames::any) return;
    group.single |= std::uint64_t{1} << index;
    if (port->frames == PortFrames::one) group.needed |= std::uint64_t{1} << index;
  }

  /// Follows `colocate` to the role that has an executor of its own.
  std::uint16_t executor_of(std::uint16_t role) const {
    for (std::size_t steps = 0; role != none && steps < spec_.roles.size(); ++steps) {
      if (!spec_.roles[role].colocate) break;
      const auto next = std::ranges::find_if(spec_.roles, [&](const RoleSpec& r) {
        return r.name.text == spec_.roles[role].colocate->text;
      });
      if (next == spec_.roles.end()) break;
      role = static_cast<std::uint16_t>(next - spec_.roles.begin());
    }
    return role;
  }

  /// The edge from the source's node to that group or output, made when it is the first.
  Edge* connect(const FieldRef& source, NodeId to, std::uint16_t group, std::uint16_t field) {
    const PlanNode* from = plan_.find(source.node);
    if (from == nullptr) return nullptr;
    const std::uint16_t output = index_of(from->outputs, source.field);
    if (output == none) return nullptr;
    std::vector<EdgeId>& incoming =
        to == entry_node ? plan_.outputs[group].edges : plan_.nodes[to].groups[group].edges;
    auto it =
        std::ranges::find_if(incoming, [&](EdgeId id) { return plan_.edges[id].from == from->id; });
    if (it == incoming.end()) {
      Edge edge;
      edge.id = static_cast<EdgeId>(plan_.edges.size());
      edge.from = from->id;
      edge.to = to;
      edge.group = group;
      edge.mark = source.mark;
      edge.direct = false;
      incoming.push_back(edge.id);
      plan_.nodes[from->id].edges.push_back(edge.id);
      plan_.edges.push_back(std::move(edge));
      it = incoming.end() - 1;
    }
    Edge& edge = plan_.edges[*it];
    edge.mask |= std::uint64_t{1} << output;
    plan_.nodes[from->id].read |= std::uint64_t{1} << output;
    if (field == none) return &edge;
    for (FieldMap& map : edge.fields)
      if (map.from == output) map.last = false;
    edge.fields.push_back({output, field});
    return &edge;
  }

  void add_counts(const NodeSpec& spec, PlanNode& node) {
    PlanGroup& group = node.groups[0];
    for (const CountSpec& count : spec.counts) {
      PlanCount made;
      made.field = index_of(group.fields, count.field.text);
      if (made.field == none) continue;
      if (const auto* literal = std::get_if<std::int64_t>(&count.frames)) {
        made.literal = *literal;
      } else if (const auto* ref = std::get_if<FieldRef>(&count.frames)) {
        made.kind = PlanCount::Kind::runtime;
        const Edge* edge = connect(*ref, node.id, 0, none);
        if (edge == nullptr) continue;
        made.source = edge->id;
        made.source_field = index_of(plan_.nodes[edge->from].outputs, ref->field);
      } else {
        made.kind = PlanCount::Kind::all;
      }
      group.counts.push_back(made);
    }
    // Every field of such a group is counted, so a field's count has the field's index.
    std::ranges::sort(group.counts, {}, &PlanCount::field);
  }

  void finish_group(PlanGroup& group) {
    const bool direct = group.edges.size() == 1 && group.counts.empty();
    group.critical.assign(group.fields.size(), none);
    std::vector<int> sources(group.fields.size());
    for (const EdgeId id : group.edges) {
      Edge& edge = plan_.edges[id];
      edge.direct = direct;
      edge.field_masks.assign(direct ? group.fields.size() : 0, 0);
      std::set<std::uint16_t> brings;
      for (const FieldMap& map : edge.fields) {
        if (direct) edge.field_masks[map.to] |= std::uint64_t{1} << map.from;
        brings.insert(map.to);
      }
      for (const std::uint16_t field : brings)
        group.critical[field] = ++sources[field] == 1 ? id : none;
    }
  }

  const WorkflowSpec& spec_;
  Plan& plan_;
  std::vector<const InterfaceDeclaration*> interfaces_;  // of the spec's nodes; null: any ports
};

}  // namespace

Doubts doubts_of(const WorkflowSpec& spec, const Plan& plan) {
  const auto leads = [&](const FieldRef& ref) {
    const PlanNode* from = plan.find(ref.node);
    return from != nullptr && index_of(from->outputs, ref.field) != none;
  };
  const auto whole = [&](const std::vector<FieldRef>& sources) {
    return !sources.empty() && std::ranges::all_of(sources, leads);
  };
  Doubts doubts{std::vector<bool>(plan.nodes.size()), false};
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    const NodeSpec& node = spec.nodes[i];
    bool good = !node.groups.empty();
    for (const GroupSpec& group : node.groups)
      for (const FieldSpec& field : group.fields) good = good && whole(field.sources);
    for (const CountSpec& count : node.counts)
      if (const auto* ref = std::get_if<FieldRef>(&count.frames)) good = good && leads(*ref);
    doubts.nodes[i + 1] = !good;
    doubts.any = doubts.any || !good;
  }
  doubts.any = doubts.any || spec.unread.outputs;
  for (const OutputSpec& output : spec.outputs) doubts.any = doubts.any || !whole(output.sources);
  return doubts;
}

bool resolve(const WorkflowSpec& spec, const Declarations& declarations, Plan& plan,
             Diagnostics& diagnostics) {
  plan.workflow = spec.name.text;
  plan.limits = spec.limits;
  plan.calls = spec.calls;
  plan.cancel_on_error = spec.cancel_on_error;
  Resolver resolver(spec, plan);
  resolver.add_nodes(declarations);
  if (!fields_fit(spec, plan, diagnostics)) return false;
  resolver.add_groups();
  resolver.add_outputs();
  return true;
}

}  // namespace sluice::compiling
