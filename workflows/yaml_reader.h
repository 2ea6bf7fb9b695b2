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
/// A character that only looks like a letter, a mark or nothing at all, as "U+200B"; empty: none.
std::string misleading_character(std::string_view text);
/// `[a-z][a-z0-9_]*`, at most 64 characters.
bool is_name(std::string_view text);
/// `name.name` of `${name.name}`, `{{ name.name }}` and `$name.name`, as other languages write
/// what ours has as it stands; empty: it is none of them.
std::string in_template(std::string_view text);

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
  bool expect(const YamlNode& node, YamlNode::Kind kind, const std::string& what,
              const std::string& suggestion = "");
  void check_keys(const YamlNode& map, std::span<const std::string_view> known,
                  const std::string& where);
  /// The value of `key`, or of the unknown key that `check_keys` took for it: what is misspelt is
  /// said once, and read all the same.
  const YamlNode* find(const YamlNode& map, std::string_view key) const;
  /// `{ name:value }`, `{ name value }` and `{ name = value }`: an error is said, and they are read
  /// as two.
  const YamlEntry& parted(const YamlEntry& entry);
  /// From here on `find` gives this value for that key.
  void read_as(const YamlNode& map, std::string_view key, const YamlNode& value) {
    meant_.emplace(std::pair(&map, key), &value);
  }
  /// True when the key is `name { ...` or `name:{ ...`: an error that the ':' or a space is
  /// missing.
  bool lacks_colon(const YamlNode& key);
  std::optional<Name> name(const YamlNode& node, const std::string& what);
  std::optional<std::int64_t> number(const YamlNode& node, const std::string& what,
                                     std::int64_t least, std::int64_t most,
                                     const std::string& suggestion = "");
  /// `500ms`, `30s`, `2m`, at least `least` milliseconds, at most a day. `at_most`, in words: of a
  /// caller that has a range of its own and says it, and gets what is less, below 0 too.
  std::optional<std::chrono::milliseconds> duration(const YamlNode& node, const std::string& what,
                                                    std::int64_t least = 1,
                                                    const char* at_most = nullptr);

  /// False, with an error, when it is none of them.
  template <typename T>
  bool choice(const YamlNode& node, const std::string& what,
              const std::vector<std::pair<std::string_view, T>>& choices, T& to,
              const std::string& suggestion = "") {
    if (!expect(node, YamlNode::Kind::scalar, what)) return false;
    std::vector<std::string_view> names;
    std::string list;
    for (const auto& [text, value] : choices) {
      if (node.scalar == text) {
        to = value;
        return true;
      }
      names.push_back(text);
      list += (list.empty() ? "" : ", ") + std::string(text);
    }
    const std::string near = nearest_name(node.scalar, names);
    error(node.mark, "bad-choice",
          what + " cannot be " + in_quotes(node.scalar) + " (" + list + ")",
          !suggestion.empty() ? suggestion
          : near.empty()      ? ""
                              : "did you mean '" + near + "'?");
    return false;
  }

 private:
  void read_what_was_meant(const YamlNode& map, const YamlNode& key, const YamlNode& value,
                           std::span<const std::string_view> known, std::string& help);

  Diagnostics& diagnostics_;
  std::map<std::pair<const YamlNode*, std::string_view>, const YamlNode*> meant_;
  std::deque<YamlNode> separated_;  // values that were parts of their keys
  std::deque<YamlEntry> parted_;    // likewise, with the keys
};

}  // namespace sluice
