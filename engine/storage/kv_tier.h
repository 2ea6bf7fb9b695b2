// The second home of a pool's pages: what is published is written behind, and what a prompt begins
// with is read back before it is computed.
//
// A page that memory has, or that is on its way, is not read; two tasks that miss the same one
// share the read. What was read is published in the pool, in the order of its chain, where room can
// be had without taking pages from anybody; it is held while its task waits, and is cache then. A
// task waits for its pages no longer than a while (`patience`), and not at all where computing is
// quicker. Pages that wait to be written are remembered by key, not copied: one that memory gives
// up before, or finds no more, is not written. Where a page has no room in the folder what follows
// it is not looked at until there may be some. Thread: the pool's owner. Units: nanoseconds of a
// clock that only rises, tokens. Source: omni-flow, section 4.1 (tiers).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataplane/read_guard.h"
#include "engine/layers/kv.h"
#include "engine/storage/page_source.h"
#include "engine/storage/page_store.h"

namespace sluice {

class KvTier final : public PageSource {
 public:
  /// With one read, from its beginning on, and with all reads of a task.
  static constexpr std::int64_t patience = 5'000'000'000;
  /// With writes of which none ends. Longer: nobody waits for them, and to synchronise takes time.
  static constexpr std::int64_t write_patience = 30'000'000'000;

  /// What `PageStore::open` must be told of such a pool.
  static PageStoreOptions options_for(const KvShape& shape, std::string folder,
                                      std::uint64_t bytes_most);
  /// Borrows the pool, which was made with the store's secret.
  KvTier(KvPool& pool, std::unique_ptr<PageStore> store);
  /// Writes what still waits, as `flush`.
  ~KvTier() override;
  KvTier(const KvTier&) = delete;
  KvTier& operator=(const KvTier&) = delete;

  bool begin(std::uint64_t task, const RowsOrigin& origin, std::span<const std::int32_t> tokens,
             std::optional<double> per_token, std::int64_t now) override;
  void forget(std::uint64_t task) override;
  void poll(std::int64_t now, std::vector<Ready>& ready,
            std::chrono::nanoseconds most = {}) override;
  bool is_waited_for() const override { return !fetches_.empty(); }
  std::size_t pages_awaited() const override;
  bool holds_pages() const override { return !fetches_.empty(); }
  bool has_backlog() const override;
  /// What was published since the last `poll` begins to be written, while there are buffers.
  void rest() override;
  /// Until all that waits is written and on the disk, or the disk takes nothing.
  void flush();

  const PageStore& store() const { return *store_; }
  std::size_t backlog() const { return backlog_.size(); }
  /// Questions that were answered with "computing is quicker".
  std::uint64_t not_worth() const { return not_worth_; }

 private:
  struct Fetch {
    std::uint64_t task = 0;
    std::vector<PageKey> keys = {};
    std::string tenant = {};                              // whose they are; empty: nobody's
    Sequence there = {};                                  // the pages before `next`, held
    std::size_t begin = 0, next = 0, asked = 0, end = 0;  // pages
    std::int64_t began = 0;
    // Polls that did not wait: before each but the first a forward may run.
    std::size_t glances = 0;
  };
  /// A page that was asked for. In all chains it stands at the same place.
  struct Reading {
    std::size_t at = 0;
    const std::byte* content = nullptr;  // null: it is under way
  };

  void published(Page page);
  bool has_no_room(Page page);
  void write_behind(std::int64_t now);
  bool ask(Fetch& fetch, std::int64_t now);
  bool advance(Fetch& fetch);
  bool is_wanted(const PageKey& key, std::size_t at) const;
  void end(const Fetch& fetch, bool waited, std::int64_t now, std::vector<Ready>& ready);
  void drop_unwanted();

  KvPool& pool_;
  std::unique_ptr<PageStore> store_;
  ReadGuard guard_;
  std::deque<PageKey> backlog_;
  std::set<PageKey> waiting_;       // those
  std::set<PageKey> refused_;       // for which there is no room, and what follows those
  std::uint64_t room_changes_ = 0;  // the folder's, when they were refused
  std::vector<Fetch> fetches_;
  std::map<PageKey, Reading> readings_;  // until they are published, or nobody wants them
  std::uint64_t not_worth_ = 0;
};

}  // namespace sluice
