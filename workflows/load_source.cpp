#include "workflows/load_source.h"

#include <utility>

#include "graph/check.h"
#include "graph/print.h"
#include "workflows/load.h"

namespace sluice {

using Kind = YamlNode::Kind;

std::string in_small_letters(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string odd_character(std::string_view text) {
  const std::string odd = misleading_character(text);
  return odd.empty() ? "" : "; this has the character " + odd + ": type it anew";
}

std::optional<FieldRef> SourceReader::field_ref(const YamlNode& node) {
  if (!expect(node, Kind::scalar, "a source")) return std::nullopt;
  if (++sources_ == WorkflowBounds::sources + 1)
    too_many(node.mark, "sources", WorkflowBounds::sources);
  const std::size_t dot = node.scalar.find('.');
  FieldRef ref;
  ref.mark = node.mark;
  if (dot != std::string::npos) {
    ref.node = node.scalar.substr(0, dot);
    ref.field = node.scalar.substr(dot + 1);
  }
  if (is_name(ref.node) && is_name(ref.field)) return ref;
  // A name that is wrong was reported where it is declared.
  if (bad_names_.contains(ref.node == "inputs" ? ref.field : ref.node) ||
      bad_names_.contains(node.scalar))
    return ref;
  const std::string plain = in_small_letters(ref.node + "." + ref.field);
  const std::string bare = in_template(node.scalar);
  error(node.mark, "bad-source", in_quotes(node.scalar) + " is not a source",
        !bare.empty() ? "a source is written as it is: " + bare
        : is_name(in_small_letters(ref.node)) && is_name(in_small_letters(ref.field))
            ? "names are in lower case: " + plain
            : "write node.field, or inputs.field for what a call brings in" +
                  odd_character(node.scalar));
  return std::nullopt;
}

std::vector<FieldRef> SourceReader::sources(const YamlNode& node) {
  std::vector<FieldRef> refs;
  if (node.kind == Kind::list) {
    if (node.items.empty())
      error(node.mark, "bad-source", "a field needs a source", "write node.field");
    for (const YamlNode& item : node.items)
      if (auto ref = field_ref(item)) refs.push_back(std::move(*ref));
  } else if (auto ref = field_ref(node)) {
    refs.push_back(std::move(*ref));
  }
  return refs;
}

void SourceReader::too_many(Mark mark, const std::string& what, std::size_t most) {
  error(mark, "too-many", "a workflow has at most " + std::to_string(most) + " " + what,
        "take it apart, or make less of it");
  too_many_ = true;
}

bool SourceReader::bounded(const YamlNode& map, const std::string& what, std::size_t most) {
  if (map.entries.size() <= most) return true;
  too_many(map.entries[most].key.mark, what, most);
  return false;
}

void SourceReader::note_bad_names(const YamlNode* map) {
  if (map == nullptr) return;
  for (const auto& [key, value] : map->entries) {
    if (!is_name(key.scalar)) bad_names_.insert(key.scalar);
    if (const YamlNode* fields = value.find("outputs"))
      for (const YamlNode& field : fields->items)
        if (!is_name(field.scalar)) bad_names_.insert(key.scalar + "." + field.scalar);
  }
}

}  // namespace sluice
