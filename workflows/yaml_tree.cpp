#include "workflows/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>

#include "base/utf8.h"
#include "workflows/yaml_mistake.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

constexpr std::size_t depth_max = 64;
constexpr std::size_t nodes_max = 100'000;

/// Places as an author counts them: the parser counts bytes.
class Places {
 public:
  explicit Places(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (utf8_continues(text[i])) continued_.push_back(static_cast<std::uint32_t>(i));
  }
  Mark mark(const YAML::Mark& mark, std::string_view value = {}) const {
    if (mark.is_null()) return {};
    const auto at = static_cast<std::size_t>(mark.pos);
    const auto column = static_cast<std::size_t>(mark.column);
    const std::size_t inside =
        continued_.empty() ? 0 : before(at) - before(at - std::min(at, column));
    const auto length = std::ranges::count_if(value, [](char c) { return !utf8_continues(c); });
    return {static_cast<std::uint32_t>(mark.line + 1),
            static_cast<std::uint32_t>(column - std::min(column, inside) + 1),
            static_cast<std::uint32_t>(std::max<std::ptrdiff_t>(1, length))};
  }

 private:
  std::size_t before(std::size_t byte) const {
    return static_cast<std::size_t>(std::ranges::lower_bound(continued_, byte) -
                                    continued_.begin());
  }
  std::vector<std::uint32_t> continued_;  // the bytes inside characters
};

