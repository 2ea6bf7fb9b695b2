// Which page stands where, as others find it in a region that they have mapped: all that is there,
// nothing else, whatever its memory holds; and is read then.
#include "dataplane/page_directory.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "base/random.h"
#include "page_shelf.h"

using namespace sluice;

namespace {

constexpr std::uint32_t slots = 24;
constexpr PageRegion region{slots, page_bytes};
constexpr std::uint64_t life = 7;

struct Memory {
  Ref<Buffer> bytes = Buffer::zeros(region.size());
  std::span<std::byte> all{bytes->data(), bytes->size()};
  PageDirectory directory{all.subspan(region.directory())};

  /// As its owner does when somebody asks for the page.
  void stamp(const PageKey& key, std::uint32_t page) {
    std::ranges::copy(stamp_of({0, life, 3, key, 0, page_bytes, 5}), at(page).begin());
  }
  void unstamp(std::uint32_t page) { std::ranges::fill(at(page), std::byte{0}); }
  std::span<std::byte> at(std::uint32_t page) {
    return all.subspan(region.stamp(page).offset, PageRegion::stamp_bytes);
  }
  NearPages find(std::span<const PageKey> keys, std::uint64_t of = life) const {
    return find_places(region, all, of, keys);
  }
};

/// Half of them begin at few places of the table, its last among them, so many stand elsewhere.
PageKey crowded_key(std::uint64_t number) {
  PageKey key = key_of(number);
  key.words[0] = number % 2 == 0 ? (number << 8U) + 62 + number % 3 : number * 0x9e3779b97f4a7c15U;
  return key;
}

}  // namespace

TEST_CASE("what is there is found by its key, and nothing that has gone") {
  CHECK(region.size() == region.directory() + 64 * PageRegion::slot_bytes);
  SplitMix64 random(11);
  Memory memory;
  std::map<std::uint64_t, std::uint32_t> there;  // key's number, page
  std::vector<std::uint32_t> empty;
  for (std::uint32_t page = 0; page < slots; ++page) empty.push_back(page);
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t number = random.next() % 60;
    const PageKey key = crowded_key(number);
    if (const auto it = there.find(number); it != there.end()) {
      memory.unstamp(it->second);
      memory.directory.remove(key, it->second);
      empty.push_back(it->second);
      there.erase(it);
    } else if (!empty.empty()) {
      there[number] = empty.back();
      empty.pop_back();
      memory.directory.add(key, there[number]);
      memory.stamp(key, there[number]);
    }
    std::vector<PageKey> keys;
    std::size_t want = 0;
    bool is_whole = true;
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::uint64_t one = random.next() % 60;
      keys.push_back(crowded_key(one));
      is_whole = is_whole && there.contains(one);
      want += is_whole ? 1 : 0;
    }
    const NearPages found = memory.find(keys);
    REQUIRE(found.is_all);
    REQUIRE(found.places.size() == want);
    for (std::size_t i = 0; i < want; ++i) {
      REQUIRE(memory.all.data() + region.stamp(found.places[i].page).offset ==
              memory.at(found.places[i].page).data());
      REQUIRE(found.places[i].head.key == keys[i]);
      REQUIRE(found.places[i].head.index == i);
    }
  }
  memory.directory.clear();
  for (std::uint64_t number = 0; number < 60; ++number)
    CHECK(memory.find(std::vector{crowded_key(number)}).places.empty());
}

TEST_CASE(
    "of a page that nobody has asked for yet, or that is another by now, its owner is asked") {
  Memory memory;
  const std::vector<PageKey> keys = keys_of(1, 3);
  for (std::uint32_t page = 0; page < 3; ++page) memory.directory.add(keys[page], page);
  memory.stamp(keys[0], 0);
  CHECK(memory.find(keys).places.size() == 1);
  CHECK_FALSE(memory.find(keys).is_all);  // no stamp yet
  memory.stamp(key_of(9), 1);
  CHECK(memory.find(keys).places.size() == 1);
  CHECK_FALSE(memory.find(keys).is_all);  // another's
  memory.stamp(keys[1], 1);
  memory.stamp(keys[2], 2);
  const NearPages found = memory.find(keys);
  CHECK(found.is_all);
  REQUIRE(found.places.size() == 3);
  CHECK(found.places[2].page == 2);
  CHECK(found.places[2].head.generation == 3);
  CHECK(found.places[2].head.crc32c == 5);
  CHECK_FALSE(memory.find(keys, life + 1).is_all);  // of another life
  CHECK(memory.find(keys, life + 1).places.empty());
  memory.directory.remove(keys[1], 0);  // that page is not under that key
  CHECK(memory.find(keys).places.size() == 3);
}

