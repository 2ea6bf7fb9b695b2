// Which pages stand in which segments, where the next one is written, and which segment goes when
// there is no room: a state machine without the bytes.
//
// A page is visible from the end of its writing on. Its segment is removed whole: first those that
// are not ours to read, then the one with the fewest pages that were read back lately, of those
// with the fewest pages, of those the oldest; its pages are forgotten and written again when they
// are made again. Never one with what the page to be written follows, which is of no use without:
// where all are needed for that there is no room behind it. Thread: one. Units: bytes. Errors:
// none; what cannot be stored is not wanted.
// Source: omni-flow, section 4.1 (tiers); Rosenblum and Ousterhout 1992 (segments).
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "dataplane/segment_scan.h"

namespace sluice {

struct SegmentLimits {
  std::uint64_t bytes_most = 0;    // of all files together
  std::uint64_t segment_bytes = 0;  // of one, about; one record at least
};

struct StoredPage {
  std::uint64_t segment = 0;
  std::uint32_t slot = 0;
  RecordHead head;
};

class SegmentIndex {
 public:
  /// `bytes_most` leaves room for two segments of records with this content.
  SegmentIndex(std::uint64_t owner, std::uint64_t layout, std::uint32_t content_bytes,
               SegmentLimits limits);

  /// A file that was there before; `scan` has seen all of it. It is written no more.
  void found(std::uint64_t number, std::uint64_t file_bytes, const SegmentScan& scan);

  const StoredPage* find(const PageKey& key) const;
  /// How many of `keys` from `first` on are here, each behind the one before it.
  std::size_t match(std::span<const PageKey> keys, std::size_t first) const;
  /// It was read back.
  void used(const PageKey& key);
  /// The key's content follows `parent`: what says that it follows another page is of no use.
  void follows(const PageKey& key, const PageKey& parent);
  /// It is not what was written; unless it has been written anew meanwhile.
  void lost(const PageKey& key, std::uint64_t generation);

  /// It is here, or being written.
  bool knows(const PageKey& key) const { return pages_.contains(key) || writing_.contains(key); }
  struct Writing {
    StoredPage page;
    bool opens = false;                // a new segment: its head is written before
    std::vector<std::uint64_t> drops;  // segments to be removed before
  };
  /// A page that follows `parent` (all zeros: none) can be written without a segment's going that
  /// has what it follows.
  bool has_room_behind(const PageKey& parent) const;
  /// Grows whenever there may be room where there was none.
  std::uint64_t room_changes() const { return room_changes_; }
  /// Requires: it is not known, and there is room behind `parent`, the page that it follows.
  Writing begin(const PageKey& key, const PageKey& parent);
  /// Of what `begin` gave; not written: the segment takes no more records, for nobody knows what
  /// stands in it.
  void ended(const StoredPage& page, bool written);
  /// It takes no more records: who comes after a restart cannot read it.
  void close(std::uint64_t segment);

  SegmentHead head_of(std::uint64_t segment) const;
  /// All its records have been written.
  bool is_full(std::uint64_t segment) const;
  /// The newest; 0: none.
  std::uint64_t last_segment() const { return next_.number; }
  std::size_t pages() const { return pages_.size(); }
  /// That segments may take; the one that is written counts as whole from its beginning on.
  std::uint64_t bytes() const { return bytes_; }
  /// Of these, what is still to be written there.
  std::uint64_t unwritten() const {
    return open_ == 0 ? 0 : record_offset(next_, next_.slots) - record_offset(next_, slot_);
  }
  std::size_t segments() const { return segments_.size(); }
  const SegmentLimits& limits() const { return limits_; }

 private:
  struct Entry {
    StoredPage page;
    std::uint32_t uses = 0;
  };
  struct Segment {
    SegmentHead head;
    std::uint64_t bytes = 0;
    bool is_ours = false;
    std::set<PageKey> keys;      // of its visible pages
    std::uint32_t writing = 0;  // begun, not ended
  };

  void forget(const PageKey& key);
  bool opens() const { return open_ == 0 || slot_ == next_.slots; }  // with the next page
  /// Those with `page` and what it follows, as far as that is here.
  std::set<std::uint64_t> segments_of_chain(const PageKey& page) const;
  void make_room(std::uint64_t bytes, const PageKey& parent, std::vector<std::uint64_t>& drops);
  void drop(std::uint64_t segment);
  bool goes_before(std::uint64_t a, std::uint64_t b) const;

  SegmentHead next_;  // what a new segment's head says
  SegmentLimits limits_;
  std::map<PageKey, Entry> pages_;
  std::map<PageKey, StoredPage> writing_;  // those that are begun
  std::map<std::uint64_t, Segment> segments_;
  std::uint64_t open_ = 0;  // segment that is written; 0: none
  std::uint32_t slot_ = 0;  // its next one
  std::uint64_t bytes_ = 0;
  std::size_t dropped_ = 0;  // segments, since uses were halved
  std::uint64_t room_changes_ = 0;
};

}  // namespace sluice
