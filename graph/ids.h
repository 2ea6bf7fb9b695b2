// Names that stay unique over machines and restarts: of a machine's life, a scope, a call.
//
// Whoever makes a thing names it by itself, its incarnation and a number that only grows, so nobody
// has to be asked, and what a machine said in an earlier life is told apart from what it says now.
// An incarnation is given by whoever keeps the list of machines, and grows with each restart.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

#include "base/random.h"

namespace sluice {

/// A machine in one of its lives.
struct Origin {
  std::uint32_t machine = 0;
  std::uint32_t incarnation = 1;
  friend auto operator<=>(const Origin&, const Origin&) = default;
  /// In one step: every hop compares names.
  friend bool operator==(const Origin& a, const Origin& b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  }
};

/// A call, named by its home: the coordinator that started it. Number 0: none.
struct CallId {
  std::uint64_t number = 0;
  Origin home;
  explicit operator bool() const { return number != 0; }
  friend auto operator<=>(const CallId&, const CallId&) = default;
};

/// A session, numbered by its home in each of its lives.
struct SessionId {
  std::uint64_t number = 0;
  Origin home;
  friend auto operator<=>(const SessionId&, const SessionId&) = default;
};

/// A scope, named by the machine that opened it. Number 0: none.
struct ScopeId {
  std::uint64_t number = 0;
  Origin origin;
  friend auto operator<=>(const ScopeId&, const ScopeId&) = default;
};

/// A scope within its call. Who names a scope does not choose the call it counts for: two calls may
/// bring one name, when a machine is wrong, and neither is the other's.
struct ScopeOfCall {
  ScopeId scope;
  CallId call;
  friend bool operator==(const ScopeOfCall&, const ScopeOfCall&) = default;
};

/// How a `Table` spreads its keys: an odd factor for each word. Who names things and does not know
/// them cannot choose names that fall together, so a process that hears others draws its own
/// (`drawn_mix`); these are for where runs must be repeatable. Source: Dietzfelbinger et al. 1997
/// (multiply-shift).
struct Mix {
  std::uint64_t number = 0x9e3779b97f4a7c15ULL;
  std::uint64_t origin = 0xd1342543de82ef95ULL;
  std::uint64_t call = 0xaf251af3b0f025b5ULL;  // beside a scope
  std::uint64_t home = 0xb564ef22ec7aece5ULL;
};

/// From a stream whose seed nobody else knows.
inline Mix drawn_mix(SplitMix64& random) {
  return {random.next() | 1U, random.next() | 1U, random.next() | 1U, random.next() | 1U};
}

/// The upper bits are the spread ones.
inline std::uint64_t spread(std::uint64_t number, Mix mix) { return number * mix.number; }
inline std::uint64_t spread(Origin origin, Mix mix) {
  return std::bit_cast<std::uint64_t>(origin) * mix.origin;
}
inline std::uint64_t spread(const CallId& id, Mix mix) {
  return spread(id.number, mix) + spread(id.home, mix);
}
inline std::uint64_t spread(const SessionId& id, Mix mix) {
  return spread(id.number, mix) + spread(id.home, mix);
}
inline std::uint64_t spread(const ScopeId& id, Mix mix) {
  return spread(id.number, mix) + spread(id.origin, mix);
}
inline std::uint64_t spread(const ScopeOfCall& key, Mix mix) {
  return spread(key.scope, mix) + key.call.number * mix.call +
         std::bit_cast<std::uint64_t>(key.call.home) * mix.home;
}

}  // namespace sluice
