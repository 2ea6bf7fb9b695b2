// Records of one direction of a connection, encrypted and authenticated: AES-256-GCM.
//
// A key is of one connection and one direction; the nonce says the direction and the record's kind,
// and counts the records. So none is used twice, and a record that was changed, left out, repeated
// or sent back is no record. A record may be given in parts. Thread: one. Errors: `false`; the
// connection is to end. Source: NIST SP 800-38D.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/tcp/tcp_wire.h"

namespace sluice::tcp {

class Cipher {
 public:
  enum class Use : std::uint8_t { seals, opens };
  /// `of`: the records of a key of this purpose.
  Cipher(Use use, Purpose of, const Mac& key);

  /// `kind`: what the record is; it is no record of another kind.
  enum class Kind : std::uint8_t { bytes, question };
  bool begin(Kind kind = Kind::bytes);
  /// `to` has room for as much; it may be `from`.
  bool add(std::span<const std::byte> from, std::byte* to);
  /// Of one that seals: writes the tag.
  bool seal(std::span<std::byte, tag_bytes> tag);
  /// Of one that opens: what came before was as it was sealed. Before that none of it counts.
  bool is_whole(std::span<const std::byte, tag_bytes> tag);

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };
  const Use use_;
  const Purpose of_;
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;  // null: there is none
  std::uint64_t records_ = 0;
};

}  // namespace sluice::tcp
