// Which records a folder has and where the next one goes: places, room, and who has to go.
#include "dataplane/segment_index.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace sluice;

namespace {

constexpr std::uint64_t block = segment_block;
constexpr std::uint32_t content = 1000;  // a record is one block

PageKey key_of(std::uint64_t number) { return {{number, 0, 0, 0}}; }

/// Segments of two records, of which four have room.
SegmentIndex four_of_two() { return {7, 5, content, {12 * block, 3 * block}}; }

SegmentIndex::Writing write(SegmentIndex& index, std::uint64_t key, std::uint64_t parent = 0) {
  SegmentIndex::Writing made = index.begin(key_of(key), key_of(parent));
  index.ended(made.page, true);
  return made;
}

using Numbers = std::vector<std::uint64_t>;

/// The pages 1 to 8, two in each of four segments.
SegmentIndex full() {
  SegmentIndex index = four_of_two();
  for (std::uint64_t key = 1; key <= 8; ++key) CHECK(write(index, key).drops.empty());
  return index;
}

/// A segment's file of that head with these records, as a scan sees it.
SegmentScan scan_of(const SegmentHead& head, const std::vector<RecordHead>& records,
                    std::uint64_t owner = 7) {
  std::vector<std::byte> file(block);
  write_segment_head(head, file);
  for (std::uint32_t slot = 0; slot < records.size(); ++slot) {
    std::vector<std::byte> record(record_bytes(content));
    write_record(head, slot, records[slot], record);
    file.insert(file.end(), record.begin(), record.end());
  }
  SegmentScan scan(owner, head.number, file.size());
  while (const auto range = scan.wants())
    scan.take(std::span(file).subspan(range->offset, range->bytes));
  return scan;
}

}  // namespace

TEST_CASE("records take the places of a segment one by one, then a new one's") {
  REQUIRE(record_bytes(content) == block);
  SegmentIndex index = four_of_two();
  CHECK(index.last_segment() == 0);
  CHECK(index.bytes() == 0);
  for (std::uint64_t key = 1; key <= 5; ++key) {
    CAPTURE(key);
    const std::uint64_t segment = (key + 1) / 2, slot = (key - 1) % 2;
    const SegmentIndex::Writing made = index.begin(key_of(key), key_of(key - 1));
    CHECK(made.opens == (slot == 0));
    CHECK(made.drops.empty());
    CHECK(made.page.segment == segment);
    CHECK(made.page.slot == slot);
    CHECK(made.page.head == RecordHead{key_of(key), key_of(key - 1), segment << 24U | slot});
    CHECK(index.head_of(segment) == SegmentHead{7, segment, 5, content, 2});
    CHECK(index.bytes() == segment * 3 * block);
    CHECK(index.knows(key_of(key)));
    CHECK(index.find(key_of(key)) == nullptr);  // not yet
    CHECK_FALSE(index.is_full(segment));
    index.ended(made.page, true);
    CHECK(index.find(key_of(key)) != nullptr);
    CHECK(index.is_full(segment) == (slot == 1));
    CHECK(index.pages() == key);
    CHECK(index.segments() == segment);
    CHECK(index.last_segment() == segment);
  }
  CHECK_FALSE(index.knows(key_of(6)));
  CHECK_FALSE(index.is_full(9));
}

TEST_CASE("a segment has as many records as its size and half the folder let it have, or one") {
  const auto slots = [](std::uint64_t bytes_most, std::uint64_t segment_bytes) {
    SegmentIndex index(7, 5, content, {bytes_most, segment_bytes});
    return index.head_of(write(index, 1).page.segment).slots;
  };
  CHECK(slots(100 * block, 5 * block) == 4);
  CHECK(slots(100 * block, 5 * block - 1) == 3);
  CHECK(slots(100 * block, 0) == 1);
  CHECK(slots(100 * block, block) == 1);
  CHECK(slots(8 * block, 50 * block) == 3);
  CHECK(slots(4 * block, 50 * block) == 1);
}

