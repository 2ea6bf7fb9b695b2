// Streams of bytes to a server of another machine, which forwards them (stream_forwarder.h).
//
// Whoever opens one gets a local socket and may use it like one to the server itself: it ends when
// the server ends the connection, and when the machine that forwards is lost or refuses.
// Thread: all of it from any. Owns: a thread for all its streams, and libzmq's. Nobody spins.
// Bounds: 16 streams; of each, 64 KiB that wait each way, and the kernel's buffers.
// Source: docs/NETWORK.md, "Redis across machines".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "runtime/zmq/keys.h"
#include "runtime/zmq/zmq_transport.h"

namespace sluice {

struct ForwardedStreamsOptions {
  std::uint32_t self = 0;
  Keys keys;          // empty: none are used
  ZmqPeer forwarder;  // its address is where it forwards
  /// As in StreamForwarderOptions.
  std::chrono::milliseconds silence{3000};
};

struct ForwardedStream {
  int socket = -1;  // does not block; whoever has this closes it
  /// Why it gives nothing, as things are now. Names the machine that forwards.
  std::function<std::string()> why;
};

class ForwardedStreams {
 public:
  /// Errors: invalid_argument (which option, why).
  static Result<std::unique_ptr<ForwardedStreams>> create(ForwardedStreamsOptions options);
  /// Ends all streams; takes at most a quarter of a second.
  virtual ~ForwardedStreams() = default;
  /// Never waits: what is written waits in the socket until the stream is open. Errors: exhausted.
  virtual Result<ForwardedStream> open() = 0;
};

}  // namespace sluice
