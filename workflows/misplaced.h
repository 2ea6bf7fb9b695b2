// Keys of a workflow that are indented as if they belonged to the section above them.
//
// YAML takes `outputs:` two columns too far in for one more node; the author means the workflow's.
// Private to workflows/.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "workflows/yaml_tree.h"

namespace sluice {

struct Misplaced {
  std::string key;                  // of the workflow, which has it nowhere else
  const YamlNode* value = nullptr;  // where it stands; of the tree that was given
  Mark mark;
  std::string message;
  std::string suggestion;
};

/// `section`: the value of a key of the workflow; nullptr: the workflow has none. In the order in
/// which they are found; each key once.
std::vector<Misplaced> misplaced_keys(
    const YamlNode& root, const std::function<const YamlNode*(std::string_view)>& section);

}  // namespace sluice