TEST_CASE("a segment with a record that was not written, or that is closed, takes no more") {
  SegmentIndex index = four_of_two();
  const SegmentIndex::Writing lost = index.begin(key_of(1), key_of(0));
  index.ended(lost.page, false);
  CHECK_FALSE(index.knows(key_of(1)));
  CHECK(index.is_full(1));
  CHECK(write(index, 2).page.segment == 2);
  index.close(9);
  CHECK(write(index, 3).page.segment == 2);
  CHECK(write(index, 4).page.segment == 3);
  index.close(3);
  CHECK(index.is_full(3));
  const SegmentIndex::Writing late = index.begin(key_of(5), key_of(0));
  CHECK(late.page.segment == 4);
  const SegmentIndex::Writing beside = index.begin(key_of(6), key_of(0));
  CHECK(beside.page.segment == 4);
  CHECK_FALSE(index.is_full(4));
  index.ended(late.page, true);
  CHECK_FALSE(index.is_full(4));
  index.ended(beside.page, true);
  CHECK(index.is_full(4));
}

TEST_CASE("pages are matched each behind its parent, from a place on") {
  SegmentIndex index = four_of_two();
  write(index, 1);
  write(index, 2, 1);
  write(index, 3, 2);
  write(index, 5, 9);
  const std::vector<PageKey> keys{key_of(1), key_of(2), key_of(3), key_of(5)};
  CHECK(index.match(keys, 0) == 3);
  CHECK(index.match(keys, 1) == 2);
  CHECK(index.match(keys, 3) == 0);
  CHECK(index.match(keys, 4) == 0);
  CHECK(index.match(std::span(keys).first(2), 0) == 2);
  CHECK(index.match(std::span(keys).last(1), 0) == 1);  // whose parent nobody asks for
  index.lost(key_of(2), index.find(key_of(2))->head.generation + 1);
  CHECK(index.match(keys, 0) == 3);
  index.lost(key_of(2), index.find(key_of(2))->head.generation);
  CHECK(index.match(keys, 0) == 1);
  CHECK(index.pages() == 3);
}

TEST_CASE(
    "a full folder gives up the segment with fewest pages that were used, then fewest pages") {
  SegmentIndex index = full();
  CHECK(index.bytes() == 12 * block);
  index.used(key_of(1));
  index.used(key_of(99));  // is not there
  CHECK(write(index, 9).drops == Numbers{2});
  CHECK(index.find(key_of(3)) == nullptr);
  CHECK(index.find(key_of(4)) == nullptr);
  CHECK(index.bytes() == 12 * block);
  write(index, 10);
  index.lost(key_of(8), index.find(key_of(8))->head.generation);
  CHECK(write(index, 11).drops == Numbers{4});  // one page is left of it
  CHECK(index.segments() == 4);
  write(index, 12);
  CHECK(write(index, 13).drops == Numbers{3});
}

TEST_CASE("no segment goes that has what the page to be written follows") {
  SegmentIndex index = four_of_two();
  for (std::uint64_t key = 1; key <= 8; ++key) {
    REQUIRE(index.has_room_behind(key_of(key - 1)));
    write(index, key, key - 1);
  }
  CHECK_FALSE(index.has_room_behind(key_of(8)));  // all are its chain's
  CHECK(index.has_room_behind(key_of(6)));
  CHECK(index.has_room_behind(key_of(99)));  // is not there
  SegmentIndex late = index;
  CHECK(write(late, 9, 6).drops == Numbers{4});
  CHECK(late.has_room_behind(key_of(9)));  // in the same segment
  // The beginning is not there, so nothing is gained by its segment.
  index.lost(key_of(2), index.find(key_of(2))->head.generation);
  CHECK(index.has_room_behind(key_of(8)));
  CHECK(write(index, 9, 8).drops == Numbers{1});
  // What is followed may be under way still.
  SegmentIndex slow = four_of_two();
  for (std::uint64_t key = 1; key <= 7; ++key) write(slow, key, key - 1);
  const SegmentIndex::Writing under_way = slow.begin(key_of(8), key_of(7));
  CHECK_FALSE(slow.has_room_behind(key_of(8)));
  slow.ended(under_way.page, true);
  // Others' files may say that two pages follow each other.
  SegmentIndex round = four_of_two();
  write(round, 1, 2);
  for (std::uint64_t key = 2; key <= 8; ++key) write(round, key, key == 2 ? 1 : 0);
  CHECK(write(round, 9, 2).drops == Numbers{2});
}

TEST_CASE("a record that says of what a page follows what is not so makes room for the right one") {
  SegmentIndex index = four_of_two();
  write(index, 1);
  write(index, 2, 9);
  index.follows(key_of(1), key_of(0));
  index.follows(key_of(7), key_of(0));  // is not there
  CHECK((index.knows(key_of(1)) && index.knows(key_of(2))));
  index.follows(key_of(2), key_of(1));
  CHECK_FALSE(index.knows(key_of(2)));
  write(index, 2, 1);
  index.follows(key_of(2), key_of(1));
  CHECK(index.match(std::vector{key_of(1), key_of(2)}, 0) == 2);
}

