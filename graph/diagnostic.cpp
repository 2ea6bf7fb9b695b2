#include "graph/diagnostic.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace sluice {

namespace {

/// `text` up to `most` bytes, not through the middle of a character.
std::string_view head(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && utf8_continues(text[most])) --most;
  return text.substr(0, most);
}

void shorten(std::string& text) {
  constexpr std::size_t tail = 100;
  if (text.size() <= diagnostic_bytes_max) return;
  std::size_t from = text.size() - tail;
  while (from < text.size() && utf8_continues(text[from])) ++from;
  text = std::string(head(text, diagnostic_bytes_max - tail - 5)) + " ... " + text.substr(from);
}

}  // namespace

bool has_errors(const Diagnostics& diagnostics) {
  return std::ranges::any_of(diagnostics,
                             [](const Diagnostic& d) { return d.severity == Severity::error; });
}

void report(Diagnostics& diagnostics, Diagnostic diagnostic) {
  if (is_full(diagnostics) && (diagnostic.severity == Severity::warning || has_errors(diagnostics)))
    return;
  shorten(diagnostic.message);
  shorten(diagnostic.suggestion);
  diagnostics.push_back(std::move(diagnostic));
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  const std::string_view shown = head(text, longest);
  return "'" + std::string(shown) + (shown.size() < text.size() ? "...'" : "'");
}

}  // namespace sluice
