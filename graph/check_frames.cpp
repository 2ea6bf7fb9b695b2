#include "graph/check_frames.h"

#include <string>
#include <variant>

namespace sluice {

namespace {

void check_count(const NodeSpec& node, const Port& port, const CountSpec& count,
                 Diagnostics& diagnostics) {
  const auto* frames = std::get_if<std::int64_t>(&count.frames);
  if (frames == nullptr || *frames == 1) return;
  if (*frames == 0 && port.frames == PortFrames::at_most_one) return;
  report(diagnostics, {Severity::error, count.field.mark, "reads-one-frame",
                       "'" + node.role.text + "." + node.interface.text + "' reads one frame of '" +
                           port.name + "', its count is " + std::to_string(*frames),
                       "write 1, or leave `count` out: the node runs once for each frame then"});
}

void check_group(const NodeSpec& node, const GroupSpec& group,
                 const InterfaceDeclaration& interface, const Port& port,
                 Diagnostics& diagnostics) {
  for (const FieldSpec& field : group.fields)
    // A name that is not the role's is said there, and is most likely this one misspelt.
    if (field.field.text == port.name || find_port(interface.inputs, field.field.text) == nullptr)
      return;
  report(diagnostics,
         {Severity::error, group.mark, "missing-input",
          "'" + node.role.text + "." + node.interface.text + "' needs its input '" + port.name +
              "', which these inputs of '" + node.name.text + "' do not bring",
          "add `" + port.name + ": NODE.FIELD` to them"});
}

}  // namespace

void check_frames(const NodeSpec& node, const InterfaceDeclaration& interface,
                  Diagnostics& diagnostics) {
  for (const Port& port : interface.inputs) {
    if (port.frames == PortFrames::any) continue;
    for (const CountSpec& count : node.counts)
      if (count.field.text == port.name) check_count(node, port, count, diagnostics);
    if (port.frames != PortFrames::one) continue;
    for (const GroupSpec& group : node.groups)
      check_group(node, group, interface, port, diagnostics);
  }
}

}  // namespace sluice
