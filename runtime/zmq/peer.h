// One machine's side of the link to one other machine: what to do at each event.
//
// It decides about handshakes, repeats, acknowledgements, heartbeats and the link's end; a driver
// has the sockets. Events go in with the time, effects come out in the order in which they are to
// be performed. The connection is dialed by one side; of several that one life of it offers, the
// last that finished its handshake counts. Pure. Thread: one. Bounds: `window_bytes` kept to send,
// one message that is being put together, one handshake. Source: docs/NETWORK.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/random.h"
#include "base/ref.h"
#include "graph/ids.h"
#include "runtime/link.h"
#include "runtime/transport.h"
#include "runtime/zmq/parcel.h"

namespace sluice::links {

using Instant = std::chrono::nanoseconds;
/// A connection. A side that dials counts its own; the other is told by its driver. 0: none.
using Connection = std::uint64_t;

/// Bytes that several parcels may point into, and that stay as they are.
struct Shared final : Counted {
  explicit Shared(MessageBytes given) : memory(std::move(given)), bytes(memory.view()) {}
  static void dispose(const Shared* shared) { delete shared; }

  const MessageBytes memory;
  const std::span<const std::byte> bytes;
};

/// How a connection came to its end.
struct Broken {
  std::string why;                     // for people; empty: it just went
  std::optional<Reason> refused = {};  // it was not let in
};

/// The body of a parcel: a piece of shared bytes.
struct Body {
  Ref<Shared> shared;
  std::size_t at = 0;
  std::size_t size = 0;
};

struct Dial {  // close what was dialed before, and open this
  Connection connection = 0;
};
struct HangUp {  // nothing of this connection counts any more; what was given to it may still leave
  Connection connection = 0;
};
struct Transmit {
  Connection connection = 0;
  wire::Bytes head;
  Body body;
};
struct Deliver {
  Origin from;
  Channel channel = Channel::message;
  MessageBytes bytes;
};
struct SayConnected {
  Origin life;
};
struct SaySilent {
  Origin life;
  std::string why;
};
struct SayRefused {
  Origin by;
};
using Effect =
    std::variant<Dial, HangUp, Transmit, Deliver, SayConnected, SaySilent, SayRefused, LinkNotice>;
using Effects = std::vector<Effect>;

struct PeerSettings {
  Origin self;
  std::uint32_t machine = 0;  // the other
  bool dials = false;         // this side opens connections
  Instant lease{};
  std::size_t window_bytes = 0;
  Digest workflow{};
  std::string cluster;
  std::uint64_t seed = 1;  // of nonces; they tell attempts apart and are no secrets
  // For people; empty: they are told numbers.
  std::string self_name{};
  std::string name{};
  /// Longer messages leave in parts of this size.
  std::size_t body_bytes = far_body_bytes_max;
};

/// `machine 'eyes'`; without a name `machine 3`.
std::string machine_words(std::uint32_t machine, const std::string& name);
/// The same of either side of a link.
std::string machine_words(std::uint32_t machine, const PeerSettings& settings);
/// With which life it is.
std::string life_words(Origin origin, const PeerSettings& settings);

/// What is wrong with a hello or welcome from this machine, if anything is.
std::optional<Refusal> judge(const Hello& hello, const PeerSettings& settings);

class Peer {
 public:
  explicit Peer(PeerSettings settings);

  /// From now on machines are met.
  void start(Instant now, Effects& effects);
  /// Keeps the message for that life; `flush` lets what was collected leave.
  void send(Origin to, Channel channel, MessageBytes bytes, Instant now, Effects& effects);
  void flush(Instant now, Effects& effects);
  void refuse(Origin life, Instant now, Effects& effects);
  void heard(Connection connection, const Head& head, MessageBytes body, Instant now,
             Effects& effects);
  /// The same for a head that cannot be read.
  void heard_nonsense(Connection connection, const std::string& what, Instant now,
                      Effects& effects);
  /// One that just went is tried again at once.
  void broke(Connection connection, const Broken& broken, Instant now, Effects& effects);
  /// Time has passed. When it is wanted next: `due`.
  void tick(Instant now, Effects& effects);
  Instant due() const;
  /// Only says what is due, and judges nobody: amid what takes long, while what came waits.
  void beat(Instant now, Effects& effects);
  /// Says at once what has arrived here: nothing will be said later.
  void acknowledge(Instant now, Effects& effects);
  /// Nothing waits to be taken by the other.
  bool drained() const { return owed() == 0; }
  /// Connected, and all that was sent was taken.
  bool idle() const { return std::holds_alternative<Up>(connection_) && drained(); }
  std::size_t owed() const { return sender_.bytes() + open_.size(); }
  /// For people.
  LinkState state(Instant now) const;
  const PeerSettings& settings() const { return settings_; }

