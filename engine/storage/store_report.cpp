#include "engine/storage/store_report.h"

#include <unistd.h>

#include <algorithm>

#include "dataplane/segment_scan.h"
#include "engine/storage/store_folder.h"

namespace sluice {
namespace {

/// Bytes that are there; less than asked for at the end of the file.
std::span<const std::byte> read_at(const SegmentFile& file, std::uint64_t offset,
                                   std::span<std::byte> bytes) {
  std::size_t moved = 0;
  while (moved < bytes.size()) {
    const ssize_t got = ::pread(file.descriptor(), bytes.data() + moved, bytes.size() - moved,
                                static_cast<off_t>(offset + moved));
    if (got <= 0) break;
    moved += static_cast<std::size_t>(got);
  }
  return bytes.first(moved);
}

std::string place_of(std::uint64_t segment, std::uint32_t slot) {
  return "segment " + std::to_string(segment) + ", record " + std::to_string(slot);
}

void count(const RecordCheck& check, const std::string& place, StoreReport& report) {
  report.pages += check.state == RecordState::whole ? 1 : 0;
  report.unfinished += check.state == RecordState::unfinished ? 1 : 0;
  if (check.state == RecordState::broken)
    report.broken.push_back(place + ": not what was written there");
}

void verify_records(const SegmentFile& file, const SegmentHead& head, std::uint64_t file_bytes,
                    StoreReport& report) {
  std::vector<std::byte> record(record_bytes(head.content_bytes));
  for (std::uint32_t slot = 0; slot < head.slots; ++slot) {
    const std::uint64_t offset = record_offset(head, slot);
    if (offset >= file_bytes) return;
    // What the file ends before was not written.
    const std::span<const std::byte> got = read_at(file, offset, record);
    std::fill(record.begin() + static_cast<std::ptrdiff_t>(got.size()), record.end(),
              std::byte{0});
    count(check_record(head, slot, record), place_of(head.number, slot), report);
  }
}

}  // namespace

Result<StoreReport> report_store(const std::string& path, bool verify) {
  const Result<StoreFolder> folder = StoreFolder::look(path);
  if (!folder.ok()) return folder.error();
  const Result<std::vector<StoreFolder::File>> files = folder->files();
  if (!files.ok()) return files.error();
  StoreReport report;
  report.is_held = folder->is_held();
  std::vector<std::byte> two(2 * segment_block);
  for (const StoreFolder::File& file : *files) {
    ++report.segments;
    report.bytes += file.bytes;
    const Result<std::shared_ptr<SegmentFile>> opened = folder->read(file.number, false);
    SegmentScan scan(folder->owner(), file.number, file.bytes);
    while (const auto range = scan.wants()) {
      scan.take(opened.ok() ? read_at(**opened, range->offset,
                                      std::span<std::byte>(two).first(range->bytes))
                            : std::span<const std::byte>());
      if (verify && scan.head().has_value()) break;
    }
    // Nothing but the room for its head: whoever made it died, or has just begun.
    if (!scan.head().has_value() && file.bytes == 0) ++report.unfinished;
    if (!scan.head().has_value() && file.bytes != 0)
      report.broken.push_back("segment " + std::to_string(file.number) +
                              ": its head is none of this folder's");
    if (!scan.head().has_value()) continue;
    if (verify) {
      verify_records(**opened, *scan.head(), file.bytes, report);
      continue;
    }
    report.pages += scan.whole().size();
    report.unfinished += scan.unfinished();
    for (std::uint32_t i = 0; i < scan.broken(); ++i)
      report.broken.push_back("segment " + std::to_string(file.number) +
                              ": a record's ends are not what was written there");
  }
  return report;
}

}  // namespace sluice
