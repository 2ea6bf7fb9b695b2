// Which page holds what, who uses it, and which goes when there is no room: a
// state machine without the bytes.
//
// A page is private while its owner fills it, and published under its key once it is full;
// published pages are never written again. Who writes into a page that others see, or that is
// published, gets a copy of it: an effect for whoever keeps the bytes. A published page that nobody
// uses stays as cache until a policy gives it up, leaves of the prefix tree first.
//
// Whose a page is (`PageTenants`): the tenant's whose page it follows, else that of the sequence
// that has written it. No tenant ever has more pages than its quota: where it may have no more its
// own cache goes first.
//
// Thread: one. Owns: page numbers. Units: rows (tokens). Errors: `exhausted`, and nothing is
// changed. Cost: constant time for a page; no allocation in the steady state, sequences' own lists
// aside.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dataplane/eviction.h"
#include "dataplane/hit_watch.h"
#include "dataplane/key_table.h"
#include "dataplane/page_key.h"
#include "dataplane/page_tenants.h"

namespace sluice {

using Page = Slot;
inline constexpr Page no_page = no_slot;

/// The first `rows` rows of page `from` must be in `to` before anything else is
/// written there.
struct CopyPage {
  Page from = no_page, to = no_page;
  std::uint32_t rows = 0;
};

class PageTable;

/// Whose a sequence is.
struct PageOwner {
  std::string_view tenant{};  // empty: nobody's
  /// Its pages count as the tenant's only once they are published, and not from when they are
  /// taken: so whoever brings pages from a disk or another machine has places for them before.
  bool once_published = false;
};

/// Pages of one history. Move-only; gives them back when it goes. The table
/// must outlive it.
class Sequence {
 public:
  Sequence() = default;
  Sequence(Sequence&& other) noexcept { swap(other); }
  Sequence& operator=(Sequence&& other) noexcept {
    Sequence(std::move(other)).swap(*this);
    return *this;
  }
  ~Sequence();

  /// Made by a table, and not released since.
  bool is_open() const { return table_ != nullptr; }
  std::span<const Page> pages() const { return pages_; }
  std::uint32_t rows() const { return rows_; }
  /// Leading pages that are published, with nothing unpublished before them.
  std::uint32_t published() const { return published_; }
  TenantNumber tenant() const { return tenant_; }

 private:
  friend class PageTable;
  void swap(Sequence& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(pages_, other.pages_);
    std::swap(rows_, other.rows_);
    std::swap(published_, other.published_);
    std::swap(is_told_, other.is_told_);
    std::swap(tenant_, other.tenant_);
    std::swap(once_published_, other.once_published_);
  }

  PageTable* table_ = nullptr;
  std::vector<Page> pages_;
  std::uint32_t rows_ = 0;
  std::uint32_t published_ = 0;
  bool is_told_ = false;  // to the policy, beforehand
  TenantNumber tenant_ = no_tenant;
  bool once_published_ = false;
};

/// What a request would take, before anything is taken.
struct Admission {
  std::uint32_t cached = 0;  // pages that are there
  std::uint32_t fresh = 0;   // pages that must be made
  bool fits = false;
};

/// Told of pages that others may find, and of those that they may not find any more: before
/// anything else is written there.
class PageWatcher {
 public:
  virtual ~PageWatcher() = default;
  virtual void published(Page page) = 0;
  virtual void dropped(Page page) = 0;
};

class PageTable {
 public:
  /// The policy is made for `{pages, 2 * pages}`.
  PageTable(std::uint32_t pages, std::uint32_t rows_per_page,
            std::unique_ptr<EvictionPolicy> policy);

