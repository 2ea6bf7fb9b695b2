// One end of a stream socket on which whole messages travel, each behind its length.
//
// Thread: one at a time. Owns: the socket. Bounds: `message_max`; memory grows with what has come,
// not with what was announced. Errors: unavailable (the other side has closed it), corrupt (no
// length of ours), cancelled (`waiting` gave up).
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include "base/owned_file.h"
#include "base/result.h"
#include "runtime/wire/bytes.h"

namespace sluice::hosts {

/// A pair of connected sockets of that type, closed in a process that is started.
Result<std::pair<OwnedFile, OwnedFile>> socket_pair(int type);

class Channel {
 public:
  /// Asked every `tick`, whether the other side is awaited or has much to say; false: give up.
  /// Empty: for ever.
  using Waiting = std::function<bool()>;
  static constexpr std::chrono::milliseconds tick{5};

  explicit Channel(OwnedFile socket) : socket_(std::move(socket)) {}

  Result<void> send(std::span<const std::byte> body, const Waiting& waiting = {});
  Result<wire::Bytes> receive(const Waiting& waiting = {});

 private:
  /// Asks `waiting`, once a `tick`.
  Result<void> ask(const Waiting& waiting);
  Result<void> wait(short events, const Waiting& waiting);
  /// At least one byte more.
  Result<void> fill(std::size_t most, const Waiting& waiting);

  OwnedFile socket_;
  wire::Bytes buffer_;  // what has come and was not taken begins at `begin_`
  std::size_t begin_ = 0;
  std::chrono::steady_clock::time_point asked_{};
};

}  // namespace sluice::hosts
