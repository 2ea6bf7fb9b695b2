// How one machine's loop reaches the others: bytes go out, bytes and news of machines come in.
//
// A link is one machine's way to another in one life of each. What is sent over it arrives once and
// in order, or the link's end is reported; nothing disappears in silence. Who is a member of the
// cluster is not decided here: a transport reports whom it can hear, and is told whom to refuse.
// Implemented by runtime/zmq, and in tests by links in one memory. Source: omni-flow, section 3.4
// (instances); docs/NETWORK.md.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ids.h"
#include "runtime/message_bytes.h"
#include "runtime/wire/lending.h"

namespace sluice {

/// What a parcel holds: for the engines (docs/WIRE.md), or from node to node (members, sessions).
enum class Channel : std::uint8_t { message = 0, control = 1 };

/// What a machine hears. Thread: the transport's own, one call at a time; must return soon. `from`
/// and `life` are what the link's handshake proved, never what a message says of itself.
class TransportListener {
 public:
  virtual ~TransportListener() = default;
  /// Once each, in the order in which that life of that machine sent them.
  virtual void received(Origin from, Channel channel, MessageBytes bytes) = 0;
  /// This life of the machine can be heard and sent to, from now on or again. A life after the one
  /// that was connected before: what was still to be sent to that one is gone.
  virtual void connected(Origin life) = 0;
  /// Nothing was heard of it for a lease, or what it is owed has outgrown the link's bound. `why`:
  /// for people. Said once until it is connected again.
  virtual void silent(Origin life, const std::string& why) = 0;
  /// A machine says that this machine's life is over (`Transport::refuse`), and talks to it no
  /// more.
  virtual void refused(Origin by) = 0;
};

/// Which way large values went to one machine, and why. Counted since its link was made.
struct LentCounts {
  std::uint64_t in_place = 0;        // values that were read where they stand
  std::uint64_t in_place_bytes = 0;  // of these
  std::uint64_t copied = 0;          // of these, were copied into shared memory first
  std::uint64_t in_message = 0;      // values that travelled in messages
  std::uint64_t in_message_bytes = 0;
  std::string why{};           // the latest of those did
  std::size_t held_bytes = 0;  // lent, and not given back
};

/// How the link to one machine stands, for people.
struct LinkState {
  Origin life;                         // the latest that was heard; incarnation 0: none yet
  bool connected = false;              // now
  std::chrono::milliseconds heard{0};  // ago; of a life that was heard
  std::size_t owed_bytes = 0;          // sent, and not known to have arrived
  std::size_t window_bytes = 0;        // what may be owed
  LentCounts lent{};
  bool ended = false;  // for the rest of both lives, however well they hear each other
  std::uint32_t refused_up_to = 0;  // lives of this machine that are over for that one
};

/// Thread: `start` and `stop` by the owner; `send` and `refuse` from any, and never block.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Borrows the listener until `stop` has returned. From now on machines are met.
  virtual void start(TransportListener& listener) = 0;
  /// Takes the bytes. Kept until the receiver says that it has them, over breaks of the connection.
  /// Dropped when that life is over or refused: its end was or will be reported.
  virtual void send(Origin to, Channel channel, MessageBytes bytes) = 0;
  /// This life, and those before it, is not talked to again, and is told so when it can be.
  virtual void refuse(Origin life) = 0;
  /// Of all machines that it can meet, in no order. Thread: any, between `start` and `stop`; not
  /// from the listener. Empty: it cannot say.
  virtual std::vector<LinkState> links() const { return {}; }
  /// Through which values are shared with machines of this computer; null: with none. Between
  /// `start` and `stop`.
  virtual wire::Lender* lender() { return nullptr; }
  /// What still waits is given a bounded time to leave; then nothing is heard any more.
  virtual void stop() = 0;
};

}  // namespace sluice
