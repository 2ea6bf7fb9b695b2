// The reader's side of one connection: reads and what comes go in, what is to be sent and reads
// that have ended come out.
//
// Answers come in the order of the requests, so the bytes of each are received straight where they
// go, several answers at once, and summed there as they come, in the time in which the owner sends
// the next ones; what has no place goes into memory of the read's, which is taken when its turn
// comes. Sealed ones are received piece by piece and opened there. Once it is broken
// nothing moves any more. Pure: no socket and no clock. Thread: one. Units: bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/landing.h"
#include "runtime/tcp/tcp_cipher.h"

namespace sluice::tcp {

class Link {
 public:
  struct Ended {
    std::uint64_t number = 0;
    Ref<Buffer> bytes;  // without those that had a place; of a question null: no answer
    bool is_answer = false;
    std::optional<std::uint32_t> sum = {};  // CRC-32C of those that had one
  };
  using Rooms = std::array<std::span<std::byte>, 8>;

  /// `nonce`: random, and not used before.
  Link(const Key& key, const Nonce& nonce, std::shared_ptr<Landing> landing);

  /// `to`: where the first part goes; null: it has no place. Requires: it is within the region, and
  /// not empty; the place has its size.
  void ask(std::uint64_t number, const Request& request, Ref<Buffer> to = {});
  /// Asks the owner something. Requires: it rests, and there is something, not too much.
  void ask_owner(std::uint64_t number, std::span<const std::byte> question);
  /// Nothing is under way on it.
  bool rests() const { return is_open() && asked() == 0 && sent_ == out_.size(); }
  /// The owner has proved itself.
  bool is_open() const { return state_ == State::open; }
  /// It is to be closed; what was asked for and has not ended, does not any more.
  bool is_broken() const { return state_ == State::broken; }
  std::size_t asked() const { return unsent_.size() + waiting_.size(); }
  /// Some of it is no answer, which only the first can be.
  bool is_read() const {
    return !unsent_.empty() || (!waiting_.empty() && !waiting_.back().is_answer);
  }
  /// Those, without bytes.
  std::vector<Ended> unended() const;
  /// It is broken from now on, and has nothing that is asked for.
  void give_up();

  std::span<const std::byte> to_send();
  void sent(std::size_t bytes);
  /// Where the next bytes go, in their order: how many of `rooms`. None: it is broken.
  std::size_t rooms(Rooms& rooms);
  /// The first of them. Empty: it is broken.
  std::span<std::byte> room();
  /// So many came into them.
  void took(std::size_t bytes);
  std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
  bool has_ended() const { return !ended_.empty(); }

 private:
  enum class State : std::uint8_t { greets, open, broken };
  struct Asked {
    std::uint64_t number = 0;
    Request request;
    Ref<Buffer> to;
    Ref<Buffer> bytes = {};  // of all else, when its turn comes
    bool is_answer = false;  // to a question,
    bool is_length = false;  // of which the length comes first
    std::uint32_t sum = 0;   // of what has come to its place
    std::size_t size() const { return request.first.size + request.then.size; }
    std::size_t placed() const { return to ? request.first.size : 0; }
    /// From the byte `at` on, as far as they stand together.
    std::span<std::byte> from(std::size_t at) const;
  };
  bool has_memory(Asked& one);
  /// So many more of the first that waits are in their memory.
  void came(std::size_t bytes);
  void took_answers(std::size_t bytes);
  void take_welcome();
  void make_frames();
  bool open_record();
  void seal(std::size_t at, Cipher::Kind kind);
  void end_first();

  const Key key_;
  const std::shared_ptr<Landing> landing_;
  State state_ = State::greets;
  std::array<std::byte, hello_bytes> hello_{};
  std::array<std::byte, welcome_bytes> welcome_{};
  std::vector<std::byte> out_;
  std::size_t sent_ = 0;
  std::deque<Asked> unsent_, waiting_;
  std::size_t got_ = 0;  // of the welcome, or of the first that waits
  std::optional<Cipher> seals_, opens_;
  std::vector<std::byte> record_;  // the one that comes, and its tag
  std::size_t record_got_ = 0;
  std::vector<Ended> ended_;
};

}  // namespace sluice::tcp
