#include "engine/storage/page_export.h"

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

std::optional<ServedPage> PageExport::append(const PageKey& key, pages::Bytes& to) {
  const std::lock_guard lock(mutex_);
  const Page page = find(key);
  if (page == no_page) return std::nullopt;
  Entry& entry = entries_[page];
  const auto content = pool_.content(page);
  if (!entry.crc32c.has_value()) entry.crc32c = crc32c(content);
  to.insert(to.end(), content.begin(), content.end());
  return ServedPage{entry.generation, *entry.crc32c};
}

}  // namespace sluice
