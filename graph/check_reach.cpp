#include "graph/check_reach.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace sluice {

namespace {

class Reach {
 public:
  Reach(const WorkflowSpec& spec, Diagnostics& diagnostics)
      : spec_(spec), diagnostics_(diagnostics) {
    for (const NodeSpec& node : spec.nodes) nodes_.emplace(node.name.text, &node);
  }

  void run() {
    reached_.insert("inputs");
    grow_reach();
    for (const NodeSpec& first : spec_.nodes) {
      while (!reached_.contains(first.name.text) && !is_full(diagnostics_)) {
        const NodeSpec* node = &first;
        std::set<const NodeSpec*> way;
        while (way.insert(node).second) node = nodes_.at(missing_field(*node).sources[0].node);
        const FieldSpec& field = missing_field(*node);
        const std::string& from = field.sources[0].node;
        report(diagnostics_,
               {Severity::error, node->name.mark, "unreachable-node",
                "nothing can ever run node '" + node->name.text + "': its input '" +
                    field.field.text + "' comes only from " +
                    (from == node->name.text ? "itself" : "'" + from + "', which waits for it"),
                "feed it from inputs.field or from a node that runs, or give what comes later a "
                "group of its own"});
        reached_.insert(node->name.text);
        grow_reach();
      }
    }
  }

 private:
  /// True when one of the field's sources may come; what is wrong with the others is said there.
  bool can_come(const FieldSpec& field) const {
    return field.sources.empty() || std::ranges::any_of(field.sources, [&](const FieldRef& source) {
             return reached_.contains(source.node) || !known(source.node);
           });
  }
  void grow_reach() {
    const auto can_fire = [&](const GroupSpec& group) {
      return std::ranges::all_of(group.fields, [&](const auto& field) { return can_come(field); });
    };
    for (bool grew = true; grew;) {
      grew = false;
      for (const NodeSpec& node : spec_.nodes)
        if (!reached_.contains(node.name.text) &&
            (node.groups.empty() || std::ranges::any_of(node.groups, can_fire)))
          grew = reached_.insert(node.name.text).second;
    }
  }
  /// The first field of a node that never runs which never comes.
  const FieldSpec& missing_field(const NodeSpec& node) const {
    const auto& fields = node.groups[0].fields;
    return *std::ranges::find_if(fields, [&](const FieldSpec& f) { return !can_come(f); });
  }
  bool known(const std::string& node) const { return node == "inputs" || nodes_.contains(node); }

  const WorkflowSpec& spec_;
  Diagnostics& diagnostics_;
  std::map<std::string, const NodeSpec*, std::less<>> nodes_;
  std::set<std::string, std::less<>> reached_;
};

}  // namespace

void check_reach(const WorkflowSpec& spec, Diagnostics& diagnostics) {
  Reach(spec, diagnostics).run();
}

}  // namespace sluice