TEST_CASE("whoever was refused room hears of all that may have made some, and of nothing else") {
  SegmentIndex index = four_of_two();
  for (std::uint64_t key = 1; key <= 8; ++key) write(index, key, key - 1);
  std::uint64_t before = index.room_changes();
  CHECK_FALSE(index.has_room_behind(key_of(8)));
  index.used(key_of(1));
  CHECK(index.room_changes() == before);
  SegmentIndex shorter = index;
  shorter.lost(key_of(2), shorter.find(key_of(2))->head.generation);
  CHECK((shorter.has_room_behind(key_of(8)) && shorter.room_changes() > before));
  write(index, 9, 2);  // others' segments go for it, and its own has room
  CHECK((index.has_room_behind(key_of(8)) && index.room_changes() > before));
  SegmentIndex failed = four_of_two();
  for (std::uint64_t key = 1; key <= 7; ++key) write(failed, key, key - 1);
  const SegmentIndex::Writing last = failed.begin(key_of(8), key_of(7));
  before = failed.room_changes();
  failed.ended(last.page, false);
  CHECK(failed.room_changes() > before);
}

TEST_CASE("a segment that is being written stays") {
  SegmentIndex index = four_of_two();
  const SegmentIndex::Writing open = index.begin(key_of(1), key_of(0));
  for (std::uint64_t key = 2; key <= 8; ++key) write(index, key);
  CHECK(write(index, 9).drops == Numbers{2});
  write(index, 10);
  index.ended(open.page, true);
  CHECK(write(index, 11).drops == Numbers{1});
}

TEST_CASE("uses are halved when as many segments have gone as there are") {
  SegmentIndex index = full();
  index.used(key_of(1));
  for (const std::uint64_t key : {3U, 5U, 5U, 5U}) index.used(key_of(key));
  Numbers gone;
  for (std::uint64_t key = 9; key <= 22; ++key)
    for (const std::uint64_t segment : write(index, key).drops) gone.push_back(segment);
  // Each that is not used; after three of them the two that were used once are as any other, and
  // after three more the one that was used three times.
  CHECK(gone == Numbers{4, 5, 6, 1, 2, 7, 3});
}

TEST_CASE(
    "segments that were there are known again: the newest of each page, others' first to go") {
  SegmentIndex index = four_of_two();
  const SegmentHead third{7, 3, 5, content, 2}, fifth{7, 5, 5, content, 2};
  const auto record = [](std::uint64_t key, std::uint64_t generation) {
    return RecordHead{key_of(key), key_of(0), generation};
  };
  index.found(5, 3 * block, scan_of(fifth, {record(1, 50), record(2, 51)}));
  index.found(3, 3 * block, scan_of(third, {record(1, 30), record(4, 31)}));
  CHECK(index.last_segment() == 5);
  CHECK(index.pages() == 3);
  CHECK(index.bytes() == 6 * block);
  CHECK(index.find(key_of(1))->segment == 5);
  CHECK(index.find(key_of(4))->segment == 3);
  CHECK(index.find(key_of(4))->slot == 1);
  index.found(9, 4 * block, scan_of({8, 9, 5, content, 2}, {record(6, 90)}, 7));
  CHECK(index.find(key_of(6)) == nullptr);
  CHECK(index.bytes() == 10 * block);
  CHECK(index.last_segment() == 9);
  const SegmentIndex::Writing made = write(index, 7);
  CHECK(made.drops == Numbers{9});
  CHECK(made.page.segment == 10);
  CHECK(index.bytes() == 9 * block);
  SegmentIndex newer = four_of_two();
  newer.found(3, 3 * block, scan_of(third, {record(1, 30)}));
  newer.found(5, 3 * block, scan_of(fifth, {record(1, 50)}));
  CHECK(newer.find(key_of(1))->segment == 5);
  CHECK(newer.pages() == 1);
  SegmentIndex other(7, 6, content, {12 * block, 3 * block});  // another layout
  other.found(3, 3 * block, scan_of(third, {record(1, 30)}));
  const std::vector<PageKey> keys{key_of(1)};
  CHECK(other.match(keys, 0) == 0);
}
