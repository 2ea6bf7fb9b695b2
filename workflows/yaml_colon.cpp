#include "workflows/yaml_colon.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>

#include "workflows/yaml_mistake.h"
#include "workflows/yaml_reader.h"

namespace sluice {

namespace {

/// Where the line above this one begins that says something; nothing: none does.
std::optional<std::size_t> line_above(std::string_view text, std::size_t line) {
  while (line > 0) {
    line = line < 2 ? 0 : text.rfind('\n', line - 2) + 1;  // npos + 1 is 0
    const std::size_t first = text.find_first_not_of(" -\t\r", line);
    if (text[first] != '\n' && text[first] != '#') return line;
  }
  return std::nullopt;
}

Diagnostic without_colon(std::string_view text, std::size_t at, std::string_view key,
                         std::string suggestion) {
  Diagnostic missing =
      syntax(text, at, "a ':' is missing behind " + in_quotes(key), std::move(suggestion));
  missing.mark.length = static_cast<std::uint32_t>(key.size());
  return missing;
}

/// What stands from `at` to the line's end, without a comment.
std::string_view said(std::string_view text, std::size_t at) {
  const std::string_view all = text.substr(at, text.find('\n', at) - at);
  const std::string_view before = all.substr(0, all.find(" #"));
  return before.substr(0, before.find_last_not_of(" \t\r") + 1);  // npos + 1 is 0
}

/// Above a list that ends with this entry, before a line that is no part of it: where the line
/// begins that should have said whose list it is. Nothing: the entry itself is looked at.
std::optional<std::size_t> line_above_list(std::string_view text, std::size_t line,
                                           std::size_t below) {
  const auto indent = [&](std::size_t at) { return text.find_first_not_of(' ', at) - at; };
  const std::size_t entry = text.find_first_not_of(' ', line);
  if (text[entry] != '-' || indent(below) > entry - line) return std::nullopt;
  std::optional<std::size_t> above = line;
  while (above && (indent(*above) > indent(below) || text[*above + indent(*above)] == '-'))
    above = line_above(text, *above);
  return above;
}

/// A key in this line that has no ':', or in one above it which the parser reads on from. `below`:
/// where the line begins whose ':' was not expected, if that is further down.
std::optional<Diagnostic> open_key(std::string_view text, std::size_t line,
                                   std::optional<std::size_t> below = {}) {
  const auto first = [&](std::size_t at) { return text.find_first_not_of(" -", at); };
  const auto is_opened = [&](std::size_t at) { return said(text, at).ends_with(':'); };
  const auto has_key = [&](std::size_t at) {
    return is_opened(at) || said(text, at).find(": ") != std::string_view::npos;
  };
  const auto indent = [&](std::size_t at) { return first(at) - at; };
  const auto is_entry = [&](std::size_t at) {
    return text.substr(at, indent(at)).find('-') != std::string_view::npos;
  };
  if (const auto owner = below ? line_above_list(text, line, *below) : std::nullopt)
    if (auto found = word_without_colon(text, first(*owner))) return found;
  std::optional<std::size_t> above = line_above(text, line);
  while (above && !is_entry(line) && !has_key(line) && !has_key(*above) &&
         indent(*above) <= indent(line)) {
    line = *above;
    above = line_above(text, line);
  }
  // Further in than a line that has its value, it goes on with that.
  const bool begins =
      !above || is_entry(line) || is_opened(*above) || indent(line) <= indent(*above);
  if (!begins) return std::nullopt;
  auto found = key_without_colon(text, first(line));
  return found || !below ? found : word_without_colon(text, first(line));
}

}  // namespace

std::optional<Diagnostic> long_key(std::string_view text, std::size_t byte) {
  constexpr std::size_t key_max = 1024;
  const std::size_t before = text.substr(0, byte).find_last_of("\n{[,") + 1;  // npos + 1 is 0
  const std::size_t first = std::min(text.find_first_not_of(' ', before), byte);
  if (byte - first <= key_max) return std::nullopt;
  return syntax(text, first, "this key is longer than " + std::to_string(key_max) + " bytes",
                "a name has at most 64 characters");
}

std::optional<Diagnostic> key_without_colon(std::string_view text, std::size_t at) {
  const std::string_view line = text.substr(at, text.find('\n', at) - at);
  const std::size_t end =
      std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), line.size());
  const std::string_view key = line.substr(0, end), rest = line.substr(end);
  const std::size_t next = rest.find_first_not_of(" \t\r");
  if (!is_name(key) || next == std::string_view::npos || rest[next] == '#') return std::nullopt;
  if (rest.starts_with("\xef\xbc\x9a"))
    return syntax(text, at + end, "this is the ':' of another script (U+FF1A)",
                  "write ':' and a space in its place");
  const bool colon = rest[next] == ':';
  const bool wide = wide_space(rest.substr(colon ? next + 1 : 0)) > 0;
  if (colon && wide)
    return syntax(text, at + end + next, "a plain space must follow this ':'",
                  "write a plain space in place of the no-break space");
  if (colon || (!wide && std::string_view(" \t=[{").find(rest[0]) == std::string_view::npos))
    return std::nullopt;
  return without_colon(text, at, key,
                       rest[next] == '=' ? "write ':' and a space in place of the '='"
                                         : "write a ':' behind the key");
}

