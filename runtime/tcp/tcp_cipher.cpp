#include "runtime/tcp/tcp_cipher.h"

#include <algorithm>
#include <array>

namespace sluice::tcp {

namespace {

const unsigned char* bytes_of(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* bytes_of(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

}  // namespace

Cipher::Cipher(Use use, Purpose of, const Mac& key)
    : use_(use), of_(of), context_(EVP_CIPHER_CTX_new()) {
  if (context_ != nullptr &&
      EVP_CipherInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, bytes_of(key.data()), nullptr,
                        use == Use::seals ? 1 : 0) != 1)
    context_.reset();
}

bool Cipher::begin(Kind kind) {
  std::array<unsigned char, 12> nonce{};
  nonce[0] = static_cast<unsigned char>(of_);
  nonce[1] = static_cast<unsigned char>(kind);
  for (std::size_t i = 0; i < 8; ++i)
    nonce[4 + i] = static_cast<unsigned char>(records_ >> (8 * i));
  ++records_;
  return context_ != nullptr && EVP_CipherInit_ex(context_.get(), nullptr, nullptr, nullptr,
                                                  nonce.data(), use_ == Use::seals ? 1 : 0) == 1;
}

bool Cipher::add(std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return true;
  int made = 0;
  const int size = static_cast<int>(from.size());
  return EVP_CipherUpdate(context_.get(), bytes_of(to), &made, bytes_of(from.data()), size) == 1 &&
         made == size;
}

bool Cipher::seal(std::span<std::byte, tag_bytes> tag) {
  int none = 0;
  std::array<unsigned char, tag_bytes> unused{};
  return EVP_CipherFinal_ex(context_.get(), unused.data(), &none) == 1 &&
         EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_GET_TAG, tag_bytes, tag.data()) == 1;
}

bool Cipher::is_whole(std::span<const std::byte, tag_bytes> tag) {
  std::array<std::byte, tag_bytes> wanted{};
  std::ranges::copy(tag, wanted.begin());
  int none = 0;
  std::array<unsigned char, tag_bytes> unused{};
  return EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_GCM_SET_TAG, tag_bytes, wanted.data()) == 1 &&
         EVP_CipherFinal_ex(context_.get(), unused.data(), &none) == 1;
}

}  // namespace sluice::tcp
