#include "plugin/text.h"

#include "base/utf8.h"

namespace sluice {

std::optional<std::string_view> text_of(const sluice_text& text, std::size_t bytes_max) {
  if (text.size == 0) return std::string_view();
  if (text.data == nullptr || text.size > bytes_max) return std::nullopt;
  return std::string_view(text.data, text.size);
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const bool control = static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f;
    if (length == 0 || control)
      line += text[0] == '\n' || text[0] == '\t' ? ' ' : '?';
    else
      line += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return line;
}

}  // namespace sluice
