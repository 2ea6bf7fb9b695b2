// Activations that this machine's replicas run for engines on other machines.
//
// An owner numbers what it asks for, each higher than the one before, so what comes twice is told
// from what comes late. Each ends once for its owner: when its role has ended, or with the owner's
// life, from when on its frames go nowhere. Pure. Thread: one at a time. Bounds: `replica_window`
// of inputs that one replica has of one owner, or one activation's; of frames that were sent and
// have not gone on, what `may_yield` lets through. An owner that asks for more is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/ids.h"
#include "runtime/replicas/asked.h"

namespace sluice {

/// `T`: what runs; null is none.
template <typename T>
class ServedActivations {
 public:
  explicit ServedActivations(std::size_t machines) : over_(machines), last_(machines) {}

  /// This life of an owner is over, and those before. Calls `stop(T)` for each that it asked for.
  template <typename Stop>
  void over(Origin life, Stop stop) {
    std::uint32_t& over = over_[life.machine];
    if (life.incarnation <= over) return;
    over = life.incarnation;
    forget([&](Origin owner) { return owner.machine == life.machine && owner <= life; }, stop);
  }
  /// This machine's own life is over: whoever asked will not hear of it.
  template <typename Stop>
  void all_over(Stop stop) {
    forget([](Origin) { return true; }, stop);
  }
  bool is_late(Origin from) const { return from.incarnation <= over_[from.machine]; }

  /// Whether the owner may ask for this now: empty, or what is wrong. `replica`: of this machine's.
  std::string_view begin_problem(Origin owner, std::uint64_t number, std::size_t replica,
                                 std::size_t weight) const {
    if (number <= last_of(owner)) return "it asks for an activation twice";
    const auto it = inputs_.find({owner, replica});
    if (it != inputs_.end() && it->second + weight > replica_window)
      return "it gives a replica more inputs at once than may wait";
    return {};
  }
  /// Requires: no problem. Earlier lives of the owner are over (see `over`).
  void begin(Origin owner, std::uint64_t number, std::size_t replica, std::size_t weight, T runs) {
    last_[owner.machine] = {owner.incarnation, number};
    inputs_[{owner, replica}] += weight;
    entries_[{owner, number}] = {runs, replica, weight, 0};
  }
  /// What runs under this number; null: it has ended already, or was never asked for, which
  /// `order_problem` tells.
  T find(Origin owner, std::uint64_t number) const {
    const auto it = entries_.find({owner, number});
    return it == entries_.end() ? T{} : it->second.runs;
  }
  /// Whether the owner may give orders about it: of one that has ended they are late and no news.
  std::string_view order_problem(Origin owner, std::uint64_t number) const {
    return number > last_of(owner) ? "it gives orders about an activation that it did not ask for"
                                   : "";
  }
  /// So much of its frames has gone on. False: that is more than was sent.
  bool taken(Origin owner, std::uint64_t number, std::uint64_t bytes) {
    const auto it = entries_.find({owner, number});
    if (it == entries_.end()) return true;
    if (bytes > it->second.owed) return false;
    it->second.owed -= bytes;
    return true;
  }
  /// A frame of this weight was sent. Requires: it is there.
  void yielded(Origin owner, std::uint64_t number, std::size_t weight) {
    entries_.at({owner, number}).owed += weight;
  }
  /// One that is not there may: what it yields goes nowhere.
  bool may_yield(Origin owner, std::uint64_t number) const {
    const auto it = entries_.find({owner, number});
    return it == entries_.end() || it->second.owed < replica_window;
  }
  /// False: its owner does not hear of it any more.
  bool ended(Origin owner, std::uint64_t number) {
    const auto it = entries_.find({owner, number});
    if (it == entries_.end()) return false;
    const auto inputs = inputs_.find({owner, it->second.replica});
    inputs->second -= it->second.weight;
    if (inputs->second == 0) inputs_.erase(inputs);
    entries_.erase(it);
    return true;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    T runs{};
    std::size_t replica = 0;
    std::size_t weight = 0;  // of its inputs
    std::size_t owed = 0;    // of its frames, that have not gone on
  };
  struct Last {
    std::uint32_t incarnation = 0;
    std::uint64_t number = 0;
  };

  std::uint64_t last_of(Origin owner) const {
    const Last& last = last_[owner.machine];
    return last.incarnation == owner.incarnation ? last.number : 0;
  }
  template <typename Is, typename Stop>
  void forget(Is is_over, Stop stop) {
    for (const auto& [key, entry] : entries_)
      if (is_over(key.first)) stop(entry.runs);
    std::erase_if(entries_, [&](const auto& one) { return is_over(one.first.first); });
    std::erase_if(inputs_, [&](const auto& one) { return is_over(one.first.first); });
  }

  std::vector<std::uint32_t> over_;  // by machine: its lives up to this one are
  std::vector<Last> last_;           // by machine: asked for last
  std::map<std::pair<Origin, std::uint64_t>, Entry> entries_;
  std::map<std::pair<Origin, std::size_t>, std::size_t> inputs_;  // bytes, by owner and replica
};

}  // namespace sluice
