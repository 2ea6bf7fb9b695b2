#include <algorithm>
#include <tuple>

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
  if (source.ends_with('\r')) source.remove_suffix(1);
  return source;
}

/// Length of the UTF-8 sequence at the start of `text`; 0 when it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t length = byte(0) < 0x80                      ? 1
                             : byte(0) >= 0xf0 && byte(0) < 0xf5 ? 4
                             : byte(0) >= 0xe0                   ? 3
                             : byte(0) >= 0xc2                   ? 2
                                                                 : 0;
  if (length == 0 || byte(0) >= 0xf5 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  return length;
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

std::string diagnostic_text(const Diagnostic& d, std::string_view file, std::string_view source) {
  std::string text(file);
  if (d.mark.line > 0)
    text += ":" + std::to_string(d.mark.line) + ":" + std::to_string(d.mark.column);
  text += ": " + std::string(severity_name(d.severity)) + ": " + d.message + " [" + d.code + "]\n";
  const std::string_view line = d.mark.line > 0 ? line_of(source, d.mark.line) : "";
  if (!line.empty()) {
    const std::size_t column = std::min<std::size_t>(d.mark.column - 1, line.size());
    text += "  " + std::string(line) + "\n  ";
    // Tabs stay tabs and a character of several bytes takes one place, so the caret stands right.
    for (const char c : line.substr(0, column))
      if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80) text += c == '\t' ? '\t' : ' ';
    const std::size_t length =
        std::clamp<std::size_t>(d.mark.length, 1, std::max<std::size_t>(1, line.size() - column));
    text += "^" + std::string(length - 1, '~') + "\n";
  }
  if (!d.suggestion.empty()) text += "  help: " + d.suggestion + "\n";
  return text;
}

std::string diagnostic_json(const Diagnostic& d, std::string_view file) {
  return "{\"file\":" + json_quote(file) + ",\"line\":" + std::to_string(d.mark.line) +
         ",\"column\":" + std::to_string(d.mark.column) + ",\"severity\":\"" +
         std::string(severity_name(d.severity)) + "\",\"code\":" + json_quote(d.code) +
         ",\"message\":" + json_quote(d.message) + ",\"suggestion\":" + json_quote(d.suggestion) +
         "}";
}

std::string diagnostic_sarif(const Diagnostic& d, std::string_view file) {
  const std::string help = d.suggestion.empty() ? "" : " (" + d.suggestion + ")";
  return "{\"ruleId\":" + json_quote(d.code) + ",\"level\":\"" +
         std::string(severity_name(d.severity)) +
         "\",\"message\":{\"text\":" + json_quote(d.message + help) +
         "},\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":" +
         json_quote(file) +
         "},\"region\":{\"startLine\":" + std::to_string(std::max(1U, d.mark.line)) +
         ",\"startColumn\":" + std::to_string(std::max(1U, d.mark.column)) + "}}}]}";
}

}  // namespace sluice
