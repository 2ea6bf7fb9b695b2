#include "graph/replica_choice.h"

#include <algorithm>

namespace sluice {

ReplicaChoice::ReplicaChoice(Replicas replicas, Mix mix) : replicas_(std::move(replicas)) {
  for (const Replicas::Unit& unit : replicas_.units())
    units_.push_back({std::vector<Machine>(unit.machines.size()), 0, Table<std::size_t>(mix)});
}

void ReplicaChoice::mark(std::uint32_t machine, bool away) {
  for (std::size_t i = 0; i < units_.size(); ++i)
    for (std::size_t at = 0; at < units_[i].machines.size(); ++at)
      if (replicas_.units()[i].machines[at] == machine) units_[i].machines[at].away = away;
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

std::size_t ReplicaChoice::of_session(std::size_t index, std::uint64_t session) {
  Unit& unit = units_[index];
  std::size_t* const known = unit.sessions.find(session);
  if (known != nullptr && !unit.machines[*known].away) return *known;
  const std::size_t chosen = best(unit);
  if (chosen == nowhere) return known != nullptr ? *known : 0;
  ++unit.machines[chosen].load;
  if (known == nullptr) return unit.sessions[session] = chosen;
  --unit.machines[*known].load;
  const std::vector<std::uint32_t>& machines = replicas_.units()[index].machines;
  const SessionMove move{session, machines[*known], machines[chosen]};
  if (std::ranges::find(moves_, move) == moves_.end()) moves_.push_back(move);
  return *known = chosen;
}

std::uint64_t ReplicaChoice::choose(std::uint64_t session) {
  std::uint64_t choice = 0;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    std::size_t chosen = 0;
    if (replicas_.units()[i].by_session) {
      chosen = of_session(i, session);
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
