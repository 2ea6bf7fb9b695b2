// A pool's place in the index of pages that the cluster's machines share.
//
// Joins `PageIndex` with a pool and a port: it hears what the pool's watcher hears, and hands it
// on first. Thread: `PageWatcher`'s and the questions by the pool's owner, the client's by the
// port, counts from any.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/index_port.h"
#include "dataplane/page_index.h"
#include "engine/layers/kv.h"

namespace sluice {

/// For people.
struct KvIndexCounts {
  PageIndex::Counts index;
  std::uint64_t stale = 0;  // machines that had given up what the index said that they have
  std::string down;         // why it is not used; empty: it is
};

class KvIndex final : public PageWatcher, private IndexClient {
 public:
  /// Borrows all; `next` watches the pool already. `channel`: the pool's. `answered` is told that
  /// there is something to take, by any thread.
  KvIndex(KvPool& pool, PageWatcher& next, IndexPort& port, std::uint64_t channel, PeerLife self,
          std::function<void()> answered);
  ~KvIndex() override;
  KvIndex(const KvIndex&) = delete;
  KvIndex& operator=(const KvIndex&) = delete;

  void published(Page page) override;
  void dropped(Page page) override;

  /// As `PageIndex`.
  bool find(std::uint64_t id, std::span<const PageKey> keys, std::int64_t now);
  void forget(std::uint64_t id);
  std::vector<PageIndex::Found> take_found(std::int64_t now);
  void add_stale();
  KvIndexCounts counts() const;
  /// All that happened in the pool has been told.
  bool is_told() const;

 private:
  std::optional<IndexQuestion> ask(Instant now) override;
  Instant due() const override;
  void answered(std::uint64_t number, const std::vector<std::string>& words, Instant now) override;
  void refused(std::uint64_t number, const std::string& why, Instant now) override;
  void broke(const std::string& why, Instant now) override;
  std::vector<std::string> farewell() const override;

  KvPool& pool_;
  PageWatcher& next_;
  IndexPort& port_;
  const std::function<void()> answered_;
  mutable std::mutex mutex_;
  PageIndex index_;
  std::uint64_t stale_ = 0;
};

}  // namespace sluice
