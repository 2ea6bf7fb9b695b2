// What the readers of a cluster file's parts have in common: text that names a file or an address.
//
// Errors: diagnostics with line and column. Private to workflows/.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "workflows/yaml_reader.h"

namespace sluice {

inline std::string line_of(Mark mark) { return "line " + std::to_string(mark.line); }

class ClusterReader : public YamlReader {
 public:
  using YamlReader::YamlReader;

 protected:
  /// A path or an address. Nothing, with an error: it is no single value, or has a control byte,
  /// at which whoever uses it would cut it.
  std::optional<Name> text(const YamlNode& node, const std::string& what) {
    if (!expect(node, YamlNode::Kind::scalar, what)) return std::nullopt;
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
    if (std::ranges::none_of(node.scalar, is_control)) return Name{node.scalar, node.mark};
    error(node.mark, "control-byte", what + " has a control byte: " + in_quotes(node.scalar),
          "write it in one line, without what \\0, \\n or \\e stand for");
    return std::nullopt;
  }
};

}  // namespace sluice
