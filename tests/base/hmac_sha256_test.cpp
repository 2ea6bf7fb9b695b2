#include "base/hmac_sha256.h"

#include <catch2/catch.hpp>
#include <string>

#include "base/random.h"
#include "base/sha256.h"
#include "base/sha256_words.h"

using namespace sluice;

namespace {

std::string hmac_hex(std::string_view key, std::string_view message) {
  const HmacSha256 hmac({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
  std::string hex;
  for (const std::uint8_t byte : hmac.of(message))
    for (const int shift : {4, 0}) hex += "0123456789abcdef"[byte >> shift & 0xf];
  return hex;
}

}  // namespace

TEST_CASE("HMAC-SHA-256 gives the digests of RFC 4231") {
  std::string counted;
  for (char byte = 1; byte <= 25; ++byte) counted += byte;
  CHECK(hmac_hex(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_hex("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_hex(std::string(20, '\xaa'), std::string(50, '\xdd')) ==
        "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  CHECK(hmac_hex(counted, std::string(50, '\xcd')) ==
        "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  CHECK(hmac_hex(std::string(20, '\x0c'), "Test With Truncation").substr(0, 32) ==
        "a3b6167473100ee06e0c796c2955552b");
  CHECK(hmac_hex(std::string(131, '\xaa'),
                 "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  CHECK(hmac_hex(std::string(131, '\xaa'),
                 "This is a test using a larger than block-size key and a larger than block-size "
                 "data. The key needs to be hashed before being used by the HMAC algorithm.") ==
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST_CASE("HMAC-SHA-256 of every length around the blocks is what Python's hmac computes") {
  // sha256(hmac(key, message of n bytes) for n in range(200)), key of a whole block.
  std::string key, message;
  for (int i = 0; i < 64; ++i) key += static_cast<char>(7 * i + 1);
  const HmacSha256 hmac({reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
  std::string all;
  for (int n = 0; n < 200; ++n) {
    for (const std::uint8_t byte : hmac.of(message)) all += static_cast<char>(byte);
    message += static_cast<char>(n);
  }
  CHECK(sha256_prefix(all) == 0x89d69b3ded4ba07aULL);
}

TEST_CASE("SHA-256 of a block's words is that of its bytes, by each way that there is") {
  SplitMix64 random(3);
  Sha256State bytes = sha256_start, words = sha256_start, instructions = sha256_start;
  for (int round = 0; round < 200; ++round) {
    std::array<unsigned char, 64> block;
    Sha256Words in_order{};
    for (std::size_t i = 0; i < block.size(); ++i) {
      block[i] = static_cast<unsigned char>(random.next());
      in_order[i / 4] = in_order[i / 4] << 8 | block[i];
    }
    sha256_block_portable(bytes, block.data());
    sha256_words_portable(words, in_order);
    if (has_sha_instructions()) sha256_words_instructions(instructions, in_order);
    REQUIRE(words == bytes);
    if (has_sha_instructions()) REQUIRE(instructions == bytes);
  }
}
