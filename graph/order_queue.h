// The logical order of one call at a session node or an output: what may go next.
//
// Items and settled shares (from which no item comes) arrive in any order; an item goes when every
// earlier part of the interval has gone or is settled. Pure bookkeeping: a heap per scope, a child
// queue where a share was refined. Bounds: one entry per waiting item. Cost: O(1) in order,
// O(log n) out of order. Source: omni-flow, algorithm 1; corrections 5, 8 of docs/CONTROL_FLOW.md.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/frame.h"
#include "graph/table.h"

namespace sluice {

class OrderQueue {
 public:
  using Item = std::uint32_t;
  static constexpr Item no_item = 0xffffffff;

  /// False when the share stands where everything has passed already: then nothing has changed.
  bool put(const Share& share, Item item) { return insert(share, Entry::Kind::item, item); }
  bool settle(const Share& share) { return insert(share, Entry::Kind::settled, 0); }

  /// True when everything before the share is settled: then it has passed, and its item goes at
  /// once. False: nothing has changed, `put` it.
  bool pass(const Share& share);
  /// The next item whose every predecessor is settled, or `no_item`. `keep_open`: the part it stood
  /// on is not passed, because what it yields comes back to this queue (a loop).
  Item pop(bool keep_open) {
    const bool waits = current_ != no_track && tracks_[current_].heap.empty() &&
                       tracks_[current_].frontier != share_whole;
    return waits ? no_item : pop_next(keep_open);
  }

  /// True when nothing waits here.
  bool empty() const { return waiting_ == 0; }
  /// True when part of a scope has come, so that the rest will.
  bool open() const { return !roots_.empty(); }
  /// True when the whole of the scope with this sequence number has passed.
  bool complete(std::uint64_t sequence) const { return sequence < sequence_; }
  void clear();

 private:
  struct Entry {
    enum class Kind : std::uint8_t { item, settled, child } kind = Kind::item;
    std::uint64_t begin = 0;
    std::uint64_t width = 0;
    std::uint32_t index = 0;  // item: the caller's; child: in `tracks_`
  };
  /// One interval and what waits in it.
  struct Track {
    std::uint64_t frontier = 0;
    ScopeId scope;            // of a refined one
    std::vector<Entry> heap;  // least `begin` first
  };

  bool insert(const Share& share, Entry::Kind kind, Item item);
  std::uint32_t track_of(const Scope& scope);
  std::uint32_t new_track();
  void push(std::uint32_t track, Entry entry);
  Item pop_next(bool keep_open);
  Item pop_from(std::uint32_t track, bool keep_open);
  void drop(std::uint32_t track);

  std::uint64_t sequence_ = 0;             // the scope that goes now
  Table<std::uint32_t> roots_;             // sequence -> track
  Table<std::uint32_t, ScopeId> refined_;  // -> track
  std::uint32_t current_ = no_track;       // roots_[sequence_], cached
  std::vector<Track> tracks_;
  std::vector<std::uint32_t> free_;
  std::size_t waiting_ = 0;

  static constexpr std::uint32_t no_track = 0xffffffff;
};

}  // namespace sluice
