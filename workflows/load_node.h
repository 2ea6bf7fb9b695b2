// The nodes of a workflow's file, read strictly: what each runs, where its inputs come from, what
// it counts, yields and does when too much waits. Private to workflows/.
#pragma once

#include <array>
#include <deque>
#include <set>
#include <string_view>
#include <vector>

#include "graph/spec.h"
#include "workflows/load_source.h"

namespace sluice {

class NodeReader : public SourceReader {
 public:
  static constexpr std::array<std::string_view, 9> keys{
      "run", "inputs", "count", "on_error", "outputs", "deadline", "max_age", "on_full", "queue"};

  NodeReader(WorkflowSpec& spec, Diagnostics& diagnostics)
      : SourceReader(diagnostics), spec_(spec) {}

 protected:
  void load_nodes(const YamlNode& map);
  /// It was read as a key of the workflow, so it is no node and none of a node's keys.
  void note_misplaced(const YamlNode& value) { misplaced_.insert(&value); }
  bool is_misplaced(const YamlNode& value) const { return misplaced_.contains(&value); }

  WorkflowSpec& spec_;

 private:
  void load_node(const YamlNode& key, const YamlNode& whole);
  void load_one(const YamlNode& key, const YamlNode& node);
  const YamlNode& without_nodes(const YamlNode& key, const YamlNode& node,
                                std::vector<YamlEntry>& inner);
  void load_run(NodeSpec& spec, const YamlNode& key, const YamlNode& node);
  void load_groups(NodeSpec& spec, const YamlNode& node);
  void load_counts(NodeSpec& spec, const YamlNode& node);
  void load_queue(NodeSpec& spec, const YamlNode& node);
  void load_fields(NodeSpec& spec, const YamlNode& list);

  std::set<const YamlNode*> misplaced_;
  std::deque<YamlNode> taken_apart_;  // nodes without those that stood within them
};

}  // namespace sluice
