// How pages stand in a file: a segment is a block that says what it is, then records of one size,
// one page each.
//
// A segment is written once, record behind record, and never changed; to make room it is removed
// whole. A record's head names the page (key, parent, generation), its place (owner, segment,
// slot) and the CRC-32C of its content, under a CRC-32C of its own; its foot repeats what ties it
// to that head. So a record that is torn, stands elsewhere than it was written, is another
// folder's or has a flipped bit is told from a whole one. No protection against who may write the
// files. Shape: a record is head, content, zeros, foot; segment block and records are whole blocks
// of 4096 bytes. Units: bytes; numbers are little-endian. Thread: any; no state.
// Source: omni-flow, section 4.1 (tiers).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/page_key.h"

namespace sluice {

inline constexpr std::size_t segment_block = 4096;
inline constexpr std::size_t record_head_bytes = 128;
inline constexpr std::size_t record_foot_bytes = 32;
inline constexpr std::uint32_t record_content_most = 1U << 30;

struct SegmentHead {
  std::uint64_t owner = 0;   // of the folder: whose keys these are
  std::uint64_t number = 0;  // of the segment; its file's name
  std::uint64_t layout = 0;  // of all its pages
  std::uint32_t content_bytes = 0;
  std::uint32_t slots = 0;  // records that there is room for
  bool operator==(const SegmentHead&) const = default;
};

struct RecordHead {
  PageKey key, parent;
  std::uint64_t generation = 0;  // of the writing: grows in a folder
  bool operator==(const RecordHead&) const = default;
};

enum class RecordState : std::uint8_t {
  whole,       // of a check of its two ends: they belong together
  empty,       // nothing was written
  unfinished,  // begun: the head is right and the foot is not there
  broken,      // anything else
};

struct RecordCheck {
  RecordState state = RecordState::broken;
  RecordHead head;                  // of a whole one
  std::uint32_t content_crc32c = 0;  // as its head says
};

std::size_t record_bytes(std::uint32_t content_bytes);
/// Of slot `slots`: the size of a full segment.
std::uint64_t record_offset(const SegmentHead& segment, std::uint32_t slot);

/// Requires: `block` has `segment_block` bytes, as where blocks are read below.
void write_segment_head(const SegmentHead& head, std::span<std::byte> block);
/// None: it is no segment's of this version.
std::optional<SegmentHead> read_segment_head(std::span<const std::byte> block);

/// Where the content stands in a record.
std::span<std::byte> record_content(const SegmentHead& segment, std::span<std::byte> record);
std::span<const std::byte> record_content(const SegmentHead& segment,
                                          std::span<const std::byte> record);
/// Makes a record of the content that stands in it. Requires: `record_bytes` of them.
void write_record(const SegmentHead& segment, std::uint32_t slot, const RecordHead& head,
                  std::span<std::byte> record);

/// By a record's first and last block, which may be the same; the content is not looked at.
RecordCheck check_ends(const SegmentHead& segment, std::uint32_t slot,
                       std::span<const std::byte> first, std::span<const std::byte> last);
/// By all of it.
RecordCheck check_record(const SegmentHead& segment, std::uint32_t slot,
                         std::span<const std::byte> record);

}  // namespace sluice
