// Forwards streams of bytes between machines of a cluster and a server on this computer, so that
// the server is reached with their CURVE keys and without an open port.
//
// Each stream has a connection of its own to the server, and says nothing of what is in it.
// Without keys only a loopback address is taken; there is no way around that.
// Thread: one of its own, and libzmq's. Nobody spins.
// Bounds: 16 streams a machine, 1,024 in all; of each, 64 KiB that wait each way.
// Source: docs/NETWORK.md, "Redis across machines".
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/link_refusal.h"
#include "runtime/zmq/keys.h"
#include "runtime/zmq/zmq_transport.h"

namespace sluice {

struct StreamForwarderOptions {
  std::uint32_t self = 0;
  std::string name{};
  std::string bind;  // tcp://HOST:PORT
  /// Who may come in. Their addresses say nothing here.
  std::vector<ZmqPeer> peers;
  Keys keys;  // empty: none are used; otherwise every peer has a public key too
  /// A machine of which nothing was heard for so long has no stream any more; 60 ms to an hour.
  std::chrono::milliseconds silence{3000};
  /// A socket to the server that does not block and is, or is about to be, connected. Its error is
  /// told to whoever wants the stream. Thread: the forwarder's.
  std::function<Result<int>()> connect;
  /// Takes a line for people: who was refused and why, at most some lines a second. Thread: the
  /// forwarder's. Empty: nobody is told.
  std::function<void(const LinkNotice&)> notice;
};

class StreamForwarder {
 public:
  /// Begins to forward. Errors: invalid_argument (which option, why), unavailable (the address
  /// cannot be bound).
  static Result<std::unique_ptr<StreamForwarder>> create(StreamForwarderOptions options);
  /// Tells all that it ends; takes at most a quarter of a second.
  virtual ~StreamForwarder() = default;
  /// Streams that there are now.
  virtual std::size_t streams() const = 0;
};

}  // namespace sluice
