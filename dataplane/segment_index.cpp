#include "dataplane/segment_index.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace sluice {
namespace {

constexpr unsigned slot_bits = 24;

}  // namespace

SegmentIndex::SegmentIndex(std::uint64_t owner, std::uint64_t layout, std::uint32_t content_bytes,
                           SegmentLimits limits)
    : limits_(limits) {
  const std::uint64_t record = record_bytes(content_bytes);
  const std::uint64_t most = std::min(limits.segment_bytes, limits.bytes_most / 2);
  SLUICE_CHECK(limits.bytes_most / 2 >= segment_block + record);
  const std::uint64_t slots = most > segment_block ? (most - segment_block) / record : 0;
  next_ = {owner, 0, layout, content_bytes,
           static_cast<std::uint32_t>(std::clamp<std::uint64_t>(slots, 1, 1U << slot_bits))};
}

void SegmentIndex::found(std::uint64_t number, std::uint64_t file_bytes, const SegmentScan& scan) {
  next_.number = std::max(next_.number, number);
  Segment& segment = segments_[number];
  segment.bytes = file_bytes;
  segment.is_ours = scan.head().has_value();
  bytes_ += file_bytes;
  if (!segment.is_ours) return;
  segment.head = *scan.head();
  for (const SegmentScan::Found& record : scan.whole()) {
    const auto it = pages_.find(record.head.key);
    if (it != pages_.end()) {
      if (it->second.page.head.generation > record.head.generation) continue;
      forget(record.head.key);
    }
    pages_[record.head.key] = {{number, record.slot, record.head}, 0};
    segment.keys.insert(record.head.key);
  }
}

const StoredPage* SegmentIndex::find(const PageKey& key) const {
  const auto it = pages_.find(key);
  return it == pages_.end() ? nullptr : &it->second.page;
}

std::size_t SegmentIndex::match(std::span<const PageKey> keys, std::size_t first) const {
  std::size_t at = first;
  for (; at < keys.size(); ++at) {
    const StoredPage* page = find(keys[at]);
    if (page == nullptr || (at > 0 && page->head.parent != keys[at - 1])) break;
    const SegmentHead& segment = segments_.find(page->segment)->second.head;
    if (segment.layout != next_.layout || segment.content_bytes != next_.content_bytes) break;
  }
  return at - first;
}

void SegmentIndex::used(const PageKey& key) {
  const auto it = pages_.find(key);
  if (it != pages_.end() && it->second.uses < 1U << 30) ++it->second.uses;
}

void SegmentIndex::follows(const PageKey& key, const PageKey& parent) {
  const StoredPage* page = find(key);
  if (page != nullptr && page->head.parent != parent) forget(key);
}

void SegmentIndex::lost(const PageKey& key, std::uint64_t generation) {
  const StoredPage* page = find(key);
  if (page != nullptr && page->head.generation == generation) forget(key);
}

void SegmentIndex::forget(const PageKey& key) {
  const auto it = pages_.find(key);
  segments_.find(it->second.page.segment)->second.keys.erase(key);
  pages_.erase(it);
  ++room_changes_;  // the chain of what followed it is shorter
}

bool SegmentIndex::goes_before(std::uint64_t a, std::uint64_t b) const {
  const auto rank = [&](std::uint64_t number) {
    const Segment& segment = segments_.find(number)->second;
    const auto hot = std::ranges::count_if(
        segment.keys, [&](const PageKey& key) { return pages_.find(key)->second.uses > 0; });
    return std::tuple(segment.is_ours, hot, segment.keys.size(), number);
  };
  return rank(a) < rank(b);
}

void SegmentIndex::drop(std::uint64_t number) {
  const auto it = segments_.find(number);
  for (const PageKey& key : it->second.keys) pages_.erase(key);
  bytes_ -= it->second.bytes;
  segments_.erase(it);
  ++room_changes_;
}

std::set<std::uint64_t> SegmentIndex::segments_of_chain(const PageKey& page) const {
  std::set<std::uint64_t> chain;
  PageKey key = page;
  // What others have written may go round in a circle.
  for (std::size_t most = pages_.size() + writing_.size(); most > 0; --most) {
    const auto begun = writing_.find(key);
    const StoredPage* const at = begun != writing_.end() ? &begun->second : find(key);
    if (at == nullptr) break;
    chain.insert(at->segment);
    key = at->head.parent;
  }
  return chain;
}

bool SegmentIndex::has_room_behind(const PageKey& parent) const {
  std::uint64_t bytes = record_offset(next_, next_.slots);
  if (!opens() || bytes_ + bytes <= limits_.bytes_most) return true;
  for (const std::uint64_t number : segments_of_chain(parent))
    bytes += segments_.find(number)->second.bytes;
  return bytes <= limits_.bytes_most;
}

void SegmentIndex::make_room(std::uint64_t bytes, const PageKey& parent,
                             std::vector<std::uint64_t>& drops) {
  if (bytes_ + bytes <= limits_.bytes_most) return;
  const std::set<std::uint64_t> needed = segments_of_chain(parent);
  while (bytes_ + bytes > limits_.bytes_most) {
    std::uint64_t victim = 0;
    for (const auto& [number, segment] : segments_)
      if (segment.writing == 0 && number != open_ && !needed.contains(number) &&
          (victim == 0 || goes_before(number, victim)))
        victim = number;
    if (victim == 0) return;  // what is being written ends soon
    drop(victim);
    drops.push_back(victim);
    // What was read long ago counts less each time that as many have gone as there are.
    if (++dropped_ < segments_.size()) continue;
    dropped_ = 0;
    for (auto& [key, entry] : pages_) entry.uses /= 2;
  }
}

SegmentIndex::Writing SegmentIndex::begin(const PageKey& key, const PageKey& parent) {
  SLUICE_CHECK(!knows(key));
  Writing writing;
  if (opens()) {
    const std::uint64_t bytes = record_offset(next_, next_.slots);
    open_ = 0;
    make_room(bytes, parent, writing.drops);
    open_ = ++next_.number;
    ++room_changes_;
    slot_ = 0;
    writing.opens = true;
    segments_[open_] = {.head = next_, .bytes = bytes, .is_ours = true, .keys = {}, .writing = 0};
    bytes_ += bytes;
  }
  // A place is written once, and segments' numbers grow, over restarts too.
  writing.page = {open_, slot_, {key, parent, open_ << slot_bits | slot_}};
  ++slot_;
  ++segments_[open_].writing;
  writing_[key] = writing.page;
  return writing;
}

void SegmentIndex::ended(const StoredPage& page, bool written) {
  const auto it = writing_.find(page.head.key);
  SLUICE_CHECK(it != writing_.end() && it->second.head == page.head);
  writing_.erase(it);
  Segment& segment = segments_.find(page.segment)->second;
  --segment.writing;
  if (written) {
    pages_[page.head.key] = {page, 0};
    segment.keys.insert(page.head.key);
  } else {
    ++room_changes_;
    if (page.segment == open_) open_ = 0;
  }
}

void SegmentIndex::close(std::uint64_t segment) {
  if (open_ == segment) open_ = 0;
}

bool SegmentIndex::is_full(std::uint64_t number) const {
  const auto it = segments_.find(number);
  return it != segments_.end() && it->second.writing == 0 &&
         (number != open_ || slot_ == next_.slots);
}

SegmentHead SegmentIndex::head_of(std::uint64_t segment) const {
  return segments_.find(segment)->second.head;
}

}  // namespace sluice
