// What a home knows of the machines that have one role, and which of them each of its calls gets.
//
// A unit whose sessions stay gives each session one machine, for as long as that is there: the one
// with the fewest sessions. A session whose machine is away moves, and its next call says so. Other
// units give a call the machine with the fewest of the home's calls under way. Of several machines
// that are as good, the next in turn. Pure: follows from what it was told, in that order.
// Bounds: a record for each session that has not ended, of the units whose sessions stay.
// Thread: one. Source: docs/CLUSTER.md, "A role on several machines".
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// The part of a new call's number. Where no machine of a unit is there: any.
  std::uint64_t choose(std::uint64_t session);
  void call_ended(std::uint64_t number);
  void session_ended(std::uint64_t session);
  /// Sessions that have moved since it was asked last.
  std::vector<SessionMove> take_moves() { return std::exchange(moves_, {}); }

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
  };

  /// `nowhere` when all are away.
  std::size_t best(Unit& unit);
  std::size_t of_session(std::size_t index, std::uint64_t session);
  void mark(std::uint32_t machine, bool away);

  const Replicas replicas_;
  std::vector<Unit> units_;
  std::vector<SessionMove> moves_;
};

}  // namespace sluice