TEST_CASE("whatever a directory's memory holds, no page is found that is not the key's") {
  SplitMix64 random(5);
  for (int round = 0; round < 2'000; ++round) {
    Memory memory;
    const std::vector<PageKey> keys = keys_of(1, 4);
    for (std::size_t at = 0; at < memory.all.size() - region.stamps(); at += 8) {
      const std::uint64_t words[] = {random.next(), random.next() % (2 * slots), random.next() % 6,
                                     0};
      std::memcpy(memory.all.data() + region.stamps() + at, &words[random.next() % 4], 8);
    }
    memory.stamp(keys[0], 1);
    const NearPages found = memory.find(keys);
    REQUIRE(found.places.size() <= keys.size());
    for (std::size_t i = 0; i < found.places.size(); ++i) {
      REQUIRE(found.places[i].page < slots);
      REQUIRE(found.places[i].head.key == keys[i]);
    }
    memory.directory.remove(keys[0], 1);  // ends
    memory.directory.add(keys[0], 1);
  }
}

TEST_CASE("what is found in memory that is near is read without a question") {
  PagePuller puller(hello_of(99));
  constexpr PeerLife peer{1, 7}, far{2, 7};
  puller.met(peer, hello_of(7), 0);
  puller.opened(peer, slots);
  CHECK(puller.near(0).peers.empty());  // it is not
  CHECK_FALSE(puller.near(0).is_all);
  puller.opened(peer, slots, true);
  REQUIRE(puller.near(0).peers.size() == 1);
  CHECK(puller.near(0).is_all);
  CHECK(puller.near(0).peers[0].incarnation == 7);
  CHECK(puller.near(0).peers[0].pages == slots);
  std::vector<pages::Place> found;
  for (std::uint32_t i = 0; i < 3; ++i)
    found.push_back({{0, 7, 1, key_of(i), i, page_bytes, 1}, 3 - i});
  CHECK_FALSE(puller.begin_near(1, keys_of(0, 4), peer, {}, 1));
  CHECK_FALSE(puller.begin_near(1, keys_of(0, 4), far, found, 1));
  REQUIRE(puller.begin_near(1, keys_of(0, 4), peer, found, 1));
  const auto events = puller.take_events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].pages == 3);
  CHECK(events[0].peer == peer);
  SECTION("all of them") {
    fetch_into(puller, 1, places(3), 1);
    const std::vector<PageRead> reads = puller.take_reads();
    REQUIRE(reads.size() == 3);
    CHECK(reads[0].content.offset == region.page(3).offset);
    for (const PageRead& one : reads) puller.verified(one.number, true, 2);
    CHECK(puller.take_events().back().end == PullEnd::done);
  }
  SECTION("of which one has changed: then that machine is asked for a while") {
    fetch_into(puller, 1, places(3), 1);
    for (const PageRead& one : puller.take_reads()) puller.verified(one.number, false, 2);
    CHECK(puller.take_events().back().end == PullEnd::changed);
    CHECK(puller.near(2).peers.empty());
    CHECK_FALSE(puller.begin_near(2, keys_of(0, 4), peer, found, 2));
    puller.tick(PagePuller::longest_pause + 3);
    CHECK(puller.near(PagePuller::longest_pause + 3).peers.size() == 1);
  }
  SECTION("which nobody wants") {
    puller.cancel(1);
    CHECK(puller.pulls() == 0);
    CHECK(puller.take_reads().empty());
  }
  SECTION("whose memory is gone by then: it is asked for them") {
    puller.closed(peer);
    fetch_into(puller, 1, places(3), 1);
    CHECK(puller.take_reads().empty());
    CHECK(puller.take_out().size() == 1);
    return;
  }
  CHECK(puller.take_out().empty());
}

