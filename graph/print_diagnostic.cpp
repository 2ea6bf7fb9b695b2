#include <algorithm>
#include <tuple>
#include <vector>

#include "base/utf8.h"
#include "graph/print.h"

namespace sluice {

namespace {

std::string_view severity_name(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

std::string_view line_of(std::string_view source, std::uint32_t line) {
  for (; line > 1; --line) {
    const std::size_t end = source.find('\n');
    if (end == std::string_view::npos) return {};
    source.remove_prefix(end + 1);
  }
  source = source.substr(0, source.find('\n'));
  if (source.starts_with("\xef\xbb\xbf")) source.remove_prefix(3);
  if (source.ends_with('\r')) source.remove_suffix(1);
  return source;
}

/// One character as a terminal may show it: control bytes and bytes that are not UTF-8 as \\xNN.
std::string shown(std::string_view character) {
  static constexpr std::string_view hex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(character[0]);
  const bool c1 =
      character.size() == 2 && byte == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
  if (character != "\t" && byte >= 0x20 && byte != 0x7f && !c1 &&
      (byte < 0x80 || character.size() > 1))
    return std::string(character);
  if (character == "\t") return "\t";
  const auto last = static_cast<unsigned char>(character.back());
  return std::string("\\x") + hex[last >> 4U] + hex[last & 15U];
}

std::vector<std::string> characters_of(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text));
    characters.push_back(shown(text.substr(0, length)));
    text.remove_prefix(length);
  }
  return characters;
}

std::string printable(std::string_view text) {
  std::string all;
  for (const std::string& character : characters_of(text))
    all += character == "\t" ? " " : character;
  return all;
}

/// The part of the line around the mark, and a caret below it. A long line is cut on both sides.
std::string line_with_caret(std::string_view line, const Mark& mark) {
  constexpr std::size_t widest = 160;
  constexpr std::size_t before = 60;
  const std::vector<std::string> characters = characters_of(line);
  const std::size_t column = std::min<std::size_t>(mark.column - 1, characters.size());
  const bool whole = characters.size() <= widest;
  const std::size_t from = whole || column < before ? 0 : column - before;
  const std::size_t to = whole ? characters.size() : std::min(from + widest, characters.size());
  std::string text = from > 0 ? "  ..." : "  ";
  std::string caret = from > 0 ? "     " : "  ";
  std::size_t length = 0;
  for (std::size_t i = from; i < to; ++i) {
    text += characters[i];
    const std::size_t width = characters[i][0] == '\\' ? characters[i].size() : 1;
    if (i < column)
      caret += characters[i] == "\t" ? "\t" : std::string(width, ' ');
    else if (i < column + mark.length)
      length += width;
  }
  text += to < characters.size() ? "...\n" : "\n";
  return text + caret + "^" + std::string(std::max<std::size_t>(1, length) - 1, '~') + "\n";
}

std::string_view name_of(const Mark& mark, std::string_view file, const IncludedFiles& included) {
  return file_of(mark) == 0 ? file : std::string_view(included[file_of(mark) - 1].name);
}

/// "file:line:column" of each include that leads to the mark's file, the last one first.
std::vector<std::string> includes_of(const Mark& mark, std::string_view file,
                                     const IncludedFiles& included) {
  std::vector<std::string> places;
  for (Mark at = mark; file_of(at) != 0;) {
    const Mark by = at = included[file_of(at) - 1].at;
    places.push_back(place_text(by, file, included) + ":" + std::to_string(by.column));
  }
  return places;
}

}  // namespace

std::string json_quote(std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', text[0]};
    } else if (c < 0x20) {
      out += "\\u00";
      out += {hex[c >> 4U], hex[c & 15U]};
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out + '"';
}

void sort_diagnostics(Diagnostics& diagnostics) {
  std::ranges::stable_sort(diagnostics, [](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(a.mark.line, a.mark.column, a.severity) <
           std::tuple(b.mark.line, b.mark.column, b.severity);
  });
}

std::string place_text(const Mark& mark, std::string_view file, const IncludedFiles& included) {
  return printable(name_of(mark, file, included)) +
         (mark.line > 0 ? ":" + std::to_string(line_in_file(mark)) : "");
}

std::string diagnostic_text(const Diagnostic& d, std::string_view file, std::string_view source,
                            const IncludedFiles& included) {
  std::string text = place_text(d.mark, file, included);
  if (d.mark.line > 0) text += ":" + std::to_string(d.mark.column);
  if (file_of(d.mark) != 0) source = included[file_of(d.mark) - 1].text;
  text += ": " + std::string(severity_name(d.severity)) + ": " + printable(d.message) + " [" +
          d.code + "]\n";
  const std::string_view line = d.mark.line > 0 ? line_of(source, line_in_file(d.mark)) : "";
  if (!line.empty()) text += line_with_caret(line, d.mark);
  for (const std::string& place : includes_of(d.mark, file, included))
    text += "  included from " + place + "\n";
  if (!d.suggestion.empty()) text += "  help: " + printable(d.suggestion) + "\n";
  return text;
}

std::string diagnostics_text(const Diagnostics& diagnostics, std::string_view file,
                             std::string_view source, const IncludedFiles& included) {
  constexpr std::size_t shown_max = 20;
  // Where not all are shown, warnings give way to errors; either stand in the file's order.
  const auto errors = static_cast<std::size_t>(
      std::ranges::count(diagnostics, Severity::error, &Diagnostic::severity));
  std::size_t errors_left = std::min(errors, shown_max);
  std::size_t warnings_left = shown_max - errors_left;
  std::string text;
  for (const Diagnostic& d : diagnostics) {
    std::size_t& left = d.severity == Severity::error ? errors_left : warnings_left;
    if (left == 0) continue;
    --left;
    text += diagnostic_text(d, file, source, included);
  }
  if (diagnostics.size() > shown_max)
    text += printable(file) + ": and " + (is_full(diagnostics) ? "at least " : "") +
            std::to_string(diagnostics.size() - shown_max) + " more; mend these first\n";
  return text;
}

std::string diagnostic_json(const Diagnostic& d, std::string_view file,
                            const IncludedFiles& included) {
  std::string from;
  for (const std::string& place : includes_of(d.mark, file, included))
    from += (from.empty() ? ",\"included_from\":[" : ",") + json_quote(place);
  if (!from.empty()) from += "]";
  return "{\"file\":" + json_quote(name_of(d.mark, file, included)) +
         ",\"line\":" + std::to_string(line_in_file(d.mark)) +
         ",\"column\":" + std::to_string(d.mark.column) + ",\"severity\":\"" +
         std::string(severity_name(d.severity)) + "\",\"code\":" + json_quote(d.code) +
         ",\"message\":" + json_quote(d.message) + ",\"suggestion\":" + json_quote(d.suggestion) +
         from + "}";
}

}  // namespace sluice
