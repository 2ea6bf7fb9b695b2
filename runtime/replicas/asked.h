// Activations of this machine's engines that replicas on other machines run: what was asked for,
// and what has been said of it and not been taken yet.
//
// Each ends exactly once: by the end that its machine tells, or, when that life of the machine is
// over, by an error that names the machine and why. What is said of an activation that was never
// asked of that life, or that has ended, is wrong, and its sender's doing; what comes of a life
// that is over is late, and no news. Pure. Thread: one at a time. Bounds: `unread_max` of what has
// come from one machine and was not taken; a machine that says more is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/ids.h"
#include "runtime/replicas/parcel.h"

namespace sluice {

/// Of an activation's frames that were sent and have not gone on: one that has as many may not
/// yield. Of the inputs of activations that one replica elsewhere has: as much, or one's.
inline constexpr std::size_t replica_window = std::size_t{4} << 20U;

/// Where an activation runs.
struct ReplicaPlace {
  std::uint32_t workflow = 0;
  NodeId node = entry_node;
  std::uint32_t replica = 0;
};

/// One thing that came of an activation: a frame, or, where `end` is set, the last of it.
struct ReplicaSaid {
  ReplicaValues values{};
  std::vector<std::string> warnings{};
  std::optional<ReplicaEnded> end{};
  std::size_t weight = 0;  // to be told back when the frame has gone on
};

class AskedActivations {
 public:
  static constexpr std::size_t unread_max = std::size_t{256} << 20U;
  struct Asked {
    Origin at;  // the life that runs it
    ReplicaPlace place;
    std::string what;  // for people: "replica 2 of node 'ask'"
  };

  explicit AskedActivations(std::vector<std::string> machines)
      : names_(std::move(machines)), machines_(names_.size()) {}

  /// It is there; what it was asked in an earlier life is lost. Returns what has ended by that.
  std::vector<std::uint64_t> joined(Origin life) {
    Machine& machine = machines_[life.machine];
    if (life.incarnation <= machine.over || life.incarnation == machine.life) return {};
    std::vector<std::uint64_t> ended;
    if (machine.life != 0) ended = lost({life.machine, machine.life}, "it has begun anew");
    machine.life = life.incarnation;
    return ended;
  }
  /// This life of it is over, and those before. Returns the numbers of what has ended by that:
  /// none where it was known.
  std::vector<std::uint64_t> lost(Origin life, const std::string& why) {
    Machine& machine = machines_[life.machine];
    if (life.incarnation <= machine.over) return {};
    machine.over = life.incarnation;
    if (machine.life > life.incarnation) return {};
    machine.life = 0;
    machine.why = why;
    std::vector<std::uint64_t> all;
    for (auto& [number, entry] : entries_) {
      if (entry.asked.at.machine != life.machine || entry.ended) continue;
      end(entry, away(life.machine, entry.asked.what));
      all.push_back(number);
    }
    return all;
  }
  /// This machine's own life is over: so is all that it asked for. Others come anew. Returns what
  /// has ended by that.
  std::vector<std::uint64_t> all_lost(const std::string& why) {
    for (Machine& machine : machines_) {
      machine.life = 0;
      machine.why = why;
    }
    std::vector<std::uint64_t> all;
    for (auto& [number, entry] : entries_) {
      if (entry.ended) continue;
      end(entry, {ErrorCode::unavailable, why});
      all.push_back(number);
    }
    return all;
  }

  /// The life that is there. Errors: unavailable, with why it is not. `what`: is to run there.
  Result<Origin> life_of(std::uint32_t machine, const std::string& what) const {
    const Machine& there = machines_[machine];
    if (there.life != 0) return Origin{machine, there.life};
    return away(machine, what);
  }
  /// The number of what is asked for next: they grow, over all lives of this machine.
  std::uint64_t next_number() const { return last_ + 1; }
  /// Under `next_number`. Requires: this life is there.
  std::uint64_t add(Asked asked) {
    entries_[++last_].asked = std::move(asked);
    return last_;
  }
  /// Null: nothing was asked under this number, or its end was taken.
  const Asked* find(std::uint64_t number) const {
    const auto it = entries_.find(number);
    return it == entries_.end() ? nullptr : &it->second.asked;
  }
  /// No news: its life is over.
  bool is_late(Origin from) const { return from.incarnation <= machines_[from.machine].over; }

  /// What may be said of it, before `said`: empty, or what is wrong. Requires: not late.
  std::string problem(Origin from, std::uint64_t number) const {
    const auto it = entries_.find(number);
    if (it == entries_.end() || it->second.asked.at != from)
      return "it speaks of an activation that it was not asked for";
    if (it->second.ended) return "it speaks of an activation that has ended";
    if (machines_[from.machine].unread > unread_max)
      return "it yields more than " + std::to_string(unread_max) + " bytes that wait";
    return {};
  }
  /// Requires: `problem` is empty.
  void said(std::uint64_t number, ReplicaSaid said) {
    Entry& entry = entries_.at(number);
    entry.ended = said.end.has_value();
    machines_[entry.asked.at.machine].unread += said.weight;
    entry.unread.push_back(std::move(said));
  }
  /// Something of it can be taken.
  bool has_news(std::uint64_t number) const {
    const auto it = entries_.find(number);
    return it != entries_.end() && !it->second.unread.empty();
  }
  /// The next of what was said; behind its end it is forgotten. Requires: it was added, and its end
  /// was not taken.
  std::optional<ReplicaSaid> take(std::uint64_t number) {
    Entry& entry = entries_.at(number);
    if (entry.unread.empty()) return {};
    ReplicaSaid said = std::move(entry.unread.front());
    entry.unread.pop_front();
    machines_[entry.asked.at.machine].unread -= said.weight;
    if (said.end) entries_.erase(number);
    return said;
  }
  /// A frame that was taken has gone on: how many bytes its machine is to be told now; 0: none yet.
  std::size_t gone_on(std::uint64_t number, std::size_t weight) {
    const auto it = entries_.find(number);
    if (it == entries_.end() || it->second.ended) return 0;
    std::size_t& back = it->second.back;
    back += weight;
    return back < replica_window / told_parts ? 0 : std::exchange(back, 0);
  }
  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::size_t told_parts = 4;  // of a window, before it is worth a parcel
  struct Entry {
    Asked asked;
    bool ended = false;  // the last of `unread` is its end, or was
    std::size_t back = 0;
    std::deque<ReplicaSaid> unread;
  };
  struct Machine {
    std::uint32_t life = 0;  // that is there; 0: none is
    std::uint32_t over = 0;  // lives up to this one are
    std::string why = "it has not joined yet";
    std::size_t unread = 0;  // bytes
  };

  static void end(Entry& entry, Error error) {
    entry.ended = true;
    entry.unread.push_back({.end = ReplicaEnded{.error = std::move(error)}});
  }
  Error away(std::uint32_t machine, const std::string& what) const {
    return {ErrorCode::unavailable, "machine '" + names_[machine] + "', where " + what +
                                        " runs, is lost: " + machines_[machine].why};
  }

  const std::vector<std::string> names_;
  std::vector<Machine> machines_;
  std::map<std::uint64_t, Entry> entries_;  // by number
  std::uint64_t last_ = 0;
};

}  // namespace sluice
