// Names that stay unique over machines and restarts: of a machine's life, a scope, a call.
//
// Whoever makes a thing names it by itself, its incarnation and a number that only grows, so nobody
// has to be asked, and what a machine said in an earlier life is told apart from what it says now.
// An incarnation is given by whoever keeps the list of machines, and grows with each restart.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>

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

/// A scope, named by the machine that opened it. Number 0: none.
struct ScopeId {
  std::uint64_t number = 0;
  Origin origin;
  friend auto operator<=>(const ScopeId&, const ScopeId&) = default;
};

/// For `Table`: numbers of one origin spread like the numbers themselves.
inline std::uint64_t spread(std::uint64_t number) { return number; }
inline std::uint64_t spread(Origin origin) {
  return (std::uint64_t{origin.machine} << 40U) + (std::uint64_t{origin.incarnation} << 20U);
}
inline std::uint64_t spread(const CallId& id) { return id.number + spread(id.home); }
inline std::uint64_t spread(const ScopeId& id) { return id.number + spread(id.origin); }

}  // namespace sluice