/// Builds the tree from events: what the document tree would hide is seen here.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string_view text, const Places& places, YamlNode& root, Diagnostics& diagnostics)
      : text_(text), places_(places), root_(root), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    node.mark = places_.mark(mark);
    const std::size_t at = mark.is_null() ? text_.size() : static_cast<std::size_t>(mark.pos);
    const bool entry = !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::list;
    if (const auto dash = empty_entry(at); entry && dash) node.mark = place_of(text_, *dash);
    if (awaits_key()) {
      node.refused = true;  // check_key says so
      if (text_.substr(std::min(at, text_.size())).starts_with("null")) {
        node.kind = YamlNode::Kind::scalar;
        node.scalar = "null";
        node.mark.length = 4;
      }
    }
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    error(places_.mark(mark), "yaml-alias", "aliases are not allowed", "write the value out");
    YamlNode node;
    node.refused = true;
    add(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    const auto at = static_cast<std::size_t>(mark.pos);
    if (tag == "!" && at < text_.size() && (text_[at] == '\'' || text_[at] == '"') &&
        !quote_closes(text_, at))
      report(diagnostics_, unclosed_quote(text_, at));
    key_at_ = at;
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.mark = places_.mark(mark, value);
    node.scalar = value;
    node.quoted = tag == "!";
    if (!node.quoted && (value == "~" || value == "null")) node.kind = YamlNode::Kind::null;
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
    stack_.back().in_braces = style == YAML::EmitterStyle::Flow;
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
    bool in_braces = false;
    std::map<std::string, std::uint32_t, std::less<>> lines;  // of the keys so far
  };

  void error(Mark mark, std::string code, std::string message, std::string suggestion) {
    report(diagnostics_,
           {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  /// The '-' of an entry with nothing behind it: the parser is at the next thing already.
  std::optional<std::size_t> empty_entry(std::size_t at) const {
    const std::size_t last = text_.substr(0, at).find_last_not_of(" \t\r\n");
    if (last == std::string_view::npos || text_[last] != '-') return std::nullopt;
    return last;
  }
  /// Not a number: `-{ a: b }`, `-name: value`.
  static bool begins_with_glued_dash(std::string_view key) {
    return key.size() > 1 && key[0] == '-' &&
           (key[1] == '{' || key[1] == '[' || (key[1] >= 'a' && key[1] <= 'z'));
  }
  bool awaits_key() const {
    return !stack_.empty() && stack_.back().node.kind == YamlNode::Kind::map &&
           !stack_.back().has_key;
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      error(places_.mark(mark), "yaml-anchor", "anchors are not allowed", "remove the '&name'");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      error(places_.mark(mark), "yaml-tag", "tags are not allowed (" + in_quotes(tag) + ")",
            "remove the tag");
  }
  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (stack_.size() == depth_max && !too_deep_) {
      too_deep_ = true;
      error(places_.mark(mark), "yaml-depth", "nesting is deeper than " + std::to_string(depth_max),
            "flatten the file");
    }
    Open opened;
    opened.node.kind = kind;
    opened.node.mark = places_.mark(mark);
    stack_.push_back(std::move(opened));
  }
  void close() {
    YamlNode node = std::move(stack_.back().node);
    if (stack_.back().in_braces) read_round_brackets(node);
    stack_.pop_back();
    add(std::move(node));
  }
  static void take_round_bracket(YamlNode& item) {
    const std::size_t size = item.scalar.size();
    const std::size_t begin = std::min(item.scalar.find_first_not_of(" ("), size);
    item.scalar.erase(item.scalar.find_last_not_of(" )") + 1).erase(0, begin);  // npos + 1 is 0
    item.mark.column += static_cast<std::uint32_t>(begin);
    const auto cut = static_cast<std::uint32_t>(size - item.scalar.size());
    item.mark.length -= std::min(item.mark.length - 1, cut);
    item.in_list = true;
  }
  /// `key: (a, b)` in braces is `key: (a` and a key `b)`: read as the list that was meant.
  void read_round_brackets(YamlNode& map) {
    const auto is_alone = [](const YamlEntry& entry) {
      return entry.value.kind == YamlNode::Kind::null && !entry.key.quoted && !entry.key.refused;
    };
    for (auto first = map.entries.begin(); first != map.entries.end(); ++first) {
      YamlNode& value = first->value;
      if (value.kind != YamlNode::Kind::scalar || value.quoted || !value.scalar.starts_with('(') ||
          value.scalar.find(')') != std::string::npos)
        continue;
      const auto last = std::find_if(first + 1, map.entries.end(), [&](const YamlEntry& entry) {
        return !is_alone(entry) || entry.key.scalar.ends_with(')');
      });
      if (last == map.entries.end() || !is_alone(*last)) continue;
      std::vector<YamlNode> items{value};
      for (auto entry = first + 1; entry <= last; ++entry) items.push_back(entry->key);
      std::string list;
      for (YamlNode& item : items) {
        take_round_bracket(item);
        list += (list.empty() ? "" : ", ") + item.scalar;
      }
      error(value.mark, "wrong-kind", "round brackets mean nothing here",
            "write [ " + (list.size() <= 100 ? list : "...") + " ]");
      value.kind = YamlNode::Kind::list;
      value.items = std::move(items);
      value.refused = true;  // as anything but a list
      map.entries.erase(first + 1, last + 1);
    }
  }
  void add(YamlNode node) {
    if (++nodes_ > nodes_max) {
      if (nodes_ == nodes_max + 1)
        error(node.mark, "yaml-size",
              "the file has more than " + std::to_string(nodes_max) + " values", "split it");
      node = {};
    }
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    if (nodes_ > nodes_max || stack_.size() > depth_max) {
      top.has_key = !top.has_key;
      return;
    }
    if (top.node.kind == YamlNode::Kind::list) {
      node.in_list = true;
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      check_key(top, node);
      if (is_wide_space(node.scalar) && !node.quoted)
        report(diagnostics_, wide_space_mistake(text_, key_at_));
      if (!node.quoted && begins_with_glued_dash(node.scalar))
        report(diagnostics_, glued_dash(text_, key_at_));
      node.refused = node.refused || node.kind != YamlNode::Kind::scalar;  // check_key said so
      top.key = std::move(node);
      top.has_key = true;
    } else {
      // An empty value has no place of its own: it stands where its key does.
      if (node.kind == YamlNode::Kind::null) node.mark = top.key.mark;
      const bool merges = top.key.scalar == "<<" && !top.key.quoted;
      // Refused, and read all the same: what stands below it is not said to be missing.
      if (merges && node.kind == YamlNode::Kind::map)
        std::ranges::move(node.entries, std::back_inserter(top.node.entries));
      else
        top.node.entries.push_back({std::move(top.key), std::move(node)});
      top.has_key = false;
    }
  }
  void check_key(Open& map, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::scalar) {
      // `{{ a.b }}`, as templates have it.
      const bool one = key.kind == YamlNode::Kind::map && key.entries.size() == 1;
      const std::string bare =
          one ? in_template("{{" + key.entries[0].key.scalar + "}}") : std::string();
      error(key.mark, "yaml-key",
            "a key must be a word, this is " +
                std::string(key.kind == YamlNode::Kind::null ? "nothing" : "a map or a list"),
            bare.empty() ? "write `name: value`" : "what was meant is written as " + bare);
      map.node.refused = true;  // what else is wrong with it follows from this
      return;
    }
    if (!key.quoted && key.scalar == "null")
      error(key.mark, "yaml-key", "'null' stands for nothing in YAML: it is no key",
            "choose another name");
    if (key.scalar == "<<" && !key.quoted)
      error(key.mark, "yaml-merge", "merge keys are not allowed", "write the keys out");
    const auto [first, fresh] = map.lines.emplace(key.scalar, key.mark.line);
    if (!fresh)
      error(key.mark, "duplicate-key",
            "the key " + in_quotes(key.scalar) + " stands twice (first in line " +
                std::to_string(first->second) + ")",
            "remove one of them");
  }

  const std::string_view text_;
  const Places& places_;
  YamlNode& root_;
  Diagnostics& diagnostics_;
  std::vector<Open> stack_;
  std::size_t nodes_ = 0;
  std::size_t key_at_ = 0;  // the byte of the latest scalar
  bool too_deep_ = false;
};

