#include "cli/terminal_text.h"

#include <cstdio>

namespace sluice::cli {

namespace {

/// Calls `plain` with each byte that is none, `control` with a control character's code.
template <typename Plain, typename Control>
void each(std::string_view text, const Plain& plain, const Control& control) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f) {
      control(c);
    } else if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
      control(next);
      ++i;
    } else {
      plain(text[i]);
    }
  }
}

}  // namespace

std::string plain_text(std::string_view text) {
  std::string plain;
  each(
      text, [&](char c) { plain += c; }, [](unsigned) {});
  return plain;
}

std::string escaped_text(std::string_view text) {
  std::string all;
  each(
      text, [&](char c) { all += c; },
      [&](unsigned code) {
        char shown[8];
        std::snprintf(shown, sizeof shown, "\\x%02x", code);
        all += shown;
      });
  return all;
}

std::string escaped_line(std::string_view text) {
  std::string line;
  for (const char c : escaped_text(text))
    if (c == '\n' || c == '\t')
      line += c == '\n' ? "\\n" : "\\t";
    else
      line += c;
  return line;
}

}  // namespace sluice::cli
