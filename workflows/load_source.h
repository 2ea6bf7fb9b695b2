// Sources, `node.field` and `inputs.field`, and what else all parts of a workflow's file share
// while they are read: names that were refused where they are declared, and what is too many.
// Private to workflows/.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/spec.h"
#include "workflows/yaml_reader.h"

namespace sluice {

std::string in_small_letters(std::string text);
/// For a suggestion: says which character of the text only looks like another; empty: none.
std::string odd_character(std::string_view text);

class SourceReader : public YamlReader {
 public:
  using YamlReader::YamlReader;

 protected:
  std::optional<FieldRef> field_ref(const YamlNode& node);
  /// One, or a list of them.
  std::vector<FieldRef> sources(const YamlNode& node);

  void too_many(Mark mark, const std::string& what, std::size_t most);
  /// False, with an error, when the map holds more than `most`.
  bool bounded(const YamlNode& map, const std::string& what, std::size_t most);
  /// True once `too_many` was said.
  bool is_too_large() const { return too_many_; }

  /// Of a map of names, perhaps with `outputs`. Null: there is none.
  void note_bad_names(const YamlNode* map);
  bool is_bad_name(std::string_view name) const { return bad_names_.contains(name); }

 private:
  std::set<std::string, std::less<>> bad_names_;  // declared, and reported there
  std::size_t sources_ = 0;
  bool too_many_ = false;
};

}  // namespace sluice
