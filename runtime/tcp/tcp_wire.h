// What a reader and an owner of memory say to each other over one connection, as bytes.
//
// The reader says hello (which grant, a nonce); the owner welcomes it with a nonce and a proof that
// it has the grant's secret; the reader proves the same. A proof is a MAC under the secret over
// both hellos and whose it is, so what was heard is of no use a second time, nor to the other side.
// Then come requests, in frames of a count and so many of them, and for each request, in their
// order, the bytes of its two parts. A frame may be a question for the region's owner instead,
// marked in place of the count, of which one at a time is under way: its answer is a length and so
// many bytes. On an encrypted connection a frame's requests, or its question, a length, and the
// bytes of each answer in pieces of `piece_of`, are records: ciphertext, then a tag. Numbers are
// little-endian. Units: bytes. Thread: any; no state. Source: ISO/IEC 9798-4, mutual
// authentication.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/remote_memory.h"
#include "runtime/tcp/tcp_key.h"

namespace sluice::tcp {

using Nonce = std::array<std::byte, 32>;
using Mac = std::array<std::byte, 32>;

inline constexpr std::size_t hello_bytes = 56, welcome_bytes = 64, proof_bytes = 32;
inline constexpr std::size_t tag_bytes = 16;
inline constexpr std::size_t request_bytes = 32, requests_most = 64;  // of one frame
inline constexpr std::size_t frame_bytes_most = 4 + requests_most * request_bytes + tag_bytes;
/// A frame whose first number has this is a question of so many bytes as the rest of it says.
inline constexpr std::uint64_t question_mark = std::uint64_t{1} << 31U;
inline constexpr std::size_t question_frame_most = 4 + RemoteRegion::question_most + tag_bytes;
inline constexpr std::size_t length_bytes = 4;  // before the answer to a question
inline constexpr std::size_t record_most = std::size_t{160} << 10U;  // without its tag

struct Hello {
  std::uint64_t grant = 0;
  bool is_encrypted = false;
  Nonce nonce{};
};
std::array<std::byte, hello_bytes> encode(const Hello& hello);
std::optional<Hello> decode_hello(std::span<const std::byte> bytes);

/// What a MAC is made for: no two say the same.
enum class Purpose : std::uint8_t { owner_proof, reader_proof, requests_key, answers_key };
Mac mac_of(const Secret& secret, Purpose purpose, std::span<const std::byte> hello,
           const Nonce& owner);
/// In the same time wherever they differ.
bool is_same(std::span<const std::byte> a, std::span<const std::byte> b);

struct Request {
  RemoteRegion::Part first, then;
};
/// Both parts are within so many bytes.
bool is_within(const Request& request, std::uint64_t size);
void append(const Request& request, std::vector<std::byte>& out);
Request decode_request(std::span<const std::byte> bytes);

/// The first piece of what is left of an answer: small ends are not left alone.
std::size_t piece_of(std::size_t left);

}  // namespace sluice::tcp
