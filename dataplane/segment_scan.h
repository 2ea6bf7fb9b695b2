// What a segment's bytes say is in it, from its ends of records alone: how an index is made anew.
//
// Whatever the bytes are, what it finds are records whose head and foot belong to this owner,
// segment and slot; their content is checked when it is read. Ask `wants`, give what stands there
// to `take`, until nothing is wanted. Cost: one read of two blocks a record. Thread: one.
#pragma once

#include <vector>

#include "dataplane/segment_format.h"

namespace sluice {

class SegmentScan {
 public:
  struct Range {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Found {
    std::uint32_t slot = 0;
    RecordHead head;
  };

  /// Of the file that bears this number in the folder of this owner.
  SegmentScan(std::uint64_t owner, std::uint64_t number, std::uint64_t file_bytes)
      : owner_(owner), number_(number), file_bytes_(file_bytes) {}

  /// Within the file. None: it has seen all.
  std::optional<Range> wants() const;
  /// Fewer bytes than were wanted: the file could not be read there.
  void take(std::span<const std::byte> bytes);

  /// None: the file is no segment of this folder.
  const std::optional<SegmentHead>& head() const { return head_; }
  const std::vector<Found>& whole() const { return whole_; }
  std::uint32_t unfinished() const { return unfinished_; }
  std::uint32_t broken() const { return broken_; }

 private:
  std::uint64_t owner_, number_, file_bytes_;
  std::optional<SegmentHead> head_;
  bool ended_ = false;
  std::uint32_t slot_ = 0;         // whose first block is read next
  std::vector<std::byte> before_;  // first block of the record before that
  std::vector<Found> whole_;
  std::uint32_t unfinished_ = 0, broken_ = 0;
};

}  // namespace sluice
