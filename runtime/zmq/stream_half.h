// One end of a forwarded stream: a local socket on one side, another machine on the other.
//
// Bytes go both ways in windows: what the other machine has not said it has passed on is bounded by
// `stream_window_bytes`, and so is what waits here for the local socket. So a socket that is not
// read stops what feeds it, and nothing else. Who dials speaks first; both beat when they have
// nothing to say; whoever is not heard for `silence` is gone. When either end is over, what it had
// sent is still passed on, for `silence` at most. Pure: events and the time go in, frames come out.
// Thread: one. Source: docs/NETWORK.md, "Redis across machines".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/zmq/stream_frame.h"

namespace sluice::links {

class StreamHalf {
 public:
  using Instant = std::chrono::nanoseconds;  // of a clock that only goes forward

  enum class Phase : std::uint8_t {
    opening,  // the server is not connected yet, or the other machine has not said so
    open,
    ending,  // what is left goes to the local socket
    over,    // both sockets may be closed
  };
  struct Fate {
    StreamEnd end;
    bool said_here = true;  // false: by the other machine
  };

  /// As who dials: says hello.
  static StreamHalf dial(std::uint32_t machine, Instant silence, Instant now);
  /// As who was dialed, of whom a hello has come: connects to the server.
  static StreamHalf serve(Instant silence, Instant now);

  /// Of the other machine.
  void heard(const Result<StreamFrame>& frame, Instant now);
  /// Its connection is gone. Nothing more is said to it.
  void lost(StreamEnding why, std::string text, Instant now);

  /// Of the local socket. That it is connected: of who was dialed.
  void connected(Instant now);
  /// It gave 1 to `may_read` bytes.
  void read(std::string_view bytes, Instant now);
  /// It took the first so many of `to_write`.
  void written(std::size_t bytes, Instant now);
  /// It ended, or failed: nothing more can be written to it.
  void closed(StreamEnding why, std::string text, Instant now);
  /// Whoever drives this ends it.
  void leave(StreamEnding why, std::string text, Instant now) { end(why, std::move(text), now); }

  void tick(Instant now);
  Instant due() const;

  Phase phase() const { return phase_; }
  bool is_over() const { return phase_ == Phase::over; }
  /// Why it ends. Nothing: it does not.
  const std::optional<Fate>& fate() const { return fate_; }
  std::size_t may_read() const;
  std::string_view to_write() const { return std::string_view(waiting_).substr(written_); }
  /// What is to be said now, in order.
  std::vector<StreamFrame> take_frames();

 private:
  StreamHalf(bool dials, Instant silence, Instant now)
      : dials_(dials), silence_(silence), open_by_(now + silence), heard_at_(now), said_at_(now) {}

  void say(StreamFrame frame, Instant now);
  /// `text`: what is said to the other machine, too.
  void end(StreamEnding why, std::string text, Instant now);
  void finish(Fate fate, Instant now);
  void take(const StreamData& data, Instant now);
  void take(const StreamGrant& grant, Instant now);
  void out_of_place(const char* what, Instant now);
  void grant(Instant now);

  bool dials_;
  Instant silence_;
  Phase phase_ = Phase::opening;
  Instant open_by_;
  Instant heard_at_;
  Instant said_at_;
  Instant leave_by_{};  // while it ends
  std::optional<Fate> fate_;
  std::string waiting_;        // for the local socket
  std::size_t written_ = 0;    // of that, already
  std::size_t owed_ = 0;       // sent, and not passed on there as far as is known
  std::size_t ungranted_ = 0;  // passed on, and not said so
  std::vector<StreamFrame> frames_;
};

}  // namespace sluice::links
