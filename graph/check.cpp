#include "graph/check.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/nearest.h"
#include "graph/check_frames.h"
#include "graph/check_meant.h"
#include "graph/check_reach.h"
#include "graph/plan.h"
#include "graph/refused_outputs.h"

namespace sluice {

namespace {

class Checker {
 public:
  Checker(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics)
      : spec_(spec),
        declarations_(declarations),
        diagnostics_(diagnostics),
        refused_(read_as_refused(spec)) {}

  void run() {
    check_kinds();
    for (const RoleSpec& role : spec_.roles) check_role(role);
    for (const NodeSpec& node : spec_.nodes) {
      nodes_.emplace(node.name.text, &node);
      resolve_interface(node);
    }
    for (const NodeSpec& node : spec_.nodes) check_node(node);
    check_outputs();
    check_reach(spec_, diagnostics_);
    // With a name wrong, what looks unused is most likely what was meant.
    if (has_errors(diagnostics_)) return;
    check_unused();
    check_meant(spec_, diagnostics_);
  }

 private:
  using Seen = std::set<std::pair<std::string, std::string>>;  // node and field
  void add(Severity severity, Mark mark, std::string code, std::string message,
           std::string suggestion = "") {
    report(diagnostics_,
           {severity, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  void error(Mark mark, std::string code, std::string message, std::string suggestion = "") {
    add(Severity::error, mark, std::move(code), std::move(message), std::move(suggestion));
  }
  void warn(Mark mark, std::string code, std::string message, std::string suggestion = "") {
    add(Severity::warning, mark, std::move(code), std::move(message), std::move(suggestion));
  }
  std::string meant(const std::string& name, const std::vector<std::string_view>& known,
                    const std::string& what) const {
    constexpr std::size_t listed_max = 12;
    if (is_full(diagnostics_)) return "";
    const std::string near = nearest_name(name, known);
    if (!near.empty()) return "did you mean '" + near + "'?";
    std::vector<std::string_view> names;  // each once, where the file has one twice
    for (const std::string_view one : known)
      if (std::ranges::find(names, one) == names.end()) names.push_back(one);
    std::string list;
    for (std::size_t i = 0; i < std::min(names.size(), listed_max); ++i)
      list += (list.empty() ? "" : ", ") + std::string(names[i]);
    if (names.size() > listed_max)
      list += " and " + std::to_string(names.size() - listed_max) + " more";
    return list.empty() ? "there is no " + what : what + "s: " + list;
  }
  template <typename T>
  static std::vector<std::string_view> names_of(const std::vector<T>& items) {
    std::vector<std::string_view> names;
    for (const T& item : items) {
      if constexpr (requires { item.name.text; })
        names.push_back(item.name.text);
      else
        names.push_back(item.name);
    }
    return names;
  }
  const RoleSpec* find_role(const std::string& name) const {
    const auto it =
        std::ranges::find_if(spec_.roles, [&](const RoleSpec& r) { return r.name.text == name; });
    return it == spec_.roles.end() ? nullptr : &*it;
  }

  void check_role(const RoleSpec& role) {
    const PluginDeclaration* plugin = find_plugin(declarations_, role.plugin.text);
    if (plugin == nullptr) {
      if (!role.plugin.text.empty())
        error(role.plugin.mark, "unknown-plugin",
              "role '" + role.name.text + "' wants the plugin " + in_quotes(role.plugin.text) +
                  ", which is not there",
              meant(role.plugin.text, names_of(declarations_), "plugin") +
                  (nearest_name(role.plugin.text, names_of(declarations_)).empty()
                       ? "; one of your own is found with --plugins DIR"
                       : ""));
    } else {
      if (plugin->needs_model && !role.model)
        error(role.name.mark, "missing-model",
              "role '" + role.name.text + "' runs '" + plugin->name + "', which needs a model",
              "model: the directory of the checkpoint");
      if (!plugin->needs_model && !plugin->any_ports && role.model)
        warn(role.name.mark, "idle-model",
             "role '" + role.name.text + "' names a model, and '" + plugin->name + "' uses none",
             "remove `model`, or give the role another plugin");
      if (plugin->session_state && role.balance != Balance::session)
        error(role.name.mark, "needs-session-balance",
              "role '" + role.name.text + "' keeps state between the calls of a session",
              "balance: session");
      if (plugin->session_state && role.idempotent)
        error(role.idempotent_mark, "idempotent-with-state",
              "role '" + role.name.text +
                  "' keeps state between the calls of a session, which is lost with the process "
                  "that died: what is tried again would not know it",
              "remove `idempotent`: such a call ends with its error");
    }
    check_params(role, plugin);
    if (plugin != nullptr && !plugin->any_ports) check_options(role, *plugin);
    check_colocate(role);
    if (role.balance == Balance::broadcast && role.replicas == 1)
      warn(role.name.mark, "broadcast-to-one",
           "role '" + role.name.text + "' is told to run on each replica, and has one",
           "replicas: 2, or more; or remove `balance`");
  }

  void check_options(const RoleSpec& role, const PluginDeclaration& plugin) {
    for (const OptionSpec& option : role.options) {
      const auto known =
          std::ranges::find(plugin.options, option.key.text, &OptionDeclaration::name);
      if (known == plugin.options.end()) {
        error(option.key.mark, "unknown-option",
              "'" + plugin.name + "' has no option " + in_quotes(option.key.text),
              plugin.options.empty() ? "it takes no options: remove this"
                                     : meant(option.key.text, names_of(plugin.options), "option"));
        continue;
      }
      const std::string problem = option_problem(*known, option.value.text);
      if (!problem.empty()) error(option.value.mark, "bad-option", problem);
    }
    const auto given = [&](const std::string& name) {
      return std::ranges::any_of(role.options,
                                 [&](const OptionSpec& o) { return o.key.text == name; });
    };
    for (const OptionDeclaration& option : plugin.options)
      if (option.required && !given(option.name))
        error(role.name.mark, "missing-option",
              "role '" + role.name.text + "' runs '" + plugin.name + "', which needs the option '" +
                  option.name + "'",
              "options: { " + option.name + ": " + option_range(option) + " }");
  }

  /// The kinds of global parameters that any plugin asks for; without any, all may be.
  void check_kinds() {
    std::vector<std::string_view> kinds;
    for (const PluginDeclaration& plugin : declarations_)
      for (const std::string& kind : plugin.global_param_kinds)
        if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
    if (kinds.empty()) return;
    for (const GlobalParamSpec& param : spec_.global_params)
      if (!param.kind.text.empty() &&
          std::ranges::find(kinds, std::string_view(param.kind.text)) == kinds.end())
        error(param.kind.mark, "unknown-kind",
              "no role uses global parameters of the kind " + in_quotes(param.kind.text),
              meant(param.kind.text, kinds, "kind"));
  }

  void check_params(const RoleSpec& role, const PluginDeclaration* plugin) {
    std::set<std::string, std::less<>> kinds;
    for (const Name& param : role.global_params) {
      if (param.text.empty()) continue;  // refused where it was read
      const auto it = std::ranges::find_if(
          spec_.global_params, [&](const GlobalParamSpec& p) { return p.name.text == param.text; });
      if (it == spec_.global_params.end()) {
        if (spec_.unread.global_params) continue;
        error(param.mark, "unknown-global-param",
              "role '" + role.name.text + "' lists the global parameter '" + param.text +
                  "', which is not there",
              meant(param.text, names_of(spec_.global_params), "global parameter"));
        continue;
      }
      kinds.insert(it->kind.text);
      if (plugin != nullptr && !plugin->session_state && !plugin->any_ports &&
          std::ranges::find(plugin->global_param_kinds, it->kind.text) ==
              plugin->global_param_kinds.end())
        error(param.mark, "stateless-role",
              "role '" + role.name.text + "' runs '" + plugin->name +
                  "', which keeps no session state, so it may not touch a session's '" +
                  param.text + "'",
              "remove it from global_params");
    }
    // Without session state it may be given the kinds that it declares, and need not be.
    if (plugin == nullptr || !plugin->session_state) return;
    for (const std::string& kind : plugin->global_param_kinds)
      if (!kinds.contains(kind) && role.global_params.empty())
        error(role.name.mark, "missing-global-param",
              "role '" + role.name.text + "' runs '" + plugin->name + "', which needs a '" + kind +
                  "'",
              "global_params: [name of a global parameter with kind: " + kind + "]");
  }

  void check_colocate(const RoleSpec& role) {
    if (!role.colocate) return;
    std::set<std::string> seen{role.name.text};
    const RoleSpec* at = &role;
    while (at != nullptr && at->colocate) {
      const RoleSpec* next = find_role(at->colocate->text);
      if (next == nullptr) {
        if (at == &role && !spec_.unread.roles)
          error(role.colocate->mark, "unknown-role",
                "role '" + role.name.text + "' shares the place of '" + role.colocate->text +
                    "', which is not there",
                meant(role.colocate->text, names_of(spec_.roles), "role"));
        return;
      }
      if (!seen.insert(next->name.text).second) {
        if (!circle_.contains(next->name.text))  // else it is told
          error(next->colocate->mark, "colocate-circle",
                "the roles that share a place go round in a circle ('" + next->name.text + "')",
                "let one of them stand alone");
        return circle_.merge(seen);
      }
      at = next;
    }
  }

  void resolve_interface(const NodeSpec& node) {
    const RoleSpec* role = find_role(node.role.text);
    if (node.role.text.empty()) return;
    if (role == nullptr) {
      if (spec_.unread.roles) return;
      if (spec_.roles.empty()) {  // said once: it is as true of all other nodes
        if (!std::exchange(no_roles_said_, true))
          error(node.role.mark, "unknown-role",
                "node '" + node.name.text + "' runs the role '" + node.role.text +
                    "', and the workflow has no roles",
                "roles: { " + node.role.text + ": { plugin: NAME } }, see `sluice roles`");
        return;
      }
      error(node.role.mark, "unknown-role",
            "node '" + node.name.text + "' runs the role '" + node.role.text +
                "', which is not there",
            meant(node.role.text, names_of(spec_.roles), "role"));
      return;
    }
    used_roles_.insert(role->name.text);
    const PluginDeclaration* plugin = find_plugin(declarations_, role->plugin.text);
    if (plugin == nullptr || plugin->any_ports) return;
    const InterfaceDeclaration* interface = find_interface(*plugin, node.interface.text);
    if (interface == nullptr) {
      error(node.interface.mark, "unknown-interface",
            "'" + plugin->name + "' has no interface '" + node.interface.text + "'",
            meant(node.interface.text, names_of(plugin->interfaces), "interface"));
      return;
    }
    if (!node.outputs.empty())
      error(node.outputs.front().mark, "declared-outputs",
            "the outputs of '" + node.name.text + "' are declared by the plugin '" + plugin->name +
                "'",
            "remove `outputs`");
    interfaces_.emplace(node.name.text, interface);
  }

  const InterfaceDeclaration* interface_of(const std::string& node) const {
    const auto it = interfaces_.find(node);
    return it == interfaces_.end() ? nullptr : it->second;
  }

  /// The nodes of a role, each once; empty: it is none, or nobody runs it.
  std::string nodes_that_run(const std::string& role) const {
    std::string list;
    for (const NodeSpec& node : spec_.nodes)
      if (node.role.text == role) list += (list.empty() ? "" : ", ") + node.name.text;
    return list;
  }

  /// A node has this name but for capitals: it was refused where it stands.
  bool has_in_capitals(const std::string& name) const {
    const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::ranges::any_of(spec_.nodes, [&](const NodeSpec& node) {
      return std::ranges::equal(node.name.text, name, {}, small);
    });
  }

  /// The type that a source brings; nothing when the source is wrong or its type unknown.
  std::optional<ValueType> check_source(const FieldRef& ref) {
    if (ref.node == "inputs") {
      const auto it = std::ranges::find_if(
          spec_.inputs, [&](const InputSpec& i) { return i.name.text == ref.field; });
      if (it == spec_.inputs.end()) {
        if (spec_.unread.inputs) return std::nullopt;
        error(ref.mark, "unknown-input", "the workflow has no input '" + ref.field + "'",
              spec_.inputs.empty() ? "declare it: inputs: { " + ref.field + ": TYPE }"
                                   : meant(ref.field, names_of(spec_.inputs), "input"));
        return std::nullopt;
      }
      used_inputs_.insert(ref.field);
      return it->type;
    }
    const auto node = nodes_.find(ref.node);
    if (node == nodes_.end()) {
      if (spec_.unread.nodes) return std::nullopt;
      if (has_in_capitals(ref.node)) return std::nullopt;
      const std::string runs = nodes_that_run(ref.node);
      if (!runs.empty())
        return error(ref.mark, "unknown-node", "there is no node '" + ref.node + "'",
                     "'" + ref.node + "' is a role; a source names a node that runs it: " + runs),
               std::nullopt;
      std::vector<std::string_view> sources = names_of(spec_.nodes);
      sources.emplace_back("inputs");
      error(ref.mark, "unknown-node", "there is no node '" + ref.node + "'",
            nearest_name(ref.node, sources) == "inputs" ? "did you mean 'inputs." + ref.field + "'?"
            : std::ranges::any_of(spec_.inputs,
                                  [&](const InputSpec& i) { return i.name.text == ref.node; })
                ? "'" + ref.node + "' is an input: it is read as inputs." + ref.node
                : meant(ref.node, names_of(spec_.nodes), "node"));
      return std::nullopt;
    }
    const InterfaceDeclaration* interface = interface_of(ref.node);
    if (interface == nullptr) {
      const std::vector<Name>& outputs = node->second->outputs;
      if (!outputs.empty() && !is_refused_output(ref) &&
          std::ranges::find(outputs, ref.field, &Name::text) == outputs.end())
        unknown_field(ref, [&] {
          std::vector<std::string_view> names;
          for (const Name& name : outputs) names.push_back(name.text);
          return names;
        }());
      return std::nullopt;
    }
    const Port* port = find_port(interface->outputs, ref.field);
    if (port != nullptr) return port->type;
    unknown_field(ref, names_of(interface->outputs));
    return std::nullopt;
  }
  /// It most likely means an output whose name was refused where it stands.
  bool is_refused_output(const FieldRef& ref) const {
    const auto refused = refused_.find(ref.node);
    return refused != refused_.end() && refused->second.contains(ref.field);
  }
  void unknown_field(const FieldRef& ref, const std::vector<std::string_view>& known) {
    error(ref.mark, "unknown-field", "node '" + ref.node + "' has no output '" + ref.field + "'",
          meant(ref.field, known, "output"));
  }

  void check_field(const NodeSpec& node, const FieldSpec& field) {
    const InterfaceDeclaration* interface = interface_of(node.name.text);
    const Port* port = nullptr;
    if (interface != nullptr) {
      port = find_port(interface->inputs, field.field.text);
      if (port == nullptr)
        error(field.field.mark, "unknown-field",
              "'" + node.role.text + "." + node.interface.text + "' has no input '" +
                  field.field.text + "'",
              meant(field.field.text, names_of(interface->inputs), "input"));
    }
    Seen seen;
    for (const FieldRef& source : field.sources) {
      const std::optional<ValueType> type = check_source(source);
      check_is_new(source, seen, "field");
      if (port != nullptr && type) check_shape(node, *port, source);
      if (port == nullptr || !type || *type == port->type || *type == ValueType::any ||
          port->type == ValueType::any)
        continue;
      error(source.mark, "wrong-type",
            "'" + source.node + "." + source.field + "' brings " + std::string(to_string(*type)) +
                ", the input '" + field.field.text + "' of '" + node.name.text + "' takes " +
                std::string(to_string(port->type)),
            sources_of(source.node, port->type));
    }
  }
  /// Which fields of a node, or of the call, bring this type; empty: none.
  std::string sources_of(const std::string& node, ValueType type) const {
    std::string list;
    const auto add_one = [&](std::string_view field) {
      list += (list.empty() ? "" : ", ") + node + "." + std::string(field);
    };
    if (node == "inputs") {
      for (const InputSpec& input : spec_.inputs)
        if (input.type == type) add_one(input.name.text);
    } else if (const InterfaceDeclaration* interface = interface_of(node)) {
      for (const Port& port : interface->outputs)
        if (port.type == type) add_one(port.name);
    }
    return list.empty() ? "" : std::string(to_string(type)) + " is brought by: " + list;
  }

  void check_shape(const NodeSpec& node, const Port& port, const FieldRef& source) {
    const InterfaceDeclaration* interface = interface_of(source.node);
    const Port* from = interface != nullptr ? find_port(interface->outputs, source.field) : nullptr;
    if (from == nullptr || from->type != port.type) return;
    if (!contents_agree(*from, port)) return check_content(node, port, *from, source);
    if (shapes_agree(*from, port)) return;
    error(source.mark, "wrong-shape",
          "'" + source.node + "." + source.field + "' brings " + shape_text(*from) +
              ", the input '" + port.name + "' of '" + node.name.text + "' takes " +
              shape_text(port));
  }

  void check_content(const NodeSpec& node, const Port& port, const Port& from,
                     const FieldRef& source) {
    std::string takers;
    for (const Port& other : interface_of(node.name.text)->inputs)
      if (other.content == from.content)
        takers += (takers.empty() ? "'" : ", '") + other.name + "'";
    error(source.mark, "wrong-content",
          "'" + source.node + "." + source.field + "' brings " + from.content + ", the input '" +
              port.name + "' of '" + node.name.text + "' takes " + port.content,
          takers.empty() ? "" : "its input " + takers + " takes " + from.content);
  }

  void check_group(const NodeSpec& node, const GroupSpec& group) {
    std::set<std::string> producers;
    std::set<std::string> fields;
    for (const FieldSpec& field : group.fields) {
      check_field(node, field);
      for (const FieldRef& source : field.sources) {
        producers.insert(source.node);
        fields.insert(source.field);
      }
    }
    if (producers.size() != 1 || group.fields.size() < 2 || !node.counts.empty()) return;
    const InterfaceDeclaration* producer = interface_of(*producers.begin());
    if (producer == nullptr || producer->frames.empty()) return;
    // A field that is not there comes in no frame; that is said where it stands.
    if (std::ranges::any_of(fields, [&](const std::string& field) {
          return find_port(producer->outputs, field) == nullptr;
        }))
      return;
    // Sources of one field are alternatives: one of each in the frame is enough.
    const bool together = std::ranges::any_of(producer->frames, [&](const auto& frame) {
      return std::ranges::all_of(group.fields, [&](const FieldSpec& field) {
        return std::ranges::any_of(field.sources, [&](const FieldRef& source) {
          return std::ranges::find(frame, source.field) != frame.end();
        });
      });
    });
    if (!together)
      warn(group.mark, "comes-apart",
           "'" + *producers.begin() + "' may yield these fields in different frames; '" +
               node.name.text + "' runs only on a frame that holds all of them",
           "make each field a group of its own, or collect them with `count`");
  }

  void check_queue(const NodeSpec& node) {
    if (node.on_full == OnFull::wait && node.queue != 0)
      error(node.queue_mark, "queue-without-drops",
            "node '" + node.name.text + "' says how many may wait for it, but drops none of them",
            "add `on_full: drop_oldest`, or remove `queue`: then any number waits");
    if (node.on_full == OnFull::drop_oldest && !node.counts.empty())
      error(node.on_full_mark, "drops-what-it-counts",
            "node '" + node.name.text + "' collects by count and runs once in a call, so nothing " +
                "waits for it that something newer could replace",
            "remove `on_full`; `count` says how many frames it takes");
  }

  void check_node(const NodeSpec& node) {
    for (const GroupSpec& group : node.groups) check_group(node, group);
    if (const InterfaceDeclaration* interface = interface_of(node.name.text))
      check_frames(node, *interface, diagnostics_);
    check_queue(node);
    if (node.counts.empty()) return;
    if (node.groups.size() > 1)
      error(node.groups[1].mark, "count-groups",
            "node '" + node.name.text + "' collects by count, so it has one input group",
            "bring the fields into one group, or remove `count`");
    if (node.groups.empty()) return;
    std::size_t unknown = 0;
    for (const CountSpec& count : node.counts) unknown += check_count(node, count) ? 0 : 1;
    std::vector<const Name*> uncounted;
    for (const FieldSpec& field : node.groups[0].fields)
      if (std::ranges::none_of(
              node.counts, [&](const CountSpec& c) { return c.field.text == field.field.text; }))
        uncounted.push_back(&field.field);
    // With a name wrong, the field that lacks a count is most likely what was meant.
    if (uncounted.size() <= unknown) return;
    for (const Name* field : uncounted)
      error(field->mark, "uncounted-field",
            "the count of '" + node.name.text + "' does not say how many frames of '" +
                field->text + "'",
            "add `" + field->text + ": 1` (or a number's source, or all) to count");
  }

  /// False: it counts what is not there.
  bool check_count(const NodeSpec& node, const CountSpec& count) {
    std::vector<std::string_view> names;  // of all groups: that there are several is said
    for (const GroupSpec& group : node.groups)
      for (const FieldSpec& field : group.fields) names.push_back(field.field.text);
    const bool known = std::ranges::find(names, count.field.text) != names.end();
    if (!known && !is_misspelt_above(node, count.field.text))
      error(count.field.mark, "unknown-field",
            "'" + node.name.text + "' counts '" + count.field.text +
                "', which is not among its inputs",
            meant(count.field.text, names, "input"));
    if (const auto* ref = std::get_if<FieldRef>(&count.frames)) check_count_source(*ref);
    return known;
  }
  /// An input of the role that a node's group does not name, where it names one like it, or a
  /// single one, that is none.
  bool is_misspelt_above(const NodeSpec& node, const std::string& input) const {
    const InterfaceDeclaration* interface = interface_of(node.name.text);
    const std::vector<FieldSpec>& fields = node.groups[0].fields;
    return interface != nullptr && find_port(interface->inputs, input) != nullptr &&
           std::ranges::any_of(fields, [&](const FieldSpec& field) {
             return find_port(interface->inputs, field.field.text) == nullptr &&
                    (fields.size() == 1 || !nearest_name(field.field.text, {input}).empty());
           });
  }

  void check_count_source(const FieldRef& ref) {
    const std::optional<ValueType> type = check_source(ref);
    if (type && *type != ValueType::number && *type != ValueType::any)
      error(ref.mark, "count-not-number",
            "'" + ref.node + "." + ref.field + "' brings " + std::string(to_string(*type)) +
                ", a count needs a number");
    const auto from = nodes_.find(ref.node);
    const RoleSpec* role = from == nodes_.end() ? nullptr : find_role(from->second->role.text);
    if (role != nullptr && role->balance == Balance::broadcast && role->replicas > 1)
      error(ref.mark, "count-of-each-replica",
            "a count's number comes once in a call, and '" + ref.node + "' runs on each of " +
                std::to_string(role->replicas) + " replicas (balance: broadcast)",
            "take it from a node that collects what the replicas make");
  }

  /// A source that stands twice would bring each of its frames twice.
  void check_is_new(const FieldRef& source, Seen& seen, const std::string& whose) {
    if (!seen.emplace(source.node, source.field).second)
      error(source.mark, "duplicate-source",
            "'" + source.node + "." + source.field + "' is a source of this " + whose + " already",
            "remove one of them");
  }

  void check_outputs() {
    for (const OutputSpec& output : spec_.outputs) {
      Seen seen;
      for (const FieldRef& source : output.sources) {
        (void)check_source(source);
        check_is_new(source, seen, "output");
      }
    }
    if (spec_.is_library) return;
    if (spec_.outputs.empty() && !spec_.unread.outputs)
      error({1, 1, 1}, "no-outputs", "the workflow has no outputs, so nobody sees what it makes",
            "outputs: { name: node.field }");
    if (spec_.nodes.empty() && !spec_.unread.nodes)
      error({1, 1, 1}, "no-nodes", "the workflow has no nodes");
  }

  void check_unused() {
    for (const RoleSpec& role : spec_.roles)
      if (!spec_.is_library && role.included_from.empty() && !used_roles_.contains(role.name.text))
        warn(role.name.mark, "unused-role", "no node runs the role '" + role.name.text + "'",
             "remove it");
    for (const InputSpec& input : spec_.inputs)
      if (!used_inputs_.contains(input.name.text) && spec_.inputs.size() <= outputs_per_node_max)
        warn(input.name.mark, "unused-input", "nothing reads the input '" + input.name.text + "'",
             "remove it");
    std::set<std::string> needed;
    std::vector<std::string> open;
    for (const OutputSpec& output : spec_.outputs)
      for (const FieldRef& source : output.sources) open.push_back(source.node);
    while (!open.empty()) {
      const std::string name = open.back();
      open.pop_back();
      const auto it = nodes_.find(name);
      if (it == nodes_.end() || !needed.insert(name).second) continue;
      for (const GroupSpec& group : it->second->groups)
        for (const FieldSpec& field : group.fields)
          for (const FieldRef& source : field.sources) open.push_back(source.node);
      for (const CountSpec& count : it->second->counts)
        if (const auto* ref = std::get_if<FieldRef>(&count.frames)) open.push_back(ref->node);
    }
    for (const NodeSpec& node : spec_.nodes)
      if (!needed.contains(node.name.text))
        warn(node.name.mark, "unused-node", "no output depends on node '" + node.name.text + "'",
             "connect it to an output, or remove it");
  }

  const WorkflowSpec& spec_;
  std::set<std::string> circle_;  // roles from which one comes to a circle of `colocate`
  const Declarations& declarations_;
  Diagnostics& diagnostics_;
  const FieldsByNode refused_;
  std::map<std::string, const NodeSpec*, std::less<>> nodes_;
  std::map<std::string, const InterfaceDeclaration*, std::less<>> interfaces_;
  std::set<std::string, std::less<>> used_roles_;
  bool no_roles_said_ = false;
  std::set<std::string, std::less<>> used_inputs_;
};

}  // namespace

void check(const WorkflowSpec& spec, const Declarations& declarations, Diagnostics& diagnostics) {
  Checker(spec, declarations, diagnostics).run();
}

}  // namespace sluice
