// A home's side of its sessions, where calls begin on several machines: which of them it has, and
// which calls wait until the keeper has said whose a session is.
//
// The first call of a session asks; what comes meanwhile waits behind it, and starts in order. A
// session's end gives it back, and a call that comes amid that waits and asks again. Pure: time is
// an argument, and what is to be done comes out as effects, in order.
// Thread: one at a time. Bounds: calls that wait, of all sessions together.
// Source: docs/CLUSTER.md, "Several homes".
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

/// What is to be done, in this order.
struct ClaimEffect {
  enum class Kind : std::uint8_t {
    ask,        // the keeper for `session`
    give_back,  // `session`, to the keeper
    start,      // `call`; `SessionClaims::started` follows. `home`: whose life the session was
                // lost with, for its first call; incarnation 0: nobody's
    elsewhere,  // `call` ends: `home` has its session
    full,       // `call` ends: the keeper gives this home no more sessions
    crowded,    // `call` ends: as many wait as may
    overdue,    // `call` ends: its time ran out while it waited
    cancelled,  // `call` ends: its caller no longer wants it
    closed,     // `call` ends: so does this life of the home
  };
  Kind kind = Kind::ask;
  std::string session{};
  std::uint64_t call = 0;
  Origin home{0, 0};
};
using ClaimEffects = std::vector<ClaimEffect>;

class SessionClaims {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit SessionClaims(std::size_t waiting_max) : waiting_max_(waiting_max) {}

  /// `call`: of no other call. `until`: it waits no longer.
  void call(const std::string& session, std::uint64_t call, Time until, ClaimEffects& effects);
  /// A call of the session that was to start has.
  void started(const std::string& session, ClaimEffects& effects);

  // What the keeper says of a session. False: it was not asked.
  bool granted(const std::string& session, Origin before, ClaimEffects& effects);
  bool elsewhere(const std::string& session, Origin home, ClaimEffects& effects);
  bool full(const std::string& session, ClaimEffects& effects);

  enum class End : std::uint8_t {
    begins,   // `ended` follows; calls that come meanwhile wait
    not_had,  // this home does not have it
    busy,     // a call of it waits, or is about to start
  };
  End end(const std::string& session);
  /// `is_over`: it has ended; else a call of it is under way, and all stays as it was.
  void ended(const std::string& session, bool is_over, ClaimEffects& effects);

  void cancel(std::uint64_t call, ClaimEffects& effects);
  /// Ends what has waited for too long.
  void tick(Time now, ClaimEffects& effects);
  /// When `tick` is due; Time::max(): nothing waits.
  Time due() const { return due_.empty() ? Time::max() : due_.begin()->first; }
  /// Ends what waits; no call comes any more.
  void close(ClaimEffects& effects);

  /// Sessions that this home has, or has asked for.
  std::size_t size() const { return claims_.size(); }
  std::size_t waiting() const { return waiting_.size(); }
  bool has(const std::string& session) const {
    const auto claim = claims_.find(session);
    return claim != claims_.end() && claim->second.state != State::asked;
  }

 private:
  enum class State : std::uint8_t { asked, had, ending };
  struct Claim {
    State state = State::asked;
    bool drains = false;              // calls that waited start, one after the other
    std::size_t starting = 0;         // calls
    Origin before{0, 0};              // until its first call starts
    std::deque<std::uint64_t> queue;  // calls that came; some wait no more
  };
  struct Waiting {
    std::string session;
    Time until{};
  };

  void wait(Claim& claim, const std::string& session, std::uint64_t call, Time until,
            ClaimEffects& effects);
  void start(Claim& claim, const std::string& session, std::uint64_t call, ClaimEffects& effects);
  /// The next one that still waits.
  void start_next(Claim& claim, const std::string& session, ClaimEffects& effects);
  bool any_waits(const Claim& claim) const;
  bool leave(std::uint64_t call);
  /// All calls of a session that nobody gave to this home.
  bool refuse(const std::string& session, ClaimEffect::Kind kind, Origin home,
              ClaimEffects& effects);

  std::size_t waiting_max_;
  bool closed_ = false;
  std::unordered_map<std::string, Claim> claims_;
  std::map<std::uint64_t, Waiting> waiting_;  // by call
  std::set<std::pair<Time, std::uint64_t>> due_;
};

}  // namespace sluice
