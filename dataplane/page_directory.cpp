#include "dataplane/page_directory.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/check.h"

namespace sluice {

namespace {

constexpr std::size_t slot_bytes = PageRegion::slot_bytes;

/// Of memory that another process may write, or look at, meanwhile.
std::uint64_t load(std::span<const std::byte> memory, std::size_t at) {
  auto* const word = const_cast<std::byte*>(memory.data()) + at;
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}

void store(std::span<std::byte> memory, std::size_t at, std::uint64_t value) {
  auto* const word = memory.data() + at;
  std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word)).store(value, std::memory_order_release);
}

/// `page`: and one; 0: none.
struct Slot {
  std::uint64_t word = 0, page = 0;
};

Slot slot_at(std::span<const std::byte> memory, std::size_t index) {
  const std::uint64_t page = load(memory, index * slot_bytes + 8);
  return {load(memory, index * slot_bytes), page};
}

void put_slot(std::span<std::byte> memory, std::size_t index, Slot slot) {
  store(memory, index * slot_bytes, slot.word);
  store(memory, index * slot_bytes + 8, slot.page);
}

/// Of as many slots, which are a power of two. Keys are random already.
std::size_t home_of(std::uint64_t word, std::size_t slots) { return word & (slots - 1); }

std::optional<pages::PageHead> head_of(const PageRegion& region, std::span<const std::byte> memory,
                                       std::uint32_t page) {
  const std::uint64_t stamp = region.stamp(page).offset;
  return head_of_words([&](std::size_t i) { return load(memory, stamp + 8 * i); });
}

}  // namespace

void PageDirectory::add(const PageKey& key, std::uint32_t page) {
  const std::size_t slots = memory_.size() / slot_bytes;
  std::size_t at = home_of(key.words[0], slots);
  for (std::size_t i = 0; i < slots; ++i, at = (at + 1) & (slots - 1)) {
    if (slot_at(memory_, at).page != 0) continue;
    return put_slot(memory_, at, {key.words[0], std::uint64_t{page} + 1});
  }
}

void PageDirectory::remove(const PageKey& key, std::uint32_t page) {
  const std::size_t slots = memory_.size() / slot_bytes;
  std::size_t hole = home_of(key.words[0], slots);
  for (std::size_t i = 0;; ++i, hole = (hole + 1) & (slots - 1)) {
    if (i >= slots) return;
    const Slot slot = slot_at(memory_, hole);
    if (slot.page == 0) return;
    if (slot.word == key.words[0] && slot.page == std::uint64_t{page} + 1) break;
  }
  // Those behind it that it kept from their homes move up, so there is no gap before any.
  std::size_t at = hole;
  for (std::size_t i = 0; i < slots; ++i) {
    at = (at + 1) & (slots - 1);
    const Slot slot = slot_at(memory_, at);
    if (slot.page == 0) break;
    const std::size_t way = (at - home_of(slot.word, slots)) & (slots - 1);
    if (way < ((at - hole) & (slots - 1))) continue;
    put_slot(memory_, hole, slot);
    hole = at;
  }
  put_slot(memory_, hole, {});
}

void PageDirectory::clear() {
  for (std::size_t at = 0; at < memory_.size() / slot_bytes; ++at) put_slot(memory_, at, {});
}

NearPages find_places(const PageRegion& region, std::span<const std::byte> memory,
                      std::uint64_t incarnation, std::span<const PageKey> keys) {
  SLUICE_CHECK(memory.size() == region.size());
  NearPages found;
  // Where it is mapped may be its owner's choice; words that are no words are not looked at.
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % sizeof(std::uint64_t) != 0) {
    found.is_all = false;
    return found;
  }
  const std::span<const std::byte> directory = memory.subspan(region.directory());
  const std::size_t slots = directory.size() / slot_bytes;
  const std::size_t most = std::min(slots, PageDirectory::probes_most);
  for (const PageKey& key : keys) {
    std::optional<std::uint32_t> page;
    std::size_t at = home_of(key.words[0], slots);
    bool is_there = true;  // or may be
    for (std::size_t i = 0; i < most; ++i, at = (at + 1) & (slots - 1)) {
      const Slot slot = slot_at(directory, at);
      is_there = slot.page != 0;
      if (!is_there) break;
      if (slot.word != key.words[0] || slot.page > region.pages) continue;
      page = static_cast<std::uint32_t>(slot.page - 1);
      break;
    }
    if (!page) {
      found.is_all = !is_there;
      return found;
    }
    std::optional<pages::PageHead> head = head_of(region, memory, *page);
    if (!head || head->key != key || head->incarnation != incarnation ||
        head->length != region.page_bytes) {
      found.is_all = false;
      return found;
    }
    head->index = static_cast<std::uint32_t>(found.places.size());
    found.places.push_back({*head, *page});
  }
  return found;
}

}  // namespace sluice
