#include "dataplane/page_key.h"

#include "base/sha256.h"

namespace sluice {
namespace {

constexpr std::size_t block_bytes = 64;  // of SHA-256

void append(std::string& text, std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8) text += static_cast<char>(number >> shift & 0xff);
}

}  // namespace

PageKey PageKeys::mac(std::string_view message) const {
  std::string inner(block_bytes, '\x36'), outer(block_bytes, '\x5c');
  for (std::size_t i = 0; i < secret_.size(); ++i) {
    inner[i] = static_cast<char>(secret_[i] ^ 0x36);
    outer[i] = static_cast<char>(secret_[i] ^ 0x5c);
  }
  inner += message;
  for (const std::uint8_t byte : sha256(inner)) outer += static_cast<char>(byte);
  const std::array<std::uint8_t, 32> digest = sha256(outer);
  PageKey key;
  for (std::size_t i = 0; i < digest.size(); ++i)
    key.words[i / 8] = key.words[i / 8] << 8 | digest[i];
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
  std::string message = "page";
  for (const std::uint64_t word : parent.words) append(message, word);
  message += content;
  return mac(message);
}

}  // namespace sluice
