#include "dataplane/page_key.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice {
namespace {

constexpr std::string_view page_word = "page";
constexpr std::size_t words_bytes = 32;    // of a key
constexpr std::size_t usual_bytes = 1024;  // of what names a page

/// The lowest byte first.
void write_number(std::uint64_t number, char* to) {
  if constexpr (std::endian::native == std::endian::big) number = __builtin_bswap64(number);
  std::memcpy(to, &number, sizeof number);
}

void append(std::string& text, std::uint64_t number) {
  text.resize(text.size() + 8);
  write_number(number, &text[text.size() - 8]);
}

}  // namespace

PageKey PageKeys::mac(std::string_view message) const {
  const std::array<std::uint8_t, words_bytes> digest = mac_.of(message);
  PageKey key;
  std::memcpy(key.words.data(), digest.data(), digest.size());
  if constexpr (std::endian::native == std::endian::little)
    for (std::uint64_t& word : key.words) word = __builtin_bswap64(word);
  return key;
}

PageKey PageKeys::root(const PageScope& scope) const {
  std::string message = "scope";
  for (const std::string* field : {&scope.tenant, &scope.model, &scope.layout, &scope.dtype}) {
    append(message, field->size());
    message += *field;
  }
  return mac(message);
}

PageKey PageKeys::next(const PageKey& parent, std::string_view content) const {
  const std::size_t size = page_word.size() + words_bytes + content.size();
  std::array<char, usual_bytes> usual;
  std::string longer(size > usual.size() ? size : 0, '\0');
  char* const message = longer.empty() ? usual.data() : longer.data();
  char* to = std::ranges::copy(page_word, message).out;
  for (const std::uint64_t word : parent.words) {
    write_number(word, to);
    to += 8;
  }
  std::ranges::copy(content, to);
  return mac({message, size});
}

}  // namespace sluice