 private:
  struct Away {  // a dialing side tries again at `retry`
    Instant retry{};
  };
  struct Dialing {
    Connection connection = 0;
    std::uint64_t nonce = 0;
    Instant give_up{};
  };
  struct Up {
    Connection connection = 0;
    Instant said{};
    std::uint64_t sent = 0;  // parcels up to here were given to the connection
    std::size_t flight = 0;  // bytes of those that nobody said were applied
  };
  struct Offer {  // a hello that was answered, not yet ready
    Connection connection = 0;
    Hello hello;
    std::uint64_t nonce = 0;
    Instant give_up{};
  };

  void hear(Connection, const Hello&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Welcome&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Ready&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Refusal&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Batch&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Part&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const Heartbeat&, MessageBytes&, Instant, Effects&);
  void hear(Connection, const OtherVersion&, MessageBytes&, Instant, Effects&);

  Origin life() const { return {settings_.machine, life_}; }
  Up* up() { return std::get_if<Up>(&connection_); }
  bool is_up(Connection connection) const;
  bool expects(Connection connection) const;
  Hello hello(std::uint64_t nonce) const;
  std::optional<Refusal> judge_life(const Hello& hello) const;
  Refusal refusal(Reason reason, std::string text) const;
  /// Says no on a connection, tells people, and forgets it.
  void refuse_connection(Connection connection, Refusal no, Instant now, Effects& effects);
  bool was_refused(const Hello& by, Connection connection, Instant now, Effects& effects);
  void begin_life(std::uint32_t incarnation, Instant now);
  void forget();
  void close(Connection connection, Instant retry, Effects& effects);
  void leave(Instant retry, Effects& effects);
  /// Nothing travels between these two lives any more; said to the other on `tell`, unless 0.
  void end_link(Connection tell, const std::string& why, Instant now, Effects& effects);
  void become_silent(const std::string& why, Effects& effects);
  bool resume(std::uint32_t knows, std::uint64_t applied);
  void establish(Connection connection, Instant now, Effects& effects);
  void dial(Instant now, Effects& effects);
  Instant pause_after_failure(Instant now);
  void seal();
  void transmit(Instant now, Effects& effects);
  bool applied(Up& up, std::uint64_t number, Instant now, Effects& effects);
  bool take(std::uint64_t number, std::uint64_t said, Instant now, Effects& effects);
  void took(std::size_t bytes, Instant now, Effects& effects);
  void say(Up& up, const Head& head, Body body, Instant now, Effects& effects);
  void notice(std::string text, std::optional<Reason> refused, Effects& effects);

  struct Parcel {
    Body body;
    bool is_part = false;
    Channel channel = Channel::message;
    std::size_t total = 0;
    std::size_t place = 0;  // within the message
  };

  PeerSettings settings_;
  SplitMix64 random_;
  std::variant<Away, Dialing, Up> connection_;
  std::optional<Offer> offer_;
  Connection dialed_ = 0;
  unsigned failures_ = 0;  // dials in a row that led to nothing
  bool started_ = false;

  // The link to the latest life of the other that is known; 0: none yet.
  std::uint32_t life_ = 0;
  std::uint32_t over_ = 0;           // lives up to this one are refused
  std::uint32_t refused_up_to_ = 0;  // of this machine, by that one
  std::uint32_t refused_by_ = 0;     // the life of the other that said so of this side's
  bool ended_ = false;               // nothing travels between these two lives any more
  bool told_connected_ = false;
  bool told_silent_ = false;
  Instant heard_{};
  LinkSender<Parcel> sender_;
  wire::Bytes open_;  // the batch that is being filled
  LinkReceiver receiver_;
  wire::Bytes assembly_;
  std::size_t assembly_total_ = 0;  // 0: nothing is being put together
  Channel assembly_channel_ = Channel::message;
  // What was taken and not acknowledged.
  std::size_t unsaid_parcels_ = 0;
  std::size_t unsaid_bytes_ = 0;
  Instant say_by_ = Instant::max();
  std::string noticed_;
  std::vector<MessageView> messages_;  // kept for its memory
};

}  // namespace sluice::links
