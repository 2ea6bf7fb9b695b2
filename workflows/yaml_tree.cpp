#include "workflows/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

namespace sluice {

namespace {

constexpr std::size_t depth_max = 64;
constexpr std::size_t nodes_max = 100'000;

Mark mark_of(const YAML::Mark& mark, std::size_t length = 1) {
  if (mark.is_null()) return {};
  return {static_cast<std::uint32_t>(mark.line + 1), static_cast<std::uint32_t>(mark.column + 1),
          static_cast<std::uint32_t>(length)};
}

/// Builds the tree from events: what the document tree would hide is seen here.
class Builder final : public YAML::EventHandler {
 public:
  Builder(YamlNode& root, Diagnostics& diagnostics) : root_(root), diagnostics_(diagnostics) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    YamlNode node;
    node.mark = mark_of(mark);
    add(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    error(mark_of(mark), "yaml-alias", "aliases are not allowed in a workflow",
          "write the value out");
    add({});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.mark = mark_of(mark, std::max<std::size_t>(1, value.size()));
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
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  void error(Mark mark, std::string code, std::string message, std::string suggestion) {
    diagnostics_.push_back(
        {Severity::error, mark, std::move(code), std::move(message), std::move(suggestion)});
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      error(mark_of(mark), "yaml-anchor", "anchors are not allowed in a workflow",
            "remove the '&name'");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!")
      error(mark_of(mark), "yaml-tag", "tags are not allowed in a workflow ('" + tag + "')",
            "remove the tag");
  }
  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (stack_.size() == depth_max && !too_deep_) {
      too_deep_ = true;
      error(mark_of(mark), "yaml-depth", "nesting is deeper than " + std::to_string(depth_max),
            "flatten the file");
    }
    Open opened;
    opened.node.kind = kind;
    opened.node.mark = mark_of(mark);
    stack_.push_back(std::move(opened));
  }
  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    add(std::move(node));
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
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      check_key(top.node, node);
      top.key = std::move(node);
      top.has_key = true;
    } else {
      // An empty value has no place of its own: it stands where its key does.
      if (node.kind == YamlNode::Kind::null) node.mark = top.key.mark;
      top.node.entries.push_back({std::move(top.key), std::move(node)});
      top.has_key = false;
    }
  }
  void check_key(const YamlNode& map, const YamlNode& key) {
    if (key.kind != YamlNode::Kind::scalar) {
      error(key.mark, "yaml-key", "a key must be a word", "");
      return;
    }
    if (key.scalar == "<<" && !key.quoted)
      error(key.mark, "yaml-merge", "merge keys are not allowed in a workflow",
            "write the keys out");
    if (const YamlNode* first = map.find(key.scalar))
      error(key.mark, "duplicate-key",
            "the key '" + key.scalar + "' stands twice (first in line " +
                std::to_string(first->mark.line) + ")",
            "remove one of them");
  }

  YamlNode& root_;
  Diagnostics& diagnostics_;
  std::vector<Open> stack_;
  std::size_t nodes_ = 0;
  bool too_deep_ = false;
};

/// The innermost bracket that is open where the parser stopped, quotes and comments left out.
std::optional<Mark> open_bracket(std::string_view text, const YAML::Mark& end) {
  std::vector<Mark> open;
  Mark at{1, 1, 1};
  char quote = 0;
  bool comment = false;
  for (std::size_t i = 0; i < text.size() && i < static_cast<std::size_t>(end.pos); ++i) {
    const char c = text[i];
    if (c == '\n') {
      comment = false;
      at = {at.line + 1, 0, 1};
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (comment) {
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == '{' || c == '[') {
      open.push_back(at);
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
    ++at.column;
  }
  if (open.empty()) return std::nullopt;
  return open.back();
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
    diagnostics.push_back({Severity::error,
                           {1, 1, 1},
                           "file-size",
                           "the file has " + std::to_string(text.size()) + " bytes, the limit is " +
                               std::to_string(yaml_bytes_max),
                           "split it"});
    return root;
  }
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    diagnostics.push_back(
        {Severity::error, {1, 1, 1}, "yaml-syntax", "the file is not text (a zero byte)", ""});
    return root;
  }
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    Builder builder(root, diagnostics);
    if (!parser.HandleNextDocument(builder)) return root;
    YamlNode second;
    Builder more(second, diagnostics);
    const std::size_t before = diagnostics.size();
    if (parser.HandleNextDocument(more)) {
      diagnostics.resize(before);
      diagnostics.push_back({Severity::error, second.mark, "yaml-documents",
                             "a workflow file holds one document",
                             "put the second one in a file of its own"});
    }
  } catch (const YAML::Exception& error) {
    Diagnostic wrong{Severity::error, mark_of(error.mark), "yaml-syntax",
                     "not valid YAML: " + error.msg, ""};
    // Where the parser gave up is after the mistake: the bracket that is still open is the place.
    if (error.msg.find("flow not found") != std::string::npos)
      if (const std::optional<Mark> open = open_bracket(text, error.mark)) {
        wrong.mark = *open;
        wrong.suggestion = "this bracket is not closed";
      }
    diagnostics.push_back(std::move(wrong));
  }
  return root;
}

bool is_readable(const Diagnostics& diagnostics) {
  return std::ranges::none_of(diagnostics, [](const Diagnostic& d) {
    return d.code == "yaml-syntax" || d.code == "file-size" || d.code == "yaml-documents";
  });
}

}  // namespace sluice
