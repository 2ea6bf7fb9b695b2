#include "engine/storage/store_report.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

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
  return StoreFolder::name_of(segment) + ", record " + std::to_string(slot);
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
    std::fill(record.begin() + static_cast<std::ptrdiff_t>(got.size()), record.end(), std::byte{0});
    count(check_record(head, slot, record), place_of(head.number, slot), report);
  }
}

/// Reads ends of records until it has seen all, or, `head_only`, the segment's head.
void run_scan(SegmentScan& scan, const Result<std::shared_ptr<SegmentFile>>& file, bool head_only) {
  std::vector<std::byte> two(2 * segment_block);
  while (const auto range = scan.wants()) {
    scan.take(file.ok()
                  ? read_at(**file, range->offset, std::span<std::byte>(two).first(range->bytes))
                  : std::span<const std::byte>());
    if (head_only && scan.head().has_value()) return;
  }
}

std::int64_t seconds_since_written(const SegmentFile& file) {
  struct stat facts {};
  if (::fstat(file.descriptor(), &facts) != 0) return 0;
  return std::max<std::int64_t>(::time(nullptr) - facts.st_mtim.tv_sec, 0);
}

/// How far each page is from its chain's beginning, and which chains there are. A page may have
/// been written anew behind one that follows it; a circle, which only somebody else can have
/// written, has no beginning.
void follow_chains(FolderPages& found) {
  std::map<PageKey, std::size_t> latest;
  for (std::size_t i = 0; i < found.pages.size(); ++i) latest[found.pages[i].key] = i;
  constexpr std::uint32_t unknown = ~0U;
  for (FolderPage& page : found.pages) page.depth = unknown;
  std::set<PageKey> followed;
  std::vector<std::size_t> way;
  for (std::size_t i = 0; i < found.pages.size(); ++i) {
    followed.insert(found.pages[i].parent);
    std::uint32_t depth = 0;
    for (std::size_t at = i;;) {
      FolderPage& page = found.pages[at];
      depth = page.depth;
      if (depth != unknown) break;
      page.depth = depth = 0;  // until the way back, which a circle does not have
      way.push_back(at);
      if (page.parent == PageKey{}) {
        page.depth = depth = 1;
        way.pop_back();
        break;
      }
      const auto before = latest.find(page.parent);
      if (before == latest.end()) break;
      at = before->second;
    }
    for (; !way.empty(); way.pop_back())
      found.pages[way.back()].depth = depth = depth == 0 ? 0 : depth + 1;
  }
  for (const FolderPage& page : found.pages) {
    found.longest = std::max(found.longest, page.depth);
    found.cut += page.depth == 0 ? 1 : 0;
    found.chains += page.depth > 0 && !followed.contains(page.key) ? 1 : 0;
  }
}

}  // namespace

Result<FolderPages> list_store(const std::string& path) {
  const Result<StoreFolder> folder = StoreFolder::look(path);
  if (!folder.ok()) return folder.error();
  const Result<std::vector<StoreFolder::File>> files = folder->files();
  if (!files.ok()) return files.error();
  FolderPages found;
  found.is_held = folder->is_held();
  for (const StoreFolder::File& file : *files) {
    FolderSegment& segment = found.segments.emplace_back();
    segment.number = file.number;
    segment.bytes = file.bytes;
    const Result<std::shared_ptr<SegmentFile>> opened = folder->read(file.number, false);
    if (opened.ok()) segment.written_s = seconds_since_written(**opened);
    SegmentScan scan(folder->owner(), file.number, file.bytes);
    run_scan(scan, opened, false);
    if (!scan.head().has_value()) continue;
    segment.is_segment = true;
    segment.layout = scan.head()->layout;
    segment.page_bytes = scan.head()->content_bytes;
    segment.room = scan.head()->slots;
    segment.pages = static_cast<std::uint32_t>(scan.whole().size());
    segment.unfinished = scan.unfinished();
    segment.broken = scan.broken();
    for (const SegmentScan::Found& one : scan.whole())
      found.pages.push_back(
          {one.head.key, one.head.parent, file.number, one.head.generation, one.slot, 0});
  }
  std::ranges::stable_sort(found.pages, {}, &FolderPage::generation);
  follow_chains(found);
  return found;
}

Result<StoreReport> report_store(const std::string& path, bool verify) {
  const Result<StoreFolder> folder = StoreFolder::look(path);
  if (!folder.ok()) return folder.error();
  const Result<std::vector<StoreFolder::File>> files = folder->files();
  if (!files.ok()) return files.error();
  StoreReport report;
  report.is_held = folder->is_held();
  for (const StoreFolder::File& file : *files) {
    ++report.segments;
    report.bytes += file.bytes;
    const Result<std::shared_ptr<SegmentFile>> opened = folder->read(file.number, false);
    SegmentScan scan(folder->owner(), file.number, file.bytes);
    run_scan(scan, opened, verify);
    // Nothing but the room for its head: whoever made it died, or has just begun.
    if (!scan.head().has_value() && file.bytes == 0) ++report.unfinished;
    if (!scan.head().has_value() && file.bytes != 0)
      report.broken.push_back(StoreFolder::name_of(file.number) +
                              ": its head is none of this folder's");
    if (!scan.head().has_value()) continue;
    if (verify) {
      verify_records(**opened, *scan.head(), file.bytes, report);
      continue;
    }
    report.pages += scan.whole().size();
    report.unfinished += scan.unfinished();
    for (std::uint32_t i = 0; i < scan.broken(); ++i)
      report.broken.push_back(StoreFolder::name_of(file.number) +
                              ": a record's ends are not what was written there");
  }
  return report;
}

}  // namespace sluice
