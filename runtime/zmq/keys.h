// The key pair of a machine: made, written to files that only its owner reads, and read again.
//
// A public key says which machine a peer is; the secret one never leaves its machine. Both are
// CURVE keys (Curve25519) as 40 characters of Z85. Errors: with the file and what is wrong with it.
// Source: ZeroMQ RFC 26 (CurveZMQ), RFC 32 (Z85); docs/NETWORK.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace sluice {

struct Keys {
  std::string public_key;
  std::string secret_key;
};

/// A new pair, from the system's random numbers.
Result<Keys> make_keys();
/// Makes `directory`/`machine`.secret, for its owner only, and `machine`.public; refuses to replace
/// either. Names are letters, digits, `_`, `-` and `.`, and begin with a letter or digit.
Result<void> write_keys(const std::string& directory, const std::string& machine, const Keys& keys);
/// The pair of a `.secret` file. Refused if it is a link, belongs to another user, or others may
/// read it.
Result<Keys> read_secret(const std::string& path);
/// What all machines of a cluster share, 32 bytes of the system's random numbers, or `secret`, in a
/// file of the directory for its owner only. Not replaced where it is.
inline constexpr const char* shared_secret_name = "kv-pages.secret";
Result<void> write_shared_secret(
    const std::string& directory,
    const std::optional<std::array<std::uint8_t, 32>>& secret = std::nullopt);
/// As `read_secret`.
Result<std::array<std::uint8_t, 32>> read_shared_secret(const std::string& directory);
/// A password that a server asks for: the one line of a file, 1 to 128 printable characters. As
/// `read_secret`; an error never says what is in the file.
Result<std::string> read_password(const std::string& path);
/// The key of a `.public` file.
Result<std::string> read_public(const std::string& path);

}  // namespace sluice
