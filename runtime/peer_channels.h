// A `PeerPort` over a transport of its own, so that its bytes never stand before frames.
//
// A message is what the channel's user sends, and the number of its channel, eight bytes. Where its
// end stands in memory that both machines have, there stand instead slab, block, generation, size
// and channel of eight bytes each, and then channel 2^64 - 1. Channel 0
// tells which others are open, so that a listener hears of a machine when both have its channel,
// and whether this is said to a machine that was not connected: it answers then, and begins anew.
// It also tells the life of the machine that users know: where a link has ended, the transport
// comes back in a next life (`LinkRenewal`), of which they hear nothing but `lost` and `joined`.
// Who is silent, and links that cannot be begun anew, are told to people, each once in ten minutes.
// Thread: as `PeerPort`; one of its own, for that.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/peer_port.h"
#include "base/result.h"
#include "runtime/transport.h"

namespace sluice {

struct PeerPortOptions {
  Origin self;
  /// This machine's transport in that life; called again where links have ended.
  std::function<Result<std::unique_ptr<Transport>>(Origin self)> connect;
  std::array<std::uint8_t, 32> secret{};
  std::shared_ptr<RemoteMemory> memory{};  // that the machines read by themselves; null: none
  std::chrono::nanoseconds first_pause = std::chrono::milliseconds(250);
  std::function<void(const std::string&)> notice{};  // takes a line; empty: nobody reads it
  std::vector<std::string> names{};                  // of the machines, for that
  std::shared_ptr<IndexPort> index{};                // `PeerPort::index`
  bool preloads = false;                             // `PeerPort::preloads`
};

/// Meets the machines. Errors: those of the first `connect`.
Result<std::unique_ptr<PeerPort>> make_peer_port(PeerPortOptions options);

}  // namespace sluice
