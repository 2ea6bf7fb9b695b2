#include "workflows/yaml_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/utf8.h"

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

std::string in_template(std::string_view text) {
  const bool marked = text.starts_with('$') || text.starts_with("{{");
  const std::size_t first = text.find_first_not_of("${ ");
  const std::size_t end = text.find_last_not_of("} ");
  if (!marked || first == std::string_view::npos || end == std::string_view::npos || end < first)
    return "";
  const std::string_view inside = text.substr(first, end + 1 - first);
  const std::size_t dot = inside.find('.');
  const bool names = dot != std::string_view::npos && is_name(inside.substr(0, dot)) &&
                     is_name(inside.substr(dot + 1));
  return names ? std::string(inside) : "";
}

namespace {

/// Without the spaces around it, no-break ones too, and without typographic quotes.
std::string trimmed(std::string_view text) {
  for (bool cut = true; cut;) {
    cut = false;
    for (const std::string_view mark :
         {" ", "\xc2\xa0", "\xe2\x80\x9c", "\xe2\x80\x9d", "\xe2\x80\x98", "\xe2\x80\x99"}) {
      const bool first = text.starts_with(mark);
      if (!first && !text.ends_with(mark)) continue;
      if (first)
        text.remove_prefix(mark.size());
      else
        text.remove_suffix(mark.size());
      cut = true;
    }
  }
  return std::string(text);
}

/// Without quotes that stand around all of it, which were not read as such.
std::string unquoted(const std::string& text) {
  const bool quoted =
      text.size() > 1 && (text[0] == '"' || text[0] == '\'') && text.back() == text[0];
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// How to write `( a, b )` as a list.
std::string in_square_brackets(std::string_view text) {
  const std::size_t first = std::min(text.find_first_not_of("( "), text.size());
  const std::size_t end = text.find_last_not_of(") ") + 1;  // npos + 1 is 0
  const std::string inside(text.substr(first, std::max(first, end) - first));
  const bool plain = text.ends_with(')') && !inside.empty() && inside.size() <= 100 &&
                     inside.find_first_of("\n()[]{}\"':#") == std::string::npos;
  return plain ? "write [ " + inside + " ]" : "write its entries in [ ]";
}

/// How to write what is expected in place of what stands there.
std::string help_for(const YamlNode& node, Kind expected) {
  const bool plain = node.kind == Kind::scalar && !node.scalar.empty() &&
                     node.scalar.size() <= 100 &&
                     node.scalar.find_first_of("\n\r,[]{}\"'#&*!|>%@`") == std::string::npos &&
                     node.scalar.find(": ") == std::string::npos;
  if (expected == Kind::list && node.kind == Kind::scalar && !node.quoted &&
      node.scalar.starts_with('('))
    return "round brackets mean nothing: " + in_square_brackets(node.scalar);
  const std::size_t colon = node.scalar.find(':');
  if (expected == Kind::map && plain && colon != std::string::npos &&
      is_name(node.scalar.substr(0, colon)) && colon + 1 < node.scalar.size())
    return "a space must follow the ':': write " + node.scalar.substr(0, colon) + ": " +
           node.scalar.substr(colon + 1);
  if (expected == Kind::map)
    return node.kind == Kind::list   ? "write `name: value` without the '-' or the [ ]"
           : node.kind == Kind::null ? "write its entries below it, indented, or in { }"
                                     : "write `name: value`, in { } or indented below it";
  if (expected == Kind::list)
    return node.kind == Kind::map ? "put '- ' before the first line of each entry, its other lines "
                                    "indented; or write [ ]"
           : plain                ? "write [ " + node.scalar + " ]"
                                  : "write its entries in [ ], or below it, each behind a '- '";
  if (node.kind == Kind::null)
    return node.in_list ? "write a value, or leave the entry out" : "write a value behind the ':'";
  return node.kind == Kind::list ? "write one value, without the '-' or the [ ]"
                                 : "write one value, without { } or keys of its own";
}

/// What other programs call this key, when it stands here under its own name nowhere yet.
std::string called_elsewhere(const YamlNode& map, std::string_view key,
                             std::span<const std::string_view> known) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> others{
      {{"type", "plugin"},
       {"kind", "plugin"},
       {"checkpoint", "model"},
       {"path", "model"},
       {"params", "global_params"},
       {"parameters", "options"},
       {"config", "options"},
       {"args", "options"},
       {"instances", "replicas"},
       {"timeout", "deadline"},
       {"needs", "inputs"},
       {"from", "inputs"},
       {"steps", "nodes"},
       {"includes", "include"},
       {"version", "sluice"},
       {"description", "meaning"}}};
  for (const auto& [other, ours] : others)
    if (other == key && std::ranges::find(known, ours) != known.end() && map.find(ours) == nullptr)
      return std::string(ours);
  return "";
}

/// Of the known keys the one below which this one belongs; empty: none.
std::string_view belongs_to(std::string_view key, std::span<const std::string_view> known) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> inner{
      {{"deadline", "limits"},
       {"loop_iterations", "limits"},
       {"frames", "limits"},
       {"session_idle", "limits"},
       {"firings", "expect"}}};
  for (const auto& [name, holder] : inner)
    if (name == key && std::ranges::find(known, holder) != known.end()) return holder;
  return "";
}

}  // namespace

