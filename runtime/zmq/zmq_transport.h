// Machines that reach each other over ZeroMQ: `Transport` on ipc and tcp sockets.
//
// One connection for each pair of machines; the one with the higher number dials the other. Every
// address is numeric: tcp://127.0.0.1:5000, tcp://[fe80::1]:5000, or ipc:///directory/name, whose
// directory must belong to this user and be closed to all others (mode 0700).
// Without keys only ipc and loopback addresses are taken; there is no way around that.
// Thread: one of its own, on which the listener is called, and libzmq's. Nobody spins.
// Source: docs/NETWORK.md.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/ids.h"
#include "runtime/link_refusal.h"
#include "runtime/transport.h"
#include "runtime/zmq/keys.h"

namespace sluice {

struct ZmqPeer {
  std::uint32_t machine = 0;
  std::string address;
  /// Only whoever has the secret to it is this machine. Empty: keys are not used at all.
  std::string public_key;
  std::string name{};  // for people; empty: they are told its number
};

struct ZmqOptions {
  Origin self;
  std::string name;  // as that of a peer
  std::string bind;
  /// All other machines of the cluster. Nobody else is talked to.
  std::vector<ZmqPeer> peers;
  /// Empty: no keys. Otherwise every peer has a public key too.
  Keys keys;
  /// Without a word for so long, a machine is silent; the same on all machines. 60 ms to an hour.
  std::chrono::milliseconds lease{3000};
  /// What one life of a machine may be owed and has not said that it has; more ends the link.
  std::size_t window_bytes = std::size_t{256} << 20U;
  /// Memory to share with machines whose addresses are ipc sockets, as this one's; less than a slab
  /// of 64 MiB: none. Address space only, until values stand in it.
  std::size_t shared_bytes = std::size_t{256} << 20U;
  /// What all machines must agree on besides the format: a digest of the workflows, and a name.
  std::array<std::byte, 32> workflow{};
  std::string cluster;
  /// How long `stop` waits for what is still to leave.
  std::chrono::milliseconds linger{1000};
  /// Takes a line for people: who was refused and why, here or by the other side. Called on the
  /// transport's thread, at most some lines a second. Empty: standard error.
  std::function<void(const LinkNotice&)> notice;
};

/// One message, of either channel; a longer one ends the link that it was sent to.
inline constexpr std::size_t zmq_message_bytes_max = (std::size_t{64} << 20U) + 1024;

/// Where the machine with this ipc address hands out its shared memory.
std::string shared_memory_socket(const std::string& ipc_address);

/// Binds its address; machines are met after `start`. What stands at an ipc address, or at that of
/// its memory, stays, unless it is a socket that nobody serves; its own goes with the transport.
/// Where no memory can be shared it says so in a notice, and goes on without.
/// Errors: invalid_argument (which option, why), unavailable (the address cannot be bound).
Result<std::unique_ptr<Transport>> make_zmq_transport(ZmqOptions options);

}  // namespace sluice
