// The index of a folder beside a plain model of a disk: what is written when it ends, what a crash
// leaves, what a scan makes of it. After each event the invariants of docs/POOL.md are looked at.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/random.h"
#include "dataplane/segment_index.h"
#include "invariants.h"
#include "tests/sanitized.h"

using namespace sluice;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint64_t owner = 7, layout = 5;
constexpr std::uint32_t content_bytes = 5000;  // a record is two blocks
constexpr std::uint64_t room = 22 * segment_block, segment_bytes = 7 * segment_block;
constexpr std::uint64_t pages_most = 24;

PageKey key_of(std::uint64_t page) {
  SplitMix64 random(page + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

Bytes content_of(const PageKey& key) {
  Bytes made(content_bytes);
  SplitMix64 random(key.words[1]);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.next());
  return made;
}

struct History {
  struct Writing {
    StoredPage page;
    SegmentHead head;
    Bytes record;
  };

  SegmentIndex index{owner, layout, content_bytes, {room, segment_bytes}};
  std::map<std::uint64_t, Bytes> files;
  std::map<PageKey, StoredPage> visible;  // what must be found
  std::set<PageKey> published;            // keys that were ever written
  std::map<PageKey, std::uint64_t> last_generation;
  std::set<std::pair<std::uint64_t, std::uint32_t>> places;  // that were given out
  std::vector<Writing> writing;
  SplitMix64 random;
  Invariants invariants;
  int dropped = 0, torn = 0, crashed = 0, rewritten = 0, refused = 0;

  explicit History(std::uint64_t seed) : random(seed) {}

  std::uint64_t below(std::uint64_t n) { return random.next() % n; }

  void forget_segment(std::uint64_t segment) {
    files.erase(segment);
    std::erase_if(visible, [&](const auto& one) { return one.second.segment == segment; });
    ++dropped;
  }

  /// How many of the pages that page n follows are here, back to the first that is not.
  std::size_t chain_before(std::uint64_t n) const {
    std::size_t pages = 0;
    for (; n % 8 != 0 && visible.contains(key_of(n - 1)); --n) ++pages;
    return pages;
  }

  /// Page n behind page n - 1, but every eighth, which begins a chain.
  void begin(std::uint64_t n) {
    const PageKey key = key_of(n), parent = n % 8 == 0 ? PageKey{} : key_of(n - 1);
    if (index.knows(key)) return;
    if (!index.has_room_behind(parent)) return void(++refused);
    const std::size_t followed = chain_before(n);
    const SegmentIndex::Writing made = index.begin(key, parent);
    for (const std::uint64_t gone : made.drops) forget_segment(gone);
    invariants.must("K10", chain_before(n) == followed);
    const SegmentHead head = index.head_of(made.page.segment);
    if (made.opens) {
      invariants.must("K3", !files.contains(made.page.segment));
      Bytes& file = files[made.page.segment];
      file.assign(record_offset(head, head.slots), std::byte{0});
      write_segment_head(head, std::span(file).first(segment_block));
    }
    invariants.must("K3", places.emplace(made.page.segment, made.page.slot).second);
    std::uint64_t& last = last_generation[key];
    invariants.must("K3", made.page.head.generation > last);
    rewritten += last > 0 ? 1 : 0;
    last = made.page.head.generation;
    published.insert(key);
    Writing one{made.page, head, Bytes(record_bytes(content_bytes))};
    std::ranges::copy(content_of(key), record_content(head, std::span(one.record)).begin());
    write_record(head, made.page.slot, made.page.head, one.record);
    writing.push_back(std::move(one));
  }

  /// The blocks of a record that `chooses` says reach the disk.
  template <typename Chooses>
  bool write_blocks(const Writing& one, Chooses chooses) {
    const std::uint64_t offset = record_offset(one.head, one.page.slot);
    bool is_whole = true;
    for (std::size_t at = 0; at < one.record.size(); at += segment_block) {
      const bool reaches = chooses();
      is_whole = is_whole && reaches;
      if (reaches)
        std::copy_n(one.record.begin() + static_cast<std::ptrdiff_t>(at), segment_block,
                    files.at(one.page.segment).begin() + static_cast<std::ptrdiff_t>(offset + at));
    }
    return is_whole;
  }

  /// The disk says how it went; what it refused may be there in part.
  void end(std::size_t which) {
    const Writing one = std::move(writing[which]);
    writing.erase(writing.begin() + static_cast<std::ptrdiff_t>(which));
    const bool written = below(5) != 0;
    (void)write_blocks(one, [&] { return written || below(2) == 0; });
    torn += written ? 0 : 1;
    index.ended(one.page, written);
    if (written) visible[one.page.head.key] = one.page;
  }

  /// It is read back, and is not what was written: it is forgotten.
  void lose() {
    if (visible.empty()) return;
    const auto it = std::next(visible.begin(), static_cast<std::ptrdiff_t>(below(visible.size())));
    Bytes& file = files.at(it->second.segment);
    file[record_offset(index.head_of(it->second.segment), it->second.slot) + record_head_bytes +
         below(content_bytes)] ^= std::byte{1};
    index.lost(it->first, it->second.head.generation);
    visible.erase(it);
  }

  /// The process ends at any moment, and the next one makes its index of what the files say.
  void crash() {
    ++crashed;
    std::map<PageKey, std::uint64_t> whole;  // that nobody was told of, by generation
    for (const Writing& one : writing)
      if (write_blocks(one, [&] { return below(2) == 0; }))
        whole[one.page.head.key] = one.page.head.generation;
    writing.clear();
    index = SegmentIndex(owner, layout, content_bytes, {room, segment_bytes});
    for (const auto& [number, file] : files) {
      SegmentScan scan(owner, number, file.size());
      while (const auto range = scan.wants())
        scan.take(std::span(file).subspan(range->offset, range->bytes));
      index.found(number, file.size(), scan);
    }
    for (const auto& [key, page] : visible) {
      const StoredPage* found = index.find(key);
      invariants.must("K12", found != nullptr && found->segment == page.segment &&
                                 found->slot == page.slot && found->head == page.head);
    }
    // What is more than that is a page that was written, or is told from one when it is read.
    for (std::uint64_t n = 0; n < pages_most; ++n) {
      const PageKey key = key_of(n);
      const StoredPage* found = index.find(key);
      if (found == nullptr || visible.contains(key)) continue;
      invariants.must("K14", published.contains(key) && has_both_ends(*found));
      if (is_whole(*found))
        visible[key] = *found;
      else
        index.lost(key, found->head.generation);
    }
  }

  std::span<const std::byte> record_of(const StoredPage& page) const {
    const Bytes& file = files.at(page.segment);
    return std::span(file).subspan(record_offset(index.head_of(page.segment), page.slot),
                                   record_bytes(content_bytes));
  }
  bool has_both_ends(const StoredPage& page) const {
    const auto foot = record_of(page).last(record_foot_bytes);
    return std::ranges::any_of(foot, [](std::byte byte) { return byte != std::byte{0}; });
  }
  bool is_whole(const StoredPage& page) const {
    return check_record(index.head_of(page.segment), page.slot, record_of(page)).state ==
           RecordState::whole;
  }

  void step() {
    switch (below(16)) {
      case 0:
        return below(4) == 0 ? crash() : lose();
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
        if (!writing.empty()) end(below(writing.size()));
        return;
      case 6:
        if (!visible.empty())
          index.used(std::next(visible.begin(), static_cast<std::ptrdiff_t>(below(visible.size())))
                         ->first);
        return;
      default:
        if (writing.size() < 4) begin(below(pages_most));
    }
  }

  void check() {
    std::uint64_t bytes = 0;
    for (const auto& [number, file] : files) bytes += file.size();
    invariants.must("K7", index.bytes() == bytes && index.segments() == files.size() &&
                              index.pages() == visible.size());
    std::vector<PageKey> keys;
    for (std::uint64_t n = 0; n < pages_most; ++n) {
      const PageKey key = key_of(n);
      const StoredPage* found = index.find(key);
      const auto known = visible.find(key);
      invariants.must("K4", (found != nullptr) == (known != visible.end()));
      if (n % 8 == 0) keys.clear();
      keys.push_back(key);
      if (found == nullptr || known == visible.end() || !files.contains(found->segment)) continue;
      invariants.must("K2", found->head == known->second.head && is_whole(*found) &&
                                std::ranges::equal(record_content(index.head_of(found->segment),
                                                                  record_of(*found)),
                                                   content_of(key)));
      std::size_t chain = 0;
      while (chain < keys.size() && visible.contains(keys[chain])) ++chain;
      invariants.must("K10", index.match(keys, 0) == chain);
    }
  }
};

}  // namespace

TEST_CASE("whatever is written, refused, lost and cut off, a folder's index has what is whole") {
  int dropped = 0, torn = 0, crashed = 0, rewritten = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(30); ++seed) {
    History history(seed);
    for (int at = 0; at < 500 && history.invariants.goes_on(); ++at) {
      history.step();
      history.check();
    }
    INFO("seed " << seed << ", broken: " << history.invariants.broken());
    REQUIRE(history.invariants.all_hold());
    dropped += history.dropped;
    torn += history.torn;
    crashed += history.crashed;
    rewritten += history.rewritten;
    refused += history.refused;
  }
  const int least = static_cast<int>(testing::seeds(100));
  CHECK(dropped > least);
  CHECK(torn > least);
  CHECK(crashed > least);
  CHECK(rewritten > 5 * least);
  CHECK(refused > 0);
}
