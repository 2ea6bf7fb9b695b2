// The local socket of one end of a forwarded stream: what it is waited for, and what came of that.
//
// Never waits. Thread: one. Source: poll(2), socket(7).
#pragma once

#include "runtime/zmq/stream_half.h"

namespace sluice::links {

/// A socket that is closed with its owner.
class StreamSocket {
 public:
  /// Takes a socket that does not block. `connects`: it may not be connected yet.
  StreamSocket(int descriptor, bool connects) : descriptor_(descriptor), connects_(connects) {}
  StreamSocket(StreamSocket&& other) noexcept;
  StreamSocket& operator=(StreamSocket&&) = delete;
  ~StreamSocket();

  int descriptor() const { return descriptor_; }
  /// What to wait for; 0: for its end. Nothing: not now, as its end would be told again and again.
  std::optional<short> wanted(const StreamHalf& half) const;
  /// It has what `poll` said, or perhaps takes what there is to write.
  void pump(StreamHalf& half, short events, StreamHalf::Instant now);

 private:
  void read(StreamHalf& half, StreamHalf::Instant now) const;
  void write(StreamHalf& half, StreamHalf::Instant now) const;

  int descriptor_;
  bool connects_;
};

}  // namespace sluice::links