/// A first line that is indented where a later one is not, which ends the document for YAML.
std::optional<Diagnostic> indented_start(std::string_view text) {
  std::optional<std::size_t> start;  // of the first line that says something, behind its indent
  bool one = false;                  // space
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1) {
    const std::string_view line = text.substr(at);
    if (line.starts_with("---") || line.starts_with("...")) return std::nullopt;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    if (indent == line.size() ||
        std::string_view("#\r\n").find(line[indent]) != std::string_view::npos)
      continue;
    if (!start) {
      if (indent == 0) return std::nullopt;
      start = at + indent;
      one = indent == 1;
    } else if (indent == 0) {
      return Diagnostic{
          Severity::error, place_of(text, *start), "yaml-syntax",
          "this line is indented, and line " + std::to_string(place_of(text, at).line) + " is not",
          one ? "remove the space in front of it" : "remove the spaces in front of it"};
    }
  }
  return std::nullopt;
}

/// The first '%' that the parser takes for the beginning of a directive: where it accepts no '@' in
/// its place. It would end the document there, and skip the line in silence.
std::optional<std::size_t> directive(std::string_view text, const Places& places) {
  std::string changed(text);
  bool found = false;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1)
    if (text[at] == '%') {
      changed[at] = '@';
      found = true;
    }
  if (!found) return std::nullopt;
  std::istringstream stream{changed};
  YamlNode root;
  Diagnostics ignored;
  try {
    YAML::Parser parser(stream);
    Builder builder(changed, places, root, ignored);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& error) {
    const bool placed = !error.mark.is_null() && error.mark.pos >= 0;
    const std::size_t at = placed ? static_cast<std::size_t>(error.mark.pos) : text.size();
    if (at < text.size() && text[at] == '%' && changed[at] == '@') return at;
  }
  return std::nullopt;
}

Diagnostic directive_mistake(std::string_view text, std::size_t byte) {
  const std::string_view line = text.substr(byte);
  const bool known = line.starts_with("%YAML") || line.starts_with("%TAG");
  return {Severity::error, place_of(text, byte), "yaml-syntax",
          "a line that begins with '%' is a directive, and none is known here",
          known ? "remove the line" : "begin a comment with '#', or remove the '%'"};
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name.scalar == key) return &value;
  return nullptr;
}

YamlNode read_yaml(std::string_view text, Diagnostics& diagnostics) {
  YamlNode root;
  if (text.size() > yaml_bytes_max) {
    report(diagnostics, {Severity::error,
                         {1, 1, 1},
                         "file-size",
                         "the file has " + std::to_string(text.size()) + " bytes, the limit is " +
                             std::to_string(yaml_bytes_max),
                         "split it"});
    return root;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // the mark of an encoding
  for (const auto look : {wrong_bytes, wrong_lines}) {
    if (auto wrong = look(text)) {
      report(diagnostics, std::move(*wrong));
      return root;
    }
  }
  std::istringstream stream{std::string(text)};
  const Places places(text);
  if (const auto at = directive(text, places)) {
    report(diagnostics, directive_mistake(text, *at));
    return root;
  }
  try {
    YAML::Parser parser(stream);
    Builder builder(text, places, root, diagnostics);
    if (!parser.HandleNextDocument(builder)) return root;
    YamlNode second;
    Diagnostics ignored;
    Builder more(text, places, second, ignored);
    if (parser.HandleNextDocument(more)) {
      const Diagnostic two{Severity::error, second.mark, "yaml-documents",
                           "a file holds one document", "put the second one in a file of its own"};
      report(diagnostics, indented_start(text).value_or(two));
    }
  } catch (const YAML::Exception& error) {
    const bool placed = !error.mark.is_null() && error.mark.pos >= 0;
    const std::size_t at = placed ? static_cast<std::size_t>(error.mark.pos) : text.size();
    // What was found before the parser gave up says less than why it did, but for nesting: that it
    // followed to depths of its own.
    const auto deep = std::ranges::find(diagnostics, "yaml-depth", &Diagnostic::code);
    if (deep != diagnostics.end() && error.msg.find("bad file") != std::string::npos)
      diagnostics = {Diagnostic(*deep)};
    else
      diagnostics = {syntax_mistake(text, std::min(at, text.size()), error.msg)};
  }
  return root;
}

bool is_readable(const Diagnostics& diagnostics) {
  return std::ranges::none_of(diagnostics, [](const Diagnostic& d) {
    return d.code == "yaml-syntax" || d.code == "file-size" || d.code == "yaml-documents" ||
           d.code == "yaml-size" || d.code == "yaml-depth";
  });
}

}  // namespace sluice