std::string misleading_character(std::string_view text) {
  constexpr std::array<std::pair<char32_t, char32_t>, 10> ranges{
      {{0x00a0, 0x00a0},  // a space that is no space
       {0x00ad, 0x00ad},  // a hyphen that is not shown
       {0x0370, 0x052f},  // Greek and Cyrillic letters
       {0x200b, 0x200f},  // no width, or a direction
       {0x202a, 0x202e},
       {0x2060, 0x2064},
       {0xfeff, 0xfeff},
       {0xff01, 0xff5e},    // wide forms of ASCII
       {0x2018, 0x201f},    // typographic quotes
       {0x2010, 0x2015}}};  // dashes
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text.substr(i)));
    char32_t code = static_cast<unsigned char>(text[i]) & (0xffU >> (length == 1 ? 0 : length + 1));
    for (std::size_t at = 1; at < length; ++at)
      code = code << 6U | (static_cast<unsigned char>(text[i + at]) & 0x3fU);
    if (std::ranges::any_of(ranges, [&](auto r) { return code >= r.first && code <= r.second; })) {
      std::array<char, 16> name{};
      std::snprintf(name.data(), name.size(), "U+%04X", static_cast<unsigned>(code));
      return name.data();
    }
    i += length;
  }
  return "";
}

bool YamlReader::expect(const YamlNode& node, YamlNode::Kind kind, const std::string& what,
                        const std::string& suggestion) {
  if (node.kind == kind) return true;
  if (node.refused) return false;
  error(node.mark, "wrong-kind",
        what + " must be " + std::string(kind_name(kind)) + ", this is " +
            std::string(kind_name(node.kind)),
        suggestion.empty() ? help_for(node, kind) : suggestion);
  return false;
}

const YamlEntry& YamlReader::parted(const YamlEntry& entry) {
  constexpr std::string_view signs = ": =";
  const auto& [key, value] = entry;
  const std::string& text = key.scalar;
  const std::size_t at = text.find_first_of(signs);
  if (value.kind != Kind::null || key.quoted || key.refused || at == std::string::npos ||
      !is_name(text.substr(0, at)))
    return entry;
  const std::size_t rest = std::min(text.find_first_not_of(signs, at), text.size());
  const std::string between = text.substr(at, rest - at);
  YamlEntry& parts = parted_.emplace_back(entry);
  parts.key.scalar.resize(at);
  if (rest < text.size()) {
    parts.value = key;
    parts.value.scalar = unquoted(trimmed(text.substr(rest)));
  }
  const bool colon = between.find(':') != std::string::npos;
  const bool equals = !colon && between.find('=') != std::string::npos;
  error(key.mark, colon ? "missing-space" : "missing-colon",
        colon ? "a space must follow the ':' in " + in_quotes(text)
              : "a ':' is missing in " + in_quotes(text),
        equals ? "write ':' and a space in place of the '='"
               : "write " + parts.key.scalar + ": " +
                     (rest < text.size() ? parts.value.scalar : "VALUE"));
  return parts;
}

/// `a:b`, `a = b` and a ':' of another script: the key and the value that they hold are read as
/// such.
void YamlReader::read_what_was_meant(const YamlNode& map, const YamlNode& key,
                                     const YamlNode& value, std::span<const std::string_view> known,
                                     std::string& help) {
  struct Glue {
    std::string_view mark;
    std::string_view help;
  };
  constexpr std::string_view wide_colon = "\xef\xbc\x9a";
  for (const auto& [mark, words] :
       {Glue{":", "a plain space must follow the ':' of a key"},
        Glue{"=", "write ':' and a space in place of the '='"},
        Glue{" ", "write a ':' behind the key"},
        Glue{wide_colon, "write ':' in place of the ':' of another script (U+FF1A)"}}) {
    const std::size_t at = key.scalar.find(mark);
    if (at == std::string::npos) continue;
    const std::string rest = unquoted(trimmed(key.scalar.substr(at + mark.size())));
    const bool opens = rest.starts_with('{') || rest.starts_with('[');
    // With a value of its own the key is a wrong one, not two words.
    if (mark == " " && value.kind != Kind::null && !opens) continue;
    const auto head = std::ranges::find(known, trimmed(key.scalar.substr(0, at)));
    if (mark == wide_colon || head != known.end()) help = words;
    if (head == known.end()) continue;
    YamlNode& read = separated_.emplace_back(key);
    read.scalar = rest;
    // More than a word: what it was to be is not known.
    read.refused = opens || value.kind != Kind::null;
    if (read.refused) read.kind = Kind::null;
    return read_as(map, *head, read);
  }
}