  /// For a history of `rows` whose full pages have these keys, root first.
  Admission ask(std::span<const PageKey> keys, std::uint32_t rows,
                std::string_view tenant = {}) const;
  /// The longest resident prefix of `keys`: the number of its pages.
  std::uint32_t match(std::span<const PageKey> keys) const;
  /// How many of these pages are cache of some tenant: it has them, and nobody uses them.
  std::uint32_t unused_by_tenants(std::span<const PageKey> keys) const;
  /// The published page of this key; `no_page`: there is none, or it is found no more.
  Page find(const PageKey& key) const;
  bool has(const PageKey& key) const { return find(key) != no_page; }
  /// The keys from its root to this page. None: it is not there.
  std::vector<PageKey> path(const PageKey& key) const;
  /// A sequence that begins with the longest resident prefix.
  Sequence open(std::span<const PageKey> keys, const PageOwner& owner = {});
  /// Goes on with the page of `key` if that is published behind the sequence's, all of which are.
  bool follow(Sequence& sequence, const PageKey& key);
  Sequence fork(const Sequence& sequence);
  /// Room to write rows [sequence.rows(), rows). All pages or, if there are too
  /// few, none.
  Result<void> reserve(Sequence& sequence, std::uint32_t rows, std::vector<CopyPage>& copies);
  /// The rows up to `rows`, within what was reserved, are written.
  void wrote(Sequence& sequence, std::uint32_t rows);
  /// The next unpublished page is full and `key` is its content's; others see
  /// it from now on. If that content is published already, the sequence goes on
  /// with the other page and gives its own back; but where that follows another
  /// page than here, which a key's content never does, it is found no more.
  /// False: the page cannot be shared now (also where it would become a tenant's
  /// that may have no more) and stays private; those behind it must wait for it.
  [[nodiscard]] bool publish(Sequence& sequence, const PageKey& key);
  /// To fewer rows only. Of what was reserved behind them stays what `reserved` rows need, in
  /// pages that nobody else sees.
  void truncate(Sequence& sequence, std::uint32_t rows, std::uint32_t reserved = 0);
  /// Gives all pages back; what is published stays as cache. `is_use`: somebody has asked for them.
  void release(Sequence& sequence, bool is_use = true);
  /// All of its pages are going to be published under these keys, of which the published ones have
  /// theirs: the policy is told of the visit now, and not when the sequence is released. So it may
  /// see it while they are being filled. A page that is given back unpublished it takes for gone.
  /// Requires: of the sequence pages are written, published and released then, and nothing else.
  void foretell(Sequence& sequence, std::span<const PageKey> keys, bool is_use = true);
  /// The policy sees what it was told of. It does so by itself in time: this is for whoever has
  /// nothing to do for a moment, as a visit of many pages takes a while.
  void catch_up();
  /// Borrows it; null: nobody.
  void watch(PageWatcher* watcher) { watcher_ = watcher; }
  /// How many pages any one tenant may have. Requires: none has come yet.
  void limit_tenants(std::uint32_t pages) { tenants_.limit(pages); }
  const PageTenants& tenants() const { return tenants_; }
  /// The time at which the policy sees what follows.
  void set_time(std::uint64_t now_ms) { now_ms_ = now_ms; }

  std::uint32_t capacity() const { return static_cast<std::uint32_t>(pages_.size()); }
  std::uint32_t free_pages() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t cached_pages() const { return cached_; }
  std::uint64_t generation(Page page) const { return pages_[page].generation; }
  std::uint32_t references(Page page) const { return pages_[page].references; }
  bool is_published(Page page) const { return pages_[page].is_published; }
  /// How good the policy's choices were lately.
  HitWindow hit_window() const { return watch_.look(); }
  Page parent(Page page) const { return pages_[page].parent; }
  /// Requires: it is published.
  const PageKey& key(Page page) const {
    SLUICE_CHECK(is_published(page));
    return pages_[page].key;
  }

 private:
  struct State {
    PageKey key;
    std::uint64_t generation = 0;  // grows each time the page gets other content
    std::uint32_t references = 0;
    std::uint32_t children = 0;  // published pages that follow this one
    Page parent = no_page;       // of a published page
    bool is_published = false;
    bool is_known = false;  // to the policy
  };

  std::uint32_t pages_for(std::uint32_t rows) const {
    return rows / rows_per_page_ + (rows % rows_per_page_ != 0 ? 1 : 0);
  }
  bool must_copy(Page page) const {
    return pages_[page].references > 1 || pages_[page].is_published;
  }
  /// Whether it may be given up has changed, or may have. `is_next`: as of `PageTenants::set_leaf`.
  void hold(Page page, bool is_next = false) {
    held_[page] = pages_[page].references > 0 || pages_[page].children > 0;
    if (tenants_.are_known())
      tenants_.set_leaf(page, held_[page] == 0 && pages_[page].is_published, is_next);
  }
  void refer(Page page);
  void unrefer(Page page);
  bool make_room(std::uint32_t count, TenantNumber tenant);
  bool make_own_room(std::uint32_t count, TenantNumber tenant);
  bool become_tenants(const Sequence& sequence, Page page, Page before);
  void hide(Page page);
  void give_up(Page page);
  Page take(TenantNumber tenant);
  void tell_policy(const Sequence& sequence, bool is_use = true);
  void begin_visit(bool is_use);
  void add_to_visit(Page page, std::uint64_t key) {
    path_.push_back({page, key, !std::exchange(pages_[page].is_known, true)});
  }

  std::uint32_t rows_per_page_;
  std::unique_ptr<EvictionPolicy> policy_;
  HitWatch watch_;
  std::vector<State> pages_;
  std::vector<std::uint8_t> held_;  // by page; not 0: it may not be given up now
  std::vector<Page> free_;
  KeyTable index_;
  PageTenants tenants_;
  // Told, and not seen by the policy yet: it sees one before it is asked for anything else, or is
  // told of the next. So whoever gives pages back does not wait for it.
  std::vector<VisitedBlock> path_;
  std::uint64_t now_ms_ = 0, path_ms_ = 0;
  PageWatcher* watcher_ = nullptr;
  std::uint32_t cached_ = 0;  // published, without references
  bool path_is_use_ = true;
};

}  // namespace sluice