TEST_CASE("of a directory without an empty slot a bounded part is looked at for each key") {
  constexpr std::uint32_t pages = 512;
  constexpr PageRegion large{pages, page_bytes};
  const Ref<Buffer> bytes = Buffer::zeros(large.size());
  const std::span<std::byte> all(bytes->data(), bytes->size());
  const std::size_t count = 2 * pages;
  const auto put = [&](std::size_t slot, std::uint64_t word, std::uint64_t page) {
    const std::uint64_t words[] = {word, page};
    std::memcpy(all.data() + large.directory() + slot * PageRegion::slot_bytes, words, 16);
  };
  for (std::size_t slot = 0; slot < count; ++slot) put(slot, ~std::uint64_t{0}, 1);
  const PageKey key = key_of(7);  // its home is slot 7
  std::ranges::copy(stamp_of({0, life, 3, key, 0, page_bytes, 5}),
                    all.begin() + static_cast<std::ptrdiff_t>(large.stamp(2).offset));
  const auto find = [&] { return find_places(large, all, life, std::vector{key}); };
  CHECK(find().places.empty());
  CHECK_FALSE(find().is_all);  // it may be further on
  put(7 + PageDirectory::probes_most, 7, 3);
  CHECK(find().places.empty());
  CHECK_FALSE(find().is_all);
  put(7 + PageDirectory::probes_most - 1, 7, 3);
  CHECK(find().places.size() == 1);
  CHECK(find().is_all);
  put(9, 0, 0);  // ends the search
  CHECK(find().places.empty());
  CHECK(find().is_all);
}

TEST_CASE("memory that does not begin with a word is not looked at") {
  Memory memory;
  const std::vector<PageKey> keys = keys_of(1, 1);
  memory.directory.add(keys[0], 0);
  memory.stamp(keys[0], 0);
  REQUIRE(memory.find(keys).places.size() == 1);
  std::vector<std::uint64_t> room(region.size() / 8 + 1);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const auto all = std::as_writable_bytes(std::span(room)).subspan(shift, region.size());
    std::ranges::copy(memory.all, all.begin());
    const NearPages found = find_places(region, all, life, keys);
    CHECK(found.places.size() == (shift == 0 ? 1 : 0));
    CHECK(found.is_all == (shift == 0));
  }
}

TEST_CASE("a stamp that is being written, or cleared, is all of it or none") {
  constexpr std::size_t words = PageRegion::stamp_bytes / 8;
  const pages::PageHead want{0, life, 3, key_of(4), 0, page_bytes, 5};
  std::uint64_t full[words];
  std::memcpy(full, stamp_of(want).data(), sizeof full);
  // Behind so many steps of its owner, which writes all words and clears all.
  const auto at_step = [&](std::size_t i, std::size_t step) {
    return i < step && i + words >= step ? full[i] : 0;
  };
  std::size_t found = 0, other = 0;
  std::vector<std::size_t> steps(7, 0);  // of the owner's, at each of the loads
  for (bool is_more = true; is_more;) {
    auto next = steps.begin();
    const auto head = head_of_words([&](std::size_t i) { return at_step(i, *next++); });
    REQUIRE(next == steps.end());
    found += head ? 1 : 0;
    other += head && stamp_of(*head) != stamp_of(want) ? 1 : 0;
    // The next of all that never fall.
    auto last = std::ranges::find_if(steps.rbegin(), steps.rend(),
                                     [](std::size_t step) { return step < 2 * words; });
    is_more = last != steps.rend();
    if (is_more) std::fill(last.base() - 1, steps.end(), *last + 1);
  }
  CHECK(found > 0);
  CHECK(other == 0);
}

TEST_CASE("what is found without a question is none, so others are asked beside it") {
  PagePuller puller(hello_of(99));
  constexpr PeerLife peer{1, 7};
  puller.met(peer, hello_of(7), 0);
  puller.opened(peer, slots, true);
  const std::uint64_t many = PagePuller::questions_most + 8;
  for (std::uint64_t pull = 1; pull <= many; ++pull) {
    REQUIRE(puller.begin_near(pull, keys_of(0, 1), peer,
                              {{{0, 7, 1, key_of(0), 0, page_bytes, 1}, 0}}, 1));
    fetch_into(puller, pull, places(1), 1);
  }
  std::vector<PageRead> reads = puller.take_reads();
  REQUIRE(reads.size() == many);
  CHECK(puller.take_out().empty());
  for (std::uint64_t pull = many + 1; pull <= 2 * many; ++pull) {
    REQUIRE(puller.begin_at(pull, keys_of(0, 1), peer, 1, 1));
    fetch_into(puller, pull, places(1), 1);
  }
  CHECK(puller.take_out().size() == PagePuller::questions_most);
  for (const PageRead& one : reads) puller.verified(one.number, true, 2);
  CHECK(puller.pulls() == many);
  CHECK(puller.take_out().empty());  // those are as many still
}