std::optional<Diagnostic> word_without_colon(std::string_view text, std::size_t at) {
  const std::string_view word = said(text, at);
  if (!is_name(word)) return std::nullopt;
  return without_colon(text, at, word,
                       "write a ':' behind it, and its value behind that or in the lines below");
}

std::optional<Diagnostic> missing_colon(std::string_view text, std::size_t byte,
                                        std::optional<std::size_t> bracket) {
  if (bracket)
    if (auto found = open_key(text, line_of(text, *bracket))) return found;
  const std::size_t line = line_of(text, byte);
  if (text.substr(line, byte - line).find(": ") != std::string_view::npos) return std::nullopt;
  const auto above = line_above(text, line);
  return above ? open_key(text, *above, line) : std::nullopt;
}

std::optional<Diagnostic> glued_bracket(std::string_view text, std::size_t byte,
                                        std::optional<std::size_t> outer) {
  if (byte >= text.size() || (text[byte] != '[' && text[byte] != '{')) return std::nullopt;
  const std::size_t sign = text.substr(0, byte).find_last_not_of(' ');
  if (sign == std::string_view::npos) return std::nullopt;
  if (text[sign] == ':' && sign + 1 == byte)
    return syntax(text, sign, "a space must follow this ':'",
                  std::string("write `: ") + text[byte] + "` in place of `:" + text[byte] + "`");
  if (text[sign] == '=')
    return syntax(text, sign, "a ':' is missing here", "write ':' and a space in place of the '='");
  const std::size_t key = text.find_last_of("{[,\n", sign);
  if (!outer || text[*outer] != '{' || key == std::string_view::npos) return std::nullopt;
  return key_without_colon(text, text.find_first_not_of(" \t", key + 1));
}

bool is_glued_key(std::string_view text, std::size_t bracket) {
  if (bracket < 2 || text[bracket - 1] != ':') return false;
  const std::size_t before = text.substr(0, bracket - 1).find_last_of(" \n") + 1;  // npos + 1: 0
  return is_name(text.substr(before, bracket - 1 - before));
}

std::optional<Diagnostic> glued_above(std::string_view text, std::size_t byte) {
  const std::size_t line = line_of(text, byte);
  const std::size_t last = text.substr(0, line).find_last_not_of(" \t\r\n");
  if (last == std::string_view::npos) return std::nullopt;
  std::size_t at = text.find_first_not_of(" -", line_of(text, last + 1));
  const std::string_view above = text.substr(at, last + 1 - at);
  const std::size_t colon = above.find(':');
  if (colon == std::string_view::npos || colon + 1 == above.size() ||
      std::isalnum(static_cast<unsigned char>(above[colon + 1])) == 0 ||
      !is_name(above.substr(0, colon)))
    return std::nullopt;
  return syntax(text, at + colon, "a space must follow this ':'",
                "write " + std::string(above.substr(0, colon)) + ": " +
                    std::string(above.size() - colon <= 60 ? above.substr(colon + 1) : "VALUE"));
}

std::optional<Diagnostic> two_keys(std::string_view text, std::size_t byte) {
  const std::size_t line = line_of(text, byte);
  const std::size_t at = std::min(text.find_first_not_of(" -", line), byte);
  const std::string_view head = text.substr(at, byte - at);
  const std::size_t colon = head.find(": ");
  const std::size_t second = head.find_first_not_of(' ', std::min(colon, head.size() - 1) + 1);
  if (colon == std::string_view::npos || second == std::string_view::npos ||
      !is_name(head.substr(0, colon)) || !is_name(head.substr(second)))
    return std::nullopt;
  const std::string key(head.substr(0, colon)), inner(head.substr(second));
  return syntax(
      text, byte, "this line has two keys, one as the value of the other",
      "write " + key + ": { " + inner + ": VALUE }, or `" + inner + ":` below it, indented");
}

}  // namespace sluice
