// A `PeerPort` over a transport of its own, so that its bytes never stand before frames.
//
// A message is what the channel's user sends, and the number of its channel, eight bytes. Channel 0
// tells which others are open, so that a listener hears of a machine when both have its channel,
// and whether this is said to a machine that was not connected: it answers then, and begins anew.
// Thread: as `PeerPort`.
#pragma once

#include <array>
#include <memory>

#include "base/peer_port.h"
#include "runtime/transport.h"

namespace sluice {

/// Takes the transport, and meets the machines. `self`: as the transport was told.
std::unique_ptr<PeerPort> make_peer_port(std::unique_ptr<Transport> transport, Origin self,
                                         const std::array<std::uint8_t, 32>& secret);

}  // namespace sluice
