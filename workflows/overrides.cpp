#include "workflows/overrides.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/nearest.h"
#include "workflows/load.h"

namespace sluice {

namespace {

using Kind = YamlNode::Kind;

/// Values of overrides stand in lines that no file has: `first_line` and the override's index.
constexpr std::uint32_t first_line = std::uint32_t{1} << 31U;

constexpr std::size_t parts_max = 16;  // of a path

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts{""};
  for (const char c : path) {
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string joined(const std::vector<std::string>& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path += (i == 0 ? "" : ".") + parts[i];
  return path;
}

/// Parts whose keys are names that the author chose.
bool is_names(std::string_view key) {
  constexpr std::array<std::string_view, 5> names{"inputs", "outputs", "roles", "nodes",
                                                  "global_params"};
  return std::ranges::find(names, key) != names.end();
}

/// The keys that the language knows at `depth` of a path; empty: they are names, or an option's.
std::vector<std::string> keys_at(const std::vector<std::string>& parts, std::size_t depth) {
  std::string_view part;
  if (depth == 0) part = "workflow";
  if (depth == 1 && parts[0] == "limits") part = "limits";
  if (depth == 2 && parts[0] == "roles") part = "role";
  if (depth == 2 && parts[0] == "nodes") part = "node";
  if (depth == 2 && parts[0] == "global_params") part = "global_param";
  for (const KnownKeys& table : workflow_keys())
    if (table.part == part) return {table.keys.begin(), table.keys.end()};
  return {};
}

/// Whether what stands at the first `depth` parts is a list.
bool is_list(const std::vector<std::string>& parts, std::size_t depth) {
  if (depth == 1) return parts[0] == "include";
  if (depth != 3) return false;
  return (parts[0] == "roles" && parts[2] == "global_params") ||
         (parts[0] == "nodes" && (parts[2] == "inputs" || parts[2] == "outputs"));
}

void place(YamlNode& node, Mark mark) {
  node.mark = mark;
  for (YamlNode& item : node.items) place(item, mark);
  for (YamlEntry& entry : node.entries) {
    place(entry.key, mark);
    place(entry.value, mark);
  }
}

const YamlNode* item_of(const YamlNode& list, const std::string& number) {
  std::size_t index = 0;
  const char* const end = number.data() + number.size();
  const auto [stop, failed] = std::from_chars(number.data(), end, index);
  return failed == std::errc() && stop == end && index < list.items.size() ? &list.items[index]
                                                                           : nullptr;
}

std::string entries_text(std::size_t count) {
  if (count == 0) return "it has no entry";
  return count == 1 ? "its only entry is 0" : "its entries are 0 to " + std::to_string(count - 1);
}

std::string text_of(const Override& override) {
  return "--set " + override.path + "=" + override.value;
}

}  // namespace

Result<Override> parse_override(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    return invalid_argument(in_quotes(text) +
                            " does not say what to set to which value: "
                            "PATH=VALUE, as in limits.deadline=5s");
  Override override{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
  const std::vector<std::string> parts = parts_of(override.path);
  if (parts.size() > parts_max)
    return invalid_argument("the path " + in_quotes(override.path) + " has more than " +
                            std::to_string(parts_max) + " parts");
  if (std::ranges::any_of(parts, &std::string::empty))
    return invalid_argument("the path " + in_quotes(override.path) +
                            " has an empty part: names with one '.' between them");
  return override;
}

std::optional<Overrides::Miss> Overrides::look_up(const YamlNode& root,
                                                  const std::vector<std::string>& parts) {
  const YamlNode absent;
  const YamlNode* at = &root;
  for (std::size_t depth = 0; depth < parts.size(); ++depth) {
    const std::string before = in_quotes(joined(parts, depth));
    if (at->kind == Kind::scalar) return Miss{depth, before + " is a single value", {}};
    if (at->kind == Kind::list) {
      const std::size_t count = at->items.size();
      at = item_of(*at, parts[depth]);
      if (at == nullptr)
        return Miss{depth, before + " is a list without this entry", {}, entries_text(count)};
      continue;
    }
    if (at == &absent && is_list(parts, depth))
      return Miss{depth,
                  before + " is a list, of which the file has no entry",
                  {},
                  "give all of it: --set " + joined(parts, depth) + "=[VALUE]"};
    const YamlNode* next = at->find(parts[depth]);
    const std::vector<std::string> keys = keys_at(parts, depth);
    const bool is_name = depth == 1 && is_names(parts[0]);
    const bool is_known = keys.empty() || std::ranges::find(keys, parts[depth]) != keys.end();
    if (next == nullptr && (is_name || !is_known)) {
      Miss miss{depth, "there is no " + in_quotes(joined(parts, depth + 1)), keys};
      for (const YamlEntry& entry : at->entries) miss.known.push_back(entry.key.scalar);
      return miss;
    }
    at = next == nullptr ? &absent : next;
  }
  return std::nullopt;
}

std::optional<Overrides::Miss> Overrides::put(YamlNode& root, std::size_t index,
                                              Diagnostics& diagnostics) const {
  const std::vector<std::string> parts = parts_of(all_[index].path);
  if (std::optional<Miss> miss = look_up(root, parts)) return miss;
  const Mark mark{first_line + static_cast<std::uint32_t>(index), 1, 1};
  Diagnostics wrong;
  YamlNode value = read_yaml(all_[index].value, wrong);
  place(value, mark);
  for (Diagnostic& d : wrong) {
    d.mark = mark;
    report(diagnostics, d);
  }
  if (has_errors(wrong)) return std::nullopt;
  YamlNode* at = &root;
  for (const std::string& part : parts) {
    const bool in_list = at->kind == Kind::list;
    YamlNode* next = const_cast<YamlNode*>(in_list ? item_of(*at, part) : at->find(part));
    if (next == nullptr) {
      if (at->kind != Kind::map) at->mark = mark;
      at->kind = Kind::map;
      YamlNode key;
      key.kind = Kind::scalar;
      key.mark = mark;
      key.scalar = part;
      next = &at->entries.emplace_back(YamlEntry{std::move(key), {}}).value;
    }
    at = next;
  }
  *at = std::move(value);
  return std::nullopt;
}

void Overrides::apply(YamlNode& root, bool included, Diagnostics& diagnostics) {
  if (root.kind != Kind::map) return;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    const std::vector<std::string> parts = parts_of(all_[i].path);
    if (included && parts[0] != "roles" && parts[0] != "global_params") continue;
    std::optional<Miss> miss = put(root, i, diagnostics);
    done_[i].applied = done_[i].applied || !miss.has_value();
    // What an included file lacks says nothing, unless the name is that file's.
    if (miss.has_value() && (!included || miss->depth > 1)) done_[i].miss = std::move(miss);
  }
}

void Overrides::report_rest(const WorkflowSpec& spec, Diagnostics& diagnostics) const {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (done_[i].applied || !done_[i].miss.has_value()) continue;
    Miss miss = *done_[i].miss;
    std::vector<std::string> parts = parts_of(all_[i].path);
    if (miss.depth == 1 && parts[0] == "roles")
      for (const RoleSpec& role : spec.roles) miss.known.push_back(role.name.text);
    if (miss.depth == 1 && parts[0] == "global_params")
      for (const GlobalParamSpec& param : spec.global_params) miss.known.push_back(param.name.text);
    std::ranges::sort(miss.known);
    miss.known.erase(std::unique(miss.known.begin(), miss.known.end()), miss.known.end());
    const std::string near =
        nearest_name(parts[miss.depth], {miss.known.begin(), miss.known.end()});
    std::string help = miss.help;
    for (const std::string& known : miss.known)
      help += (help.empty() ? "there are " : ", ") + known;
    if (!near.empty()) {
      std::string& part = parts[miss.depth];
      // Others write name[0].
      const bool is_indexed = part.starts_with(near + "[") && part.ends_with(']');
      part = is_indexed ? near + "." + part.substr(near.size() + 1, part.size() - near.size() - 2)
                        : near;
      help = "did you mean '" + joined(parts, parts.size()) + "'?";
    }
    report(diagnostics, {Severity::error,
                         {first_line + static_cast<std::uint32_t>(i), 1, 1},
                         "unknown-path",
                         miss.what,
                         help});
  }
}

void Overrides::name(Diagnostics& diagnostics) const {
  for (Diagnostic& d : diagnostics) {
    if (d.mark.line < first_line) continue;
    d.message = text_of(all_[d.mark.line - first_line]) + ": " + d.message;
    d.mark = {};
  }
}

}  // namespace sluice
