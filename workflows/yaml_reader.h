// Reading one YAML tree strictly: what every loader of this folder says about keys, kinds and
// numbers. Private to workflows/.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "graph/spec.h"
#include "workflows/yaml_tree.h"

namespace sluice {

inline constexpr std::size_t name_length_max = 64;

std::string_view kind_name(YamlNode::Kind kind);
/// `[a-z][a-z0-9_]*`, at most 64 characters.
bool is_name(std::string_view text);

class YamlReader {
 public:
  explicit YamlReader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

 protected:
  void error(Mark mark, std::string code, std::string message, std::string suggestion = "") {
    report(diagnostics_,
           {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  void warning(Mark mark, std::string code, std::string message, std::string suggestion) {
    report(diagnostics_,
           {Severity::warning, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  bool expect(const YamlNode& node, YamlNode::Kind kind, const std::string& what);
  void check_keys(const YamlNode& map, std::span<const std::string_view> known,
                  const std::string& where);
  /// The value of `key`, or of the unknown key that `check_keys` took for it: what is misspelt is
  /// said once, and read all the same.
  const YamlNode* find(const YamlNode& map, std::string_view key) const;
  std::optional<Name> name(const YamlNode& node, const std::string& what);
  std::optional<std::int64_t> number(const YamlNode& node, const std::string& what,
                                     std::int64_t least, std::int64_t most);
  /// `500ms`, `30s`, `2m`, at least `least` of them, at most a day. `at_most`: where the caller
  /// allows less, as the error says it.
  std::optional<std::chrono::milliseconds> duration(const YamlNode& node, const std::string& what,
                                                    std::int64_t least = 1,
                                                    const char* at_most = "a day");

  template <typename T>
  void choice(const YamlNode& node, const std::string& what,
              const std::vector<std::pair<std::string_view, T>>& choices, T& to) {
    if (!expect(node, YamlNode::Kind::scalar, what)) return;
    std::vector<std::string_view> names;
    std::string list;
    for (const auto& [text, value] : choices) {
      if (node.scalar == text) {
        to = value;
        return;
      }
      names.push_back(text);
      list += (list.empty() ? "" : ", ") + std::string(text);
    }
    const std::string near = nearest_name(node.scalar, names);
    error(node.mark, "bad-choice",
          what + " cannot be " + in_quotes(node.scalar) + " (" + list + ")",
          near.empty() ? "" : "did you mean '" + near + "'?");
  }

 private:
  Diagnostics& diagnostics_;
  std::map<std::pair<const YamlNode*, std::string_view>, const YamlNode*> meant_;
  std::deque<YamlNode> separated_;  // values that were written without a space before them
};

}  // namespace sluice
