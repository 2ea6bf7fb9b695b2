// The logical order of one call at a session node or an output: what may go next.
//
// Items and settled shares (from which no item comes) arrive in any order; an item goes when every
// earlier part of the interval has gone or is settled. Pure bookkeeping: a heap per scope, a track
// of its own where a share was refined; nothing recurses, however often that was. Bounds: one entry
// per waiting item and settled share, at most `waiting_max`. Cost: O(1) in order, O(log n) out of
// order. Source: omni-flow, algorithm 1; corrections 5, 8 of docs/CONTROL_FLOW.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/frame.h"
#include "graph/table.h"

namespace sluice {

class OrderQueue {
 public:
  using Item = std::uint32_t;
  static constexpr Item no_item = 0xffffffff;

  OrderQueue() = default;
  OrderQueue(Mix mix, std::size_t waiting_max) { use(mix, waiting_max); }
  /// Before the first share: how its tables spread names that others chose, and how much may wait.
  void use(Mix mix, std::size_t waiting_max) {
    roots_.use(mix);
    refined_.use(mix);
    waiting_max_ = waiting_max;
  }

  /// False when this cannot be (`problem` says why): then nothing has changed.
  bool put(const Share& share, Item item) { return insert(share, Entry::Kind::item, item); }
  bool settle(const Share& share) { return insert(share, Entry::Kind::settled, 0); }

  /// An item that waits will not go after all: its place counts as settled. Cost: O(what waits).
  void skip(const Share& share, Item item);

  /// True when everything before the share is settled: then it has passed, and its item goes at
  /// once. False: nothing has changed, `put` it.
  bool pass(const Share& share);
  /// The next item whose every predecessor is settled, or `no_item`. `keep_open`: the part it stood
  /// on is not passed, because what it yields comes back to this queue (a loop).
  Item pop(bool keep_open) {
    const bool waits =
        hand_ != no_track && tracks_[hand_].heap.empty() && tracks_[hand_].frontier != share_whole;
    return waits ? no_item : pop_next(keep_open);
  }
  /// True when `pop` met a position that came twice, of which one had passed: only a peer that is
  /// wrong can bring that about. Nothing goes from here any more.
  bool broken() const { return broken_; }
  /// Why the last `put` or `settle` was false.
  std::string_view problem() const { return problem_; }

  /// True when nothing waits here.
  bool empty() const { return waiting_ == 0; }
  /// True when part of a scope has come, so that the rest will.
  bool open() const { return !roots_.empty(); }
  /// True when the whole of the scope with this sequence number has passed.
  bool complete(std::uint64_t sequence) const { return sequence < sequence_; }
  void clear();

 private:
  static constexpr std::uint32_t no_track = 0xffffffff;

  struct Entry {
    enum class Kind : std::uint8_t { item, settled, child } kind = Kind::item;
    std::uint64_t begin = 0;
    std::uint64_t width = 0;
    std::uint32_t index = 0;  // item: the caller's; child: in `tracks_`
  };
  /// One interval and what waits in it.
  struct Track {
    std::uint64_t frontier = 0;
    std::vector<Entry> heap;  // least `begin` first
    // Of a refined share:
    ScopeId scope;
    std::uint32_t outer = no_track;  // the track it is a part of
    std::uint64_t begin = 0;         // and which part
    std::uint64_t width = 0;
  };

  bool insert(const Share& share, Entry::Kind kind, Item item);
  /// `no_track`: its place has passed already, or too many scopes have begun.
  std::uint32_t track_of(const Scope& scope);
  std::uint32_t root_track(std::uint64_t sequence);
  std::uint32_t new_track();
  std::uint32_t new_child(std::uint32_t outer, const Scope& finer);
  void push(std::uint32_t track, Entry entry);
  Item pop_next(bool keep_open);
  /// The first entry of the track in hand, if everything before it has passed.
  bool take_first(Entry& first);
  /// Goes on in the outer track, or the next scope, wherever one has passed to its end.
  void leave_complete();
  void drop(std::uint32_t track);
  bool fail(std::string_view why) {
    problem_ = why;
    return false;
  }

  std::uint64_t sequence_ = 0;             // the scope that goes now
  Table<std::uint32_t> roots_;             // sequence -> track
  Table<std::uint32_t, ScopeId> refined_;  // -> track
  std::uint32_t current_ = no_track;       // roots_[sequence_], cached
  std::uint32_t hand_ = no_track;          // the finest track at the frontier of that
  std::vector<Track> tracks_;
  std::vector<std::uint32_t> free_;
  std::vector<const Scope*> missing_;  // while a track is looked for
  std::size_t waiting_ = 0;            // items
  std::size_t entries_ = 0;
  std::size_t waiting_max_ = unbounded;
  bool broken_ = false;
  std::string_view problem_;
};

}  // namespace sluice
