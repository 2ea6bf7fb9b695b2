// What a home knows of the machines that have one role, and which of them each of its calls gets.
//
// A unit whose sessions stay gives each session one machine, for as long as that is there: the one
// with the fewest sessions. A session whose machine is away moves, and its next call says so. Where
// the unit is `by_cache`, a new session's machine is the one whose calls began with most of what
// its first call's inputs begin with, if that is half of it or more, and the machine has no more
// than eight sessions above twice the fewest. Other units give a call the machine with the fewest
// of the home's calls under way. Of several machines that are as good, the next in turn. Pure:
// follows from what it was told, in that order. Bounds: a record for each session that has not
// ended, of the units whose sessions stay; beginnings_max numbers for each unit `by_cache`.
// Thread: one. Source: docs/CLUSTER.md, "A role on several machines"; omni-flow,
// section 3.5 (load balancing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "graph/replicas.h"
#include "graph/table.h"

namespace sluice {

/// What the session's roles kept on the machine `from` is void: they begin anew on `to`.
struct SessionMove {
  std::uint64_t session = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  friend bool operator==(const SessionMove&, const SessionMove&) = default;
};

class ReplicaChoice {
 public:
  /// `mix`: how its table spreads sessions.
  ReplicaChoice(Replicas replicas, Mix mix);

  const Replicas& replicas() const { return replicas_; }
  void machine_lost(std::uint32_t machine);
  void machine_back(std::uint32_t machine);
  /// Whether `choose` looks at what calls begin with.
  bool by_cache() const { return by_cache_; }
  /// The part of a new call's number. Where no machine of a unit is there: any. `beginning`: as
  /// `beginning_of` says.
  std::uint64_t choose(std::uint64_t session, std::span<const std::uint64_t> beginning = {});
  void call_ended(std::uint64_t number);
  void session_ended(std::uint64_t session);
  /// Sessions that have moved since it was asked last.
  std::vector<SessionMove> take_moves() { return std::exchange(moves_, {}); }

  static constexpr std::size_t beginnings_max = std::size_t{1} << 16U;

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};
  struct Machine {
    std::size_t load = 0;  // sessions, or calls under way
    bool away = false;
  };
  struct Unit {
    std::vector<Machine> machines;
    std::size_t next = 0;         // in turn
    Table<std::size_t> sessions;  // -> index of the machine
    /// Numbers of beginnings -> index of the machine that got the last call with it.
    Table<std::size_t> beginnings;
    std::vector<std::uint64_t> known;  // those, the one that was new first is the next to go
    std::size_t oldest = 0;            // of `known`, when it is full
  };

  /// `nowhere` when all are away.
  std::size_t best(Unit& unit);
  std::size_t of_session(std::size_t index, std::uint64_t session,
                         std::span<const std::uint64_t> beginning);
  /// The machine that knows the beginning; `nowhere`: none, or it has too many sessions.
  static std::size_t that_knows(const Unit& unit, std::span<const std::uint64_t> beginning);
  static void remember(Unit& unit, std::span<const std::uint64_t> beginning, std::size_t machine);
  static void forget(Unit& unit, std::size_t machine);
  void mark(std::uint32_t machine, bool away);

  const Replicas replicas_;
  std::vector<Unit> units_;
  std::vector<SessionMove> moves_;
  bool by_cache_ = false;
};

}  // namespace sluice
