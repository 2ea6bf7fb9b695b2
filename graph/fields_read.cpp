#include "graph/fields_read.h"

#include <algorithm>
#include <variant>

namespace sluice {

FieldsByNode fields_read(const WorkflowSpec& spec) {
  FieldsByNode read;
  const auto add = [&](const FieldRef& ref) { read[ref.node].insert(ref.field); };
  for (const NodeSpec& node : spec.nodes) {
    for (const GroupSpec& group : node.groups)
      for (const FieldSpec& field : group.fields) std::ranges::for_each(field.sources, add);
    for (const CountSpec& count : node.counts)
      if (const auto* ref = std::get_if<FieldRef>(&count.frames)) add(*ref);
  }
  for (const OutputSpec& output : spec.outputs) std::ranges::for_each(output.sources, add);
  return read;
}

}  // namespace sluice