void YamlReader::check_keys(const YamlNode& map, std::span<const std::string_view> known,
                            const std::string& where) {
  for (const auto& [key, value] : map.entries) {
    if (std::ranges::find(known, key.scalar) != known.end() || key.scalar == "<<" || key.refused)
      continue;
    std::string meant;
    read_what_was_meant(map, key, value, known, meant);
    std::string near = nearest_name(trimmed(key.scalar), {known.begin(), known.end()});
    if (near.empty()) near = called_elsewhere(map, key.scalar, known);
    const auto it = std::ranges::find(known, near);
    if (it != known.end() && map.find(near) == nullptr) read_as(map, *it, value);
    std::string list;
    for (const std::string_view name : known)
      list += (list.empty() ? "" : ", ") + std::string(name);
    std::string help = near.empty() ? "known keys: " + list : "did you mean '" + near + "'?";
    const std::string_view holder = belongs_to(key.scalar, known);
    if (near.empty() && !holder.empty()) help = "it is a key of '" + std::string(holder) + "'";
    if (const std::string odd = misleading_character(key.scalar); !odd.empty())
      help += " This has the character " + odd + ": type it anew";
    const bool digits = !key.scalar.empty() && key.scalar[0] >= '0' && key.scalar[0] <= '9';
    if (digits && value.kind == Kind::null)
      help = "a ',' ends the value before it: write a '.' in a number with a fraction";
    error(key.mark, "unknown-key", "unknown key " + in_quotes(key.scalar) + " in " + where,
          meant.empty() ? help : meant);
  }
}

const YamlNode* YamlReader::find(const YamlNode& map, std::string_view key) const {
  if (const YamlNode* value = map.find(key)) return value;
  const auto it = meant_.find({&map, key});
  return it == meant_.end() ? nullptr : it->second;
}

bool YamlReader::lacks_colon(const YamlNode& key) {
  const std::size_t brace = key.scalar.find('{');
  std::string before = trimmed(key.scalar.substr(0, brace));
  const bool glued = before.ends_with(':');
  if (glued) before.pop_back();
  if (key.kind != Kind::scalar || brace == std::string::npos || !is_name(before)) return false;
  if (glued)
    error(key.mark, "missing-space", "a space must follow the ':' behind '" + before + "'",
          "write " + before + ": { ... }");
  else
    error(key.mark, "missing-colon", "a ':' is missing behind '" + before + "'",
          "write " + before + ": { ... }");
  return true;
}

std::optional<Name> YamlReader::name(const YamlNode& node, const std::string& what) {
  if (!expect(node, Kind::scalar, what)) return std::nullopt;
  const std::string odd = misleading_character(node.scalar);
  if (!is_name(node.scalar))
    error(node.mark, "bad-name", in_quotes(node.scalar) + " cannot be " + what,
          node.scalar.size() > name_length_max
              ? "a name has at most " + std::to_string(name_length_max) + " characters, this has " +
                    std::to_string(node.scalar.size())
              : "names are lower-case letters, digits and _, and begin with a letter" +
                    (odd.empty() ? "" : "; this has the character " + odd));
  return Name{node.scalar, node.mark};
}

std::optional<std::int64_t> YamlReader::number(const YamlNode& node, const std::string& what,
                                               std::int64_t least, std::int64_t most,
                                               const std::string& suggestion) {
  if (node.refused) return std::nullopt;
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
          ", it must be " +
          (least == most
               ? std::to_string(least)
               : "a whole number from " + std::to_string(least) + " to " + std::to_string(most)),
      suggestion);
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
  const bool reads = failed != std::errc::invalid_argument && scale != 0;
  constexpr std::int64_t most = std::int64_t{24} * 60 * 60 * 1000;
  if (failed == std::errc::result_out_of_range) value = text.starts_with('-') ? -most : most + 1;
  const std::int64_t milliseconds = std::clamp(value, -most, most + 1) * scale;
  if (reads && milliseconds <= most && (milliseconds >= least || at_most != nullptr))
    return std::chrono::milliseconds(milliseconds);
  const std::string most_words = at_most == nullptr ? "a day" : at_most;
  error(node.mark, "bad-duration",
        what + " is " + in_quotes(text) + ", which is " +
            (!reads                ? "not a duration"
             : milliseconds > most ? "more than " + most_words
                                   : "less than " + std::to_string(least) + "ms"),
        "write a whole number and ms, s or m, at most " + most_words + ": 500ms, 30s, 2m");
  return std::nullopt;
}

}  // namespace sluice
