// A workflow's file to a spec, with a chance to change its tree in between. Private to workflows/.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "workflows/load.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// Changes what the file says, before it is checked.
using ChangeTree = std::function<void(YamlNode& root, Diagnostics& diagnostics)>;

LoadedWorkflow load_tree(std::string file_name, std::string_view text, const ChangeTree& change);

}  // namespace sluice
