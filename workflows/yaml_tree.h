// A YAML document as a small tree with a place for everything, read strictly.
//
// Refused with their place: anchors, aliases, tags, merge keys, duplicate keys, several documents,
// nesting deeper than 64, more than 100,000 nodes. Private to workflows/. Bounds: 1 MiB of text.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/diagnostic.h"

namespace sluice {

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, list, map } kind = Kind::null;
  Mark mark;
  std::string scalar;
  bool quoted = false;
  bool refused = false;                                  // an error said why it is not read
  bool in_list = false;                                  // an entry of a list
  std::vector<YamlNode> items;     // list
  std::vector<YamlEntry> entries;  // map, in order

  const YamlNode* find(std::string_view key) const;
};

struct YamlEntry {
  YamlNode key;
  YamlNode value;
};

inline constexpr std::size_t yaml_bytes_max = std::size_t{1} << 20;

/// Appends what is wrong. The tree is whole when nothing was an error.
YamlNode read_yaml(std::string_view text, Diagnostics& diagnostics);

/// False when the text is not YAML at all, or too large: its tree says nothing then.
bool is_readable(const Diagnostics& diagnostics);

}  // namespace sluice
