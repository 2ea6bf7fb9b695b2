#include "dataplane/segment_scan.h"

#include <algorithm>

namespace sluice {

std::optional<SegmentScan::Range> SegmentScan::wants() const {
  if (ended_) return std::nullopt;
  const std::uint64_t offset =
      slot_ == 0 ? 0 : record_offset(*head_, slot_) - segment_block;
  if (offset >= file_bytes_) return std::nullopt;
  return Range{offset, static_cast<std::size_t>(
                           std::min<std::uint64_t>(2 * segment_block, file_bytes_ - offset))};
}

/// The last block of record `slot_ - 1`, the first of record `slot_`.
void SegmentScan::take(std::span<const std::byte> bytes) {
  // What the file ends in the middle of counts as zeros: not written.
  std::vector<std::byte> two(2 * segment_block);
  std::ranges::copy(bytes.first(std::min(bytes.size(), two.size())), two.begin());
  const auto last = std::span<const std::byte>(two).first(segment_block);
  const auto first = std::span<const std::byte>(two).subspan(segment_block);
  if (slot_ == 0) {
    if (bytes.size() >= segment_block) head_ = read_segment_head(last);
    if (!head_.has_value() || head_->owner != owner_ || head_->number != number_) {
      head_.reset();
      ended_ = true;
      return;
    }
  } else {
    const RecordCheck check = check_ends(*head_, slot_ - 1, before_, last);
    if (check.state == RecordState::whole) whole_.push_back({slot_ - 1, check.head});
    unfinished_ += check.state == RecordState::unfinished ? 1 : 0;
    broken_ += check.state == RecordState::broken ? 1 : 0;
  }
  if (slot_ == head_->slots) {
    ended_ = true;
    return;
  }
  before_.assign(first.begin(), first.end());
  ++slot_;
  // A record whose last block is behind the end of the file.
  if (record_offset(*head_, slot_) > file_bytes_) {
    unfinished_ += bytes.size() > segment_block ? 1 : 0;
    ended_ = true;
  }
}

}  // namespace sluice
