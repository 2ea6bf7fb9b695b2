#include "engine/storage/page_export.h"

#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"

namespace sluice {

PageExport::PageExport(KvPool& pool) : pool_(pool), entries_(pool.pages()) { pool.watch(this); }

PageExport::~PageExport() { pool_.watch(nullptr); }

void PageExport::published(Page page) {
  const std::lock_guard lock(mutex_);
  const PageKey& key = pool_.table().key(page);
  entries_[page] = {key, pool_.table().generation(page), {}};
  by_word_[key.words[0]] = page;
}

void PageExport::dropped(Page page) {
  const std::lock_guard lock(mutex_);
  by_word_.erase(entries_[page].key.words[0]);
  entries_[page] = {};
}

Page PageExport::find(const PageKey& key) const {
  const auto it = by_word_.find(key.words[0]);
  return it != by_word_.end() && entries_[it->second].key == key ? it->second : no_page;
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
  Entry& entry = entries_[page];
  const auto content = pool_.content(page);
  if (!entry.crc32c.has_value()) entry.crc32c = crc32c(content);
  take(content);
  return ServedPage{entry.generation, *entry.crc32c};
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
