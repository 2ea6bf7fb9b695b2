// Any bytes as a segment: a scan stays within them, ends, and finds at most what there is room
// for; what is whole when it is read was found by the scan, with the same head.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/segment_scan.h"

using namespace sluice;

namespace {

/// Checksums that are right, so that what lies behind them is reached: the first byte says of
/// which records.
void mend(std::vector<std::byte>& file, std::uint8_t which) {
  if (file.size() < segment_block) return;
  const SegmentHead head{7, 9, 5, static_cast<std::uint32_t>(1 + which * 37U), 1U + which % 5U};
  write_segment_head(head, std::span(file).first(segment_block));
  for (std::uint32_t slot = 0; slot < head.slots; ++slot) {
    const std::uint64_t offset = record_offset(head, slot);
    const std::size_t size = record_bytes(head.content_bytes);
    if (offset + size > file.size() || (which >> slot & 1U) == 0) continue;
    write_record(head, slot, {{{slot, 1, 2, 3}}, {}, slot}, std::span(file).subspan(offset, size));
  }
}

void check(const std::vector<std::byte>& file) {
  SegmentScan scan(7, 9, file.size());
  std::uint64_t reads = 0;
  while (const auto range = scan.wants()) {
    if (range->bytes == 0 || range->offset + range->bytes > file.size()) __builtin_trap();
    if (++reads > file.size() / segment_block + 1) __builtin_trap();
    scan.take(std::span(file).subspan(range->offset, range->bytes));
  }
  if (!scan.head().has_value()) {
    if (!scan.whole().empty()) __builtin_trap();
    return;
  }
  const SegmentHead& head = *scan.head();
  if (scan.whole().size() + scan.unfinished() + scan.broken() > head.slots) __builtin_trap();
  for (std::uint32_t slot = 0; slot < head.slots; ++slot) {
    const std::uint64_t offset = record_offset(head, slot);
    const std::size_t size = record_bytes(head.content_bytes);
    if (offset + size > file.size()) break;
    const RecordCheck found =
        check_record(head, slot, std::span(file).subspan(offset, size));
    if (found.state != RecordState::whole) continue;
    if (!std::ranges::any_of(scan.whole(), [&](const SegmentScan::Found& one) {
          return one.slot == slot && one.head == found.head;
        }))
      __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> file;
  for (std::size_t i = 1; i < size; ++i) file.push_back(static_cast<std::byte>(data[i]));
  check(file);
  mend(file, data[0]);
  check(file);
  return 0;
}
