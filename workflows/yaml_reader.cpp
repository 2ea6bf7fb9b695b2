#include "workflows/yaml_reader.h"

#include <algorithm>
#include <charconv>

namespace sluice {

using Kind = YamlNode::Kind;

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return "a single value";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
  }
  return "";
}

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > name_length_max || text[0] < 'a' || text[0] > 'z') return false;
  return std::ranges::all_of(
      text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

namespace {

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

bool YamlReader::expect(const YamlNode& node, YamlNode::Kind kind, const std::string& what) {
  if (node.kind == kind) return true;
  if (node.refused) return false;
  const bool dashes = kind == Kind::map && node.kind == Kind::list;
  error(node.mark, "wrong-kind",
        what + " must be " + std::string(kind_name(kind)) + ", this is " +
            std::string(kind_name(node.kind)),
        dashes ? "write `name: value` without the '-' or the [ ]" : "");
  return false;
}

void YamlReader::check_keys(const YamlNode& map, std::span<const std::string_view> known,
                            const std::string& where) {
  for (const auto& [key, value] : map.entries) {
    if (std::ranges::find(known, key.scalar) != known.end() || key.scalar == "<<") continue;
    const std::string near = nearest_name(key.scalar, {known.begin(), known.end()});
    const auto it = std::ranges::find(known, near);
    if (it != known.end() && map.find(near) == nullptr)
      meant_.emplace(std::pair(&map, *it), &value);
    std::string list;
    for (const std::string_view name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    std::string help = near.empty() ? "known keys: " + list : "did you mean '" + near + "'?";
    if (const std::size_t colon = key.scalar.find(':'); colon != std::string::npos) {
      const auto head = std::ranges::find(known, key.scalar.substr(0, colon));
      if (head != known.end()) {
        YamlNode& read = separated_.emplace_back(key);
        read.scalar = key.scalar.substr(colon + 1);
        meant_.emplace(std::pair(&map, *head), &read);
      }
      help = "a space must follow the ':' of a key";
    }
    // `plugin = name`: read as it is meant.
    if (const std::size_t equals = key.scalar.find('='); equals != std::string::npos) {
      const auto head = std::ranges::find(known, trimmed(key.scalar.substr(0, equals)));
      if (head != known.end()) {
        YamlNode& read = separated_.emplace_back(key);
        read.scalar = trimmed(key.scalar.substr(equals + 1));
        meant_.emplace(std::pair(&map, *head), &read);
        help = "write ':' and a space in place of the '='";
      }
    }
    error(key.mark, "unknown-key", "unknown key " + in_quotes(key.scalar) + " in " + where, help);
  }
}

const YamlNode* YamlReader::find(const YamlNode& map, std::string_view key) const {
  if (const YamlNode* value = map.find(key)) return value;
  const auto it = meant_.find({&map, key});
  return it == meant_.end() ? nullptr : it->second;
}

std::optional<Name> YamlReader::name(const YamlNode& node, const std::string& what) {
  if (!expect(node, Kind::scalar, what)) return std::nullopt;
  if (!is_name(node.scalar))
    error(node.mark, "bad-name", in_quotes(node.scalar) + " cannot be " + what,
          node.scalar.size() > name_length_max
              ? "a name has at most " + std::to_string(name_length_max) + " characters, this has " +
                    std::to_string(node.scalar.size())
              : "names are lower-case letters, digits and _, and begin with a letter");
  return Name{node.scalar, node.mark};
}

std::optional<std::int64_t> YamlReader::number(const YamlNode& node, const std::string& what,
                                               std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* end = node.scalar.data() + node.scalar.size();
  const auto [stop, failed] = std::from_chars(node.scalar.data(), end, value);
  if (node.kind == Kind::scalar && failed == std::errc() && stop == end && value >= least &&
      value <= most)
    return value;
  error(
      node.mark, "bad-number",
      what + " is " +
          (node.kind == Kind::scalar ? in_quotes(node.scalar) : std::string(kind_name(node.kind))) +
          ", it must be a whole number from " + std::to_string(least) + " to " +
          std::to_string(most));
  return std::nullopt;
}

std::optional<std::chrono::milliseconds> YamlReader::duration(const YamlNode& node,
                                                              const std::string& what,
                                                              std::int64_t least,
                                                              const char* at_most) {
  if (!expect(node, Kind::scalar, what)) return std::nullopt;
  const std::string& text = node.scalar;
  std::int64_t value = 0;
  const auto [unit, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view suffix(unit, static_cast<std::size_t>(text.data() + text.size() - unit));
  const std::int64_t scale = suffix == "ms" ? 1 : suffix == "s" ? 1000 : suffix == "m" ? 60'000 : 0;
  constexpr std::int64_t most = std::int64_t{24} * 60 * 60 * 1000;
  if (failed == std::errc() && scale != 0 && value >= least && value <= most / scale)
    return std::chrono::milliseconds(value * scale);
  const bool reads = failed == std::errc() && scale != 0;
  error(
      node.mark, "bad-duration",
      what + " is " + in_quotes(text) + ", which is " +
          (!reads          ? "not a duration"
           : value < least ? "less than " + std::to_string(least) + "ms"
                           : "more than a day"),
      std::string("write a whole number and ms, s or m, at most ") + at_most + ": 500ms, 30s, 2m");
  return std::nullopt;
}

}  // namespace sluice
