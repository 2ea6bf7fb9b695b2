#include "workflows/misplaced.h"

#include <algorithm>
#include <array>

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

/// A section, and the key that each of its entries has; empty: an entry is a single value.
struct Section {
  std::string_view name;
  std::string_view entry_key;
};
constexpr std::array<Section, 5> sections{{{"inputs", ""},
                                           {"global_params", "kind"},
                                           {"roles", "plugin"},
                                           {"nodes", "run"},
                                           {"outputs", ""}}};
constexpr std::array<std::string_view, 7> movable{"inputs",  "global_params", "roles",  "nodes",
                                                  "outputs", "limits",        "include"};

bool is_entry(const Section& section, const YamlNode& value) {
  if (section.entry_key.empty()) return value.kind == Kind::scalar;
  return value.find(section.entry_key) != nullptr;
}

class Search {
 public:
  Search(const YamlNode& root, const std::function<const YamlNode*(std::string_view)>& section)
      : root_(root), section_(section) {}

  std::vector<Misplaced> run() {
    // What stood in one section may hold the next.
    for (const Section& section : sections)
      if (const YamlNode* map = find(section.name)) look_in(section, *map);
    const YamlNode* nodes = find("nodes");
    if (nodes == nullptr || find("outputs") != nullptr) return std::move(found_);
    for (const auto& [name, node] : nodes->entries)
      if (const YamlNode* outputs = node.find("outputs"); outputs && outputs->kind == Kind::map) {
        add("outputs", *outputs, outputs->mark,
            "these outputs stand in node " + in_quotes(name.scalar) + ", they are the workflow's",
            "nodes");
        break;
      }
    return std::move(found_);
  }

 private:
  const YamlNode* find(std::string_view key) const {
    const auto it = std::ranges::find(found_, key, &Misplaced::key);
    return it != found_.end() ? it->value : section_(key);
  }
  void add(std::string_view key, const YamlNode& value, Mark mark, std::string message,
           std::string_view beside) {
    found_.push_back({std::string(key), &value, mark, std::move(message),
                      "indent `" + std::string(key) + "` as '" + std::string(beside) + "' is"});
  }
  void look_in(const Section& section, const YamlNode& map) {
    for (const auto& [key, value] : map.entries) {
      if (std::ranges::find(movable, key.scalar) == movable.end() || value.kind == Kind::null ||
          is_entry(section, value) || find(key.scalar) != nullptr)
        continue;
      add(key.scalar, value, key.mark,
          "'" + key.scalar + "' stands among the " + std::string(section.name) +
              ", it is a key of the workflow",
          root_name(section.name));
    }
  }
  /// The outermost section of those that hold each other.
  std::string root_name(std::string_view name) const {
    for (const auto& [key, value] : root_.entries)
      if (key.scalar == name) return std::string(name);
    return "workflow";
  }

  const YamlNode& root_;
  const std::function<const YamlNode*(std::string_view)>& section_;
  std::vector<Misplaced> found_;
};

}  // namespace

std::vector<Misplaced> misplaced_keys(
    const YamlNode& root, const std::function<const YamlNode*(std::string_view)>& section) {
  return Search(root, section).run();
}

}  // namespace sluice
