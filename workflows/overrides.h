// Values that stand in place of what a workflow file says: `roles.llm.options.temperature=0.2`.
//
// They are put into the tree before anything of the file is checked, so a wrong one is found as it
// would be in the file; its message begins with `--set`, for it has no line. What is named must be
// there, or be a key that the language knows at that place. Private to workflows/, but for
// `Override`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/spec.h"
#include "workflows/override.h"
#include "workflows/yaml_tree.h"

namespace sluice {

/// The overrides of one load, over the file and those that it includes.
class Overrides {
 public:
  explicit Overrides(std::span<const Override> all) : all_(all), done_(all.size()) {}

  /// Into a file's tree. Of an included one (`included`) only its roles and global parameters
  /// change. Appends what is wrong with the values.
  void apply(YamlNode& root, bool included, Diagnostics& diagnostics);
  /// Those that found no place in any of the files.
  void report_rest(const WorkflowSpec& spec, Diagnostics& diagnostics) const;
  /// Says `--set ...` in front of what is wrong with a value of theirs.
  void name(Diagnostics& diagnostics) const;

 private:
  struct Miss {
    std::size_t depth = 0;           // of the part of the path that is not there
    std::string what;                // in words
    std::vector<std::string> known;  // that could stand there
    std::string help = "";           // where no name could
  };
  struct Outcome {
    bool applied = false;
    std::optional<Miss> miss;  // in the workflow's own file
  };

  /// What of the path is not there, and cannot be put there.
  static std::optional<Miss> look_up(const YamlNode& root, const std::vector<std::string>& parts);
  std::optional<Miss> put(YamlNode& root, std::size_t index, Diagnostics& diagnostics) const;

  std::span<const Override> all_;
  std::vector<Outcome> done_;
};

}  // namespace sluice
