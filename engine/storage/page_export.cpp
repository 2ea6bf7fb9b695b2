#include "engine/storage/page_export.h"

#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "dataplane/page_region.h"

namespace sluice {

PageExport::PageExport(KvPool& pool, std::uint64_t incarnation, std::span<std::byte> behind)
    : pool_(pool),
      incarnation_(incarnation),
      stamps_(behind.first(behind.empty() ? 0 : pool.pages() * PageRegion::stamp_bytes)),
      directory_(behind.subspan(stamps_.size())),
      entries_(pool.pages()),
      by_word_(pool.pages()) {
  pool.watch(this);
}

PageExport::~PageExport() {
  pool_.watch(nullptr);
  if (stamps_.empty()) return;
  // Whoever gets the memory next writes into it.
  for (Page page = 0; page < entries_.size(); ++page)
    write_stamp(page, std::array<std::byte, PageRegion::stamp_bytes>{});
  directory_.clear();
}

void PageExport::published(Page page) {
  const std::lock_guard lock(mutex_);
  const PageKey& key = pool_.table().key(page);
  entries_[page] = {key, pool_.table().generation(page), {}};
  by_word_.insert(key.words[0], page);  // a table has each once
  directory_.add(key, page);
}

void PageExport::dropped(Page page) {
  const std::lock_guard lock(mutex_);
  by_word_.erase(entries_[page].key.words[0]);
  if (entries_[page].is_stamped)
    write_stamp(page, std::array<std::byte, PageRegion::stamp_bytes>{});
  directory_.remove(entries_[page].key, page);
  entries_[page] = {};
}

/// Word by word, for peers read it meanwhile; before all that is written behind it.
void PageExport::write_stamp(Page page, std::span<const std::byte> stamp) {
  for (std::size_t at = 0; at < PageRegion::stamp_bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, stamp.data() + at, sizeof word);
    auto* const place = stamps_.data() + page * PageRegion::stamp_bytes + at;
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(place))
        .store(word, std::memory_order_release);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Page PageExport::find(const PageKey& key) const {
  const Page page = by_word_.find(key.words[0]);
  return page != KeyTable::none && entries_[page].key == key ? page : no_page;
}

bool PageExport::has(const PageKey& key) const {
  const std::lock_guard lock(mutex_);
  return find(key) != no_page;
}

template <typename Take>
std::optional<ServedPage> PageExport::read(const PageKey& key, Take take) {
  const std::lock_guard lock(mutex_);
  const Page page = find(key);
  if (page == no_page) return std::nullopt;
  const ServedPage one = served(page);
  take(pool_.content(page));
  return one;
}

ServedPage PageExport::served(Page page) {
  Entry& entry = entries_[page];
  if (!entry.crc32c.has_value()) entry.crc32c = crc32c(pool_.content(page));
  return {entry.generation, *entry.crc32c};
}

std::optional<PlacedPage> PageExport::place(const PageKey& key) {
  const std::lock_guard lock(mutex_);
  const Page page = stamps_.empty() ? no_page : find(key);
  if (page == no_page) return std::nullopt;
  const ServedPage one = served(page);
  const auto bytes = static_cast<std::uint32_t>(pool_.shape().page_bytes());
  if (!std::exchange(entries_[page].is_stamped, true))
    write_stamp(page, stamp_of({0, incarnation_, one.generation, key, 0, bytes, one.crc32c}));
  return PlacedPage{one, page};
}

std::optional<ServedPage> PageExport::append(const PageKey& key, pages::Bytes& to) {
  return read(key, [&](auto content) { to.insert(to.end(), content.begin(), content.end()); });
}

std::optional<ServedPage> PageExport::copy(const PageKey& key, std::span<std::byte> to) {
  return read(key, [&](auto content) {
    SLUICE_CHECK(to.size() == content.size());
    std::memcpy(to.data(), content.data(), content.size());
  });
}

}  // namespace sluice
