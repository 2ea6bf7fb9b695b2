// A pool's published pages, as other threads may copy them.
//
// The pool's owner tells what is published and, before anything else is written there, what is
// dropped; whoever copies a page holds the lock meanwhile, so its owner waits for one copy at most,
// and no copy has anything else in it. The checksum is computed when a page is first given away.
// Where peers read the pages by themselves nobody waits for them: a stamp says what stands in a
// page, and is cleared before anything else is written there (`PageRegion`). Who has the region
// mapped finds pages in its directory.
// Thread: `PageWatcher`'s by the pool's owner, `PageLookup`'s by any.
#pragma once

#include <mutex>
#include <vector>

#include "dataplane/key_table.h"
#include "dataplane/page_directory.h"
#include "dataplane/page_server.h"
#include "engine/layers/kv.h"

namespace sluice {

class PageExport final : public PageWatcher, public PageLookup {
 public:
  /// Borrows the pool, and watches it until the end.
  /// `behind`: the pages in their region, stamps and directory, where peers read them by
  /// themselves; else nothing.
  PageExport(KvPool& pool, std::uint64_t incarnation = 0, std::span<std::byte> behind = {});
  ~PageExport() override;
  PageExport(const PageExport&) = delete;
  PageExport& operator=(const PageExport&) = delete;

  void published(Page page) override;
  void dropped(Page page) override;
  bool has(const PageKey& key) const override;
  std::optional<ServedPage> append(const PageKey& key, pages::Bytes& to) override;
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override;
  std::optional<PlacedPage> place(const PageKey& key) override;

 private:
  struct Entry {
    PageKey key;
    std::uint64_t generation = 0;
    std::optional<std::uint32_t> crc32c;
    bool is_stamped = false;
  };
  /// Under the lock. `no_page`: it is not there.
  Page find(const PageKey& key) const;
  /// Gives a page's content to `take`.
  template <typename Take>
  std::optional<ServedPage> read(const PageKey& key, Take take);

  ServedPage served(Page page);
  void write_stamp(Page page, std::span<const std::byte> stamp);

  KvPool& pool_;
  const std::uint64_t incarnation_;
  const std::span<std::byte> stamps_;
  PageDirectory directory_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // by page
  KeyTable by_word_;            // a key's first; others are compared
};

}  // namespace sluice
