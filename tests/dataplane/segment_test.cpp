// Segments: what a scan finds in bytes that a crash, a bad disk or somebody else has had in hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "base/random.h"
#include "dataplane/segment_scan.h"
#include "tests/sanitized.h"

using namespace sluice;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t owner = 77;

PageKey key_of(std::uint64_t n) {
  SplitMix64 random(n);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

SegmentHead head_of(std::uint32_t content, std::uint32_t slots) {
  return {owner, 9, 5, content, slots};
}

RecordHead record_of(std::uint32_t slot) {
  return {key_of(slot + 1), slot == 0 ? PageKey{} : key_of(slot), 100 + slot};
}

Bytes content_of(const SegmentHead& segment, std::uint32_t slot) {
  Bytes bytes(segment.content_bytes);
  SplitMix64 random(slot + 1000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

Bytes make_record(const SegmentHead& segment, std::uint32_t slot) {
  Bytes record(record_bytes(segment.content_bytes), std::byte{0xee});
  std::ranges::copy(content_of(segment, slot), record_content(segment, std::span(record)).begin());
  write_record(segment, slot, record_of(slot), record);
  return record;
}

Bytes make_file(const SegmentHead& segment, std::uint32_t records) {
  Bytes file(segment_block);
  write_segment_head(segment, file);
  for (std::uint32_t slot = 0; slot < records; ++slot) {
    const Bytes record = make_record(segment, slot);
    file.insert(file.end(), record.begin(), record.end());
  }
  return file;
}

SegmentScan scan_of(const Bytes& file, std::uint64_t number = 9, std::uint64_t whose = owner) {
  SegmentScan scan(whose, number, file.size());
  while (const auto range = scan.wants()) {
    REQUIRE(range->offset + range->bytes <= file.size());
    scan.take(std::span(file).subspan(range->offset, range->bytes));
  }
  return scan;
}

/// What a reader would get in the end: found by the scan, and whole when it is read. Checks that
/// each is exactly what was written at its place.
std::size_t readable(const SegmentHead& segment, const Bytes& file) {
  const SegmentScan scan = scan_of(file);
  if (!scan.head().has_value()) return 0;
  REQUIRE(*scan.head() == segment);
  std::size_t count = 0;
  for (const SegmentScan::Found& found : scan.whole()) {
    REQUIRE(found.head == record_of(found.slot));
    const auto record = std::span(file).subspan(record_offset(segment, found.slot),
                                                record_bytes(segment.content_bytes));
    if (check_record(segment, found.slot, record).state != RecordState::whole) continue;
    REQUIRE(std::ranges::equal(record_content(segment, record), content_of(segment, found.slot)));
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("a scan finds the records that were written, with any size of content") {
  for (const std::uint32_t content : {1U, 3936U, 3937U, 4096U, 20000U})
    for (const std::uint32_t records : {0U, 1U, 3U}) {
      const SegmentHead segment = head_of(content, 3);
      const Bytes file = make_file(segment, records);
      const SegmentScan scan = scan_of(file);
      CHECK(scan.whole().size() == records);
      CHECK(scan.unfinished() == 0);
      CHECK(scan.broken() == 0);
      CHECK(readable(segment, file) == records);
      CHECK(file.size() == record_offset(segment, records));
    }
}

TEST_CASE("after any prefix of the writing a subset of the pages is there, never a wrong one") {
  for (const std::uint32_t content : {100U, 5000U}) {
    const SegmentHead segment = head_of(content, 4);
    const Bytes whole = make_file(segment, 3);
    const std::size_t record = record_bytes(content);
    for (std::size_t bytes = 0; bytes <= whole.size(); bytes += testing::sanitized ? 7 : 1) {
      const std::size_t most = bytes < segment_block ? 0 : (bytes - segment_block) / record;
      // The file ends there, or the blocks behind were allocated and hold zeros.
      Bytes ended(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
      REQUIRE(readable(segment, ended) == most);
      ended.resize(whole.size());
      const std::size_t padded = readable(segment, ended);
      // The last bytes of a foot may be zeros that were written.
      REQUIRE((padded == most || padded == most + 1));
    }
  }
}

TEST_CASE("blocks that reach the disk in any order give no wrong page") {
  const SegmentHead segment = head_of(9000, 4);
  const Bytes whole = make_file(segment, 4);
  const std::size_t blocks = whole.size() / segment_block;
  REQUIRE(blocks == 13);
  for (std::uint32_t present = 0; present < 1U << blocks; ++present) {
    Bytes file(whole.size());
    for (std::size_t block = 0; block < blocks; ++block)
      if ((present >> block & 1U) != 0)
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(block * segment_block),
                    segment_block,
                    file.begin() + static_cast<std::ptrdiff_t>(block * segment_block));
    std::size_t want = 0;
    for (std::uint32_t slot = 0; slot < 4; ++slot)
      want += (present >> (1 + 3 * slot) & 7U) == 7U && (present & 1U) != 0 ? 1 : 0;
    REQUIRE(readable(segment, file) == want);
  }
}

TEST_CASE("every flipped bit of a segment costs its record at most, and nothing wrong is read") {
  const SegmentHead segment = head_of(200, 2);
  const Bytes whole = make_file(segment, 2);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes file = whole;
    file[at] ^= static_cast<std::byte>(1U << (at % 8));
    REQUIRE(readable(segment, file) == (at < segment_block ? 0 : 1));
  }
}

TEST_CASE("records at another place, of another segment, folder or size are not taken") {
  const SegmentHead segment = head_of(300, 3);
  const Bytes whole = make_file(segment, 3);
  const std::size_t record = record_bytes(300);
  Bytes swapped = whole;
  std::swap_ranges(swapped.begin() + segment_block,
                   swapped.begin() + static_cast<std::ptrdiff_t>(segment_block + record),
                   swapped.begin() + static_cast<std::ptrdiff_t>(segment_block + record));
  CHECK(readable(segment, swapped) == 1);
  CHECK(scan_of(swapped).broken() == 2);
  CHECK_FALSE(scan_of(whole, 10).head().has_value());
  CHECK_FALSE(scan_of(whole, 9, owner + 1).head().has_value());
  // The right head before records of another segment or folder.
  for (SegmentHead other : {SegmentHead{owner, 8, 5, 300, 3}, SegmentHead{owner + 1, 9, 5, 300, 3},
                            SegmentHead{owner, 9, 6, 300, 3}, SegmentHead{owner, 9, 5, 301, 3}}) {
    Bytes file = make_file(other, 3);
    std::copy_n(whole.begin(), segment_block, file.begin());
    CHECK(readable(segment, file) == 0);
    CHECK(scan_of(file).broken() == 3);
  }
  // Content of one page under the head of another.
  Bytes mixed = whole;
  std::ranges::copy(content_of(segment, 2),
                    mixed.begin() + static_cast<std::ptrdiff_t>(segment_block + record_head_bytes));
  CHECK(scan_of(mixed).whole().size() == 3);
  CHECK(readable(segment, mixed) == 2);
}

TEST_CASE("a record whose foot is not written is unfinished, one whose foot is wrong is broken") {
  const SegmentHead segment = head_of(6000, 1);
  Bytes file = make_file(segment, 1);
  std::fill(file.end() - record_foot_bytes, file.end(), std::byte{0});
  CHECK(scan_of(file).unfinished() == 1);
  file.back() = std::byte{1};
  CHECK(scan_of(file).broken() == 1);
}
