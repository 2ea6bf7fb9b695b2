// The owner's side of one connection: what its reader says goes in, what is to be sent comes out.
//
// Nothing is allocated by what a stranger says, and nothing of a region is said before its reader
// has proved the secret of its grant. Requests are answered in order, straight from the region's
// memory, or sealed from there into memory of the connection's. While `requests_waiting` wait, no
// more are taken. A question is answered by the region's guide as it comes, into memory of the
// connection's, and none may come before that has been sent. A request beyond the region, or
// anything else that cannot be, ends the connection. Pure: no socket and no clock. Thread: one.
// Units: bytes.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/tcp/tcp_cipher.h"
#include "runtime/tcp/tcp_grants.h"

namespace sluice::tcp {

class Serving {
 public:
  static constexpr std::size_t requests_waiting = 256;
  static constexpr std::size_t pieces_most = 8;
  using Pieces = std::array<std::span<const std::byte>, pieces_most>;

  /// `nonce`: random, and not used before. Borrows the grants.
  Serving(const Grants& grants, bool is_encrypted, const Nonce& nonce)
      : grants_(grants), is_encrypted_(is_encrypted), nonce_(nonce) {}

  /// Where the next bytes go; empty: it has enough to do.
  std::span<std::byte> room();
  /// So many have come there. False: the connection ends.
  bool took(std::size_t bytes);
  bool is_proven() const { return state_ == State::serves; }
  /// Its region is not to be read any more.
  bool is_over() const { return region_ != nullptr && region_->is_gone(); }

  bool owes() const { return sent_ < out_size_ || !waiting_.empty(); }
  /// What is to be sent next, in order; returns how many pieces. None where something is owed:
  /// the connection ends.
  std::size_t pieces(Pieces& pieces);
  /// So many bytes of those have left.
  void sent(std::size_t bytes);

 private:
  enum class State : std::uint8_t { hello, proof, serves };
  bool take_hello(std::span<const std::byte> bytes);
  bool take_proof(std::span<const std::byte> bytes);
  /// To be sent: of the region's memory, or of the answer to a question.
  struct Owed {
    Request request;
    bool is_answer = false;
  };
  /// Returns how many bytes the first frame has; 0: it is not here whole. None: it cannot be.
  std::optional<std::size_t> take_frame(std::span<std::byte> bytes);
  bool take_requests(std::span<const std::byte> requests);
  void take_question(std::span<const std::byte> question);
  void pop_owed();
  std::array<std::span<const std::byte>, 2> part_of(const Owed& owed, std::size_t at,
                                                    std::size_t size) const;
  bool seal_some();

  const Grants& grants_;
  const bool is_encrypted_;
  const Nonce nonce_;
  State state_ = State::hello;
  std::array<std::byte, hello_bytes> hello_{};
  std::vector<std::byte> in_ = std::vector<std::byte>(frame_bytes_most);
  std::size_t got_ = 0;                        // of `in_`
  std::size_t frame_most_ = frame_bytes_most;  // of the one that comes
  Secret secret_{};
  std::shared_ptr<const Region> region_;
  std::deque<Owed> waiting_;
  std::size_t said_ = 0;           // bytes of the first of these that were sent, or sealed
  std::vector<std::byte> answer_;  // its length first; empty: none is under way
  std::optional<Cipher> opens_, seals_;
  std::vector<std::byte> out_;           // welcome; records
  std::size_t out_size_ = 0, sent_ = 0;  // of `out_`
};

}  // namespace sluice::tcp
