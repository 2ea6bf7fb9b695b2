#include "graph/replica_choice.h"

#include <algorithm>

namespace sluice {

ReplicaChoice::ReplicaChoice(Replicas replicas, Mix mix) : replicas_(std::move(replicas)) {
  for (const Replicas::Unit& unit : replicas_.units()) {
    units_.push_back({std::vector<Machine>(unit.machines.size()),
                      0,
                      Table<std::size_t>(mix),
                      Table<std::size_t>(mix),
                      {},
                      0});
    by_cache_ = by_cache_ || unit.by_cache;
  }
}

void ReplicaChoice::mark(std::uint32_t machine, bool away) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    for (std::size_t at = 0; at < units_[i].machines.size(); ++at)
      if (replicas_.units()[i].machines[at] == machine) {
        units_[i].machines[at].away = away;
        if (away) forget(units_[i], at);
      }
}

void ReplicaChoice::machine_lost(std::uint32_t machine) { mark(machine, true); }
void ReplicaChoice::machine_back(std::uint32_t machine) { mark(machine, false); }

std::size_t ReplicaChoice::best(Unit& unit) {
  std::size_t best = nowhere;
  for (std::size_t i = 0; i < unit.machines.size(); ++i) {
    const std::size_t at = (unit.next + i) % unit.machines.size();
    if (unit.machines[at].away) continue;
    if (best == nowhere || unit.machines[at].load < unit.machines[best].load) best = at;
  }
  if (best != nowhere) unit.next = (best + 1) % unit.machines.size();
  return best;
}

std::size_t ReplicaChoice::that_knows(const Unit& unit, std::span<const std::uint64_t> beginning) {
  for (std::size_t length = beginning.size(); length > 0 && 2 * length >= beginning.size();
       --length) {
    const std::size_t* const found = unit.beginnings.find(beginning[length - 1]);
    if (found == nullptr) continue;
    std::size_t least = unit.machines[*found].load;
    for (const Machine& machine : unit.machines)
      if (!machine.away) least = std::min(least, machine.load);
    return unit.machines[*found].load <= 2 * least + 8 ? *found : nowhere;
  }
  return nowhere;
}

void ReplicaChoice::remember(Unit& unit, std::span<const std::uint64_t> beginning,
                             std::size_t machine) {
  for (const std::uint64_t number : beginning) {
    if (std::size_t* const found = unit.beginnings.find(number)) {
      *found = machine;
      continue;
    }
    if (unit.known.size() < beginnings_max) {
      unit.known.push_back(number);
    } else {
      unit.beginnings.erase(std::exchange(unit.known[unit.oldest], number));
      unit.oldest = (unit.oldest + 1) % beginnings_max;
    }
    unit.beginnings[number] = machine;
  }
}

/// What it has computed is gone with it.
void ReplicaChoice::forget(Unit& unit, std::size_t machine) {
  std::vector<std::uint64_t> kept;
  for (std::size_t i = 0; i < unit.known.size(); ++i) {
    const std::uint64_t number = unit.known[(unit.oldest + i) % unit.known.size()];
    if (*unit.beginnings.find(number) != machine)
      kept.push_back(number);
    else
      unit.beginnings.erase(number);
  }
  unit.known = std::move(kept);
  unit.oldest = 0;
}

std::size_t ReplicaChoice::of_session(std::size_t index, std::uint64_t session,
                                      std::span<const std::uint64_t> beginning) {
  Unit& unit = units_[index];
  std::size_t* const known = unit.sessions.find(session);
  if (known != nullptr && !unit.machines[*known].away) return *known;
  std::size_t chosen = that_knows(unit, beginning);
  if (chosen == nowhere) chosen = best(unit);
  if (chosen == nowhere) return known != nullptr ? *known : 0;
  ++unit.machines[chosen].load;
  if (known == nullptr) return unit.sessions[session] = chosen;
  --unit.machines[*known].load;
  const std::vector<std::uint32_t>& machines = replicas_.units()[index].machines;
  const SessionMove move{session, machines[*known], machines[chosen]};
  if (std::ranges::find(moves_, move) == moves_.end()) moves_.push_back(move);
  return *known = chosen;
}

std::uint64_t ReplicaChoice::choose(std::uint64_t session,
                                    std::span<const std::uint64_t> beginning) {
  std::uint64_t choice = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    std::size_t chosen = 0;
    if (replicas_.units()[i].by_session) {
      const bool by_cache = replicas_.units()[i].by_cache;
      chosen = of_session(i, session, by_cache ? beginning : std::span<const std::uint64_t>());
      if (by_cache && !units_[i].machines[chosen].away) remember(units_[i], beginning, chosen);
    } else {
      chosen = best(units_[i]);
      if (chosen == nowhere) chosen = 0;
      ++units_[i].machines[chosen].load;
    }
    choice += replicas_.part(i, chosen);
  }
  return choice;
}

void ReplicaChoice::call_ended(std::uint64_t number) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (!replicas_.units()[i].by_session) --units_[i].machines[replicas_.index(i, number)].load;
}

void ReplicaChoice::session_ended(std::uint64_t session) {
  for (Unit& unit : units_) {
    const std::size_t* const known = unit.sessions.find(session);
    if (known == nullptr) continue;
    --unit.machines[*known].load;
    unit.sessions.erase(session);
  }
}

}  // namespace sluice
