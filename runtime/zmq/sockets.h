// The sockets of a machine, as parcels in and out: the one that is bound, those that dial, and the
// one that asks whose key is known.
//
// Nothing here waits, and no exception of the library leaves. Thread: one.
// Source: docs/NETWORK.md; ZeroMQ RFC 27 (ZAP).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "runtime/zmq/address.h"
#include "runtime/zmq/keys.h"
#include "runtime/zmq/parcel.h"
#include "runtime/zmq/peer.h"

namespace sluice::links {

/// How long a parcel's body may be on connections of an address.
std::size_t body_bytes_at(const Address& address);

/// What all sockets of a machine have in common.
struct SocketSettings {
  Keys keys;  // empty: none are used
  std::chrono::milliseconds lease{};
  // Bounds of the library: of a piece (nothing: of what a parcel may be at the socket's address),
  // and of its own queues, in messages.
  std::optional<std::size_t> piece_bytes_max{};
  int queue_in = 16;
  int queue_out = 1024;  // what a peer keeps to is far below (peer.h)
};

/// A parcel as it came. The views hold until the next one is taken; the body has its own memory.
struct Arrival {
  std::string_view route;  // of the bound socket: which connection
  std::span<const std::byte> head;
  MessageBytes body;
  bool overlong = false;  // more pieces than a parcel has
};

/// Whether a socket of the library may have something. Its descriptor only tells of changes, so
/// whoever has used the socket looks until there is nothing, and only then waits for it.
struct Watch {
  int descriptor = -1;
  bool look = true;
};

class ParcelSocket {
 public:
  /// A bound socket's parcels come with a route and are sent to one.
  ParcelSocket(zmq::context_t& context, const SocketSettings& settings, bool bound);
  ParcelSocket(const ParcelSocket&) = delete;
  ParcelSocket& operator=(const ParcelSocket&) = delete;
  ~ParcelSocket();
  void bind(const Address& how, const std::string& address);
  /// Also reports when the connection fails or ends: `fate`.
  void dial(zmq::context_t& context, const Address& how, const std::string& address,
            const std::string& key);

  /// False: the connection is not there or takes no more.
  bool give(std::string_view route, const Transmit& parcel);
  /// Nothing: none is there.
  std::optional<Arrival> take();
  /// The machine whose key the connection of the last arrival has shown.
  std::optional<std::uint32_t> proved();
  /// How the connection ended, if it did.
  std::optional<Broken> fate();

  /// Whether something is there now; if not, the descriptor tells when it comes.
  bool arrived();
  /// What was given and has not left is dropped.
  void abandon();

  Watch arrivals;
  Watch fates;  // no descriptor: of a bound socket

 private:
  bool give(zmq::message_t message, bool more);
  void prepare(const Address& how);

  zmq::socket_t socket_;
  zmq::socket_t monitor_;
  bool bound_, has_keys_;
  std::optional<std::size_t> piece_bytes_max_;
  zmq::message_t route_, head_;
};

/// Answers whose keys may come in: those of peers, each as its machine.
class KeyKeeper {
 public:
  explicit KeyKeeper(zmq::context_t& context);
  void allow(const std::string& public_key, std::uint32_t machine);
  /// Answers one question, if there is one. A refusal comes back as a line for people.
  bool answer(std::optional<std::string>& refused);
  Watch questions;

 private:
  zmq::socket_t socket_;
  std::map<std::string, std::uint32_t> machines_;  // by the key's 32 bytes
};

}  // namespace sluice::links
