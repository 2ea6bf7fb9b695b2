// What a pool tells other machines of the pages that it publishes.
//
// Joins `PageNews` with a pool and a port: it hears what the pool's watcher hears, hands it on
// first, and says what peers wait for at once. Thread: `PageWatcher`'s by the pool's owner, all
// else by any.
#pragma once

#include <functional>
#include <mutex>

#include "dataplane/page_news.h"
#include "engine/layers/kv.h"

namespace sluice {

class KvNews final : public PageWatcher {
 public:
  using Send = std::function<void(const PeerMessage&)>;

  /// Borrows the pool and `next`, which watches it already. `marks`: random. `send`: of any thread.
  /// `dropped`: told of each page that goes, by the pool's owner; null: nobody.
  KvNews(KvPool& pool, PageWatcher& next, const PageKeys::Secret& marks, Send send,
         std::function<void(const PageKey&)> dropped);
  ~KvNews() override;
  KvNews(const KvNews&) = delete;
  KvNews& operator=(const KvNews&) = delete;

  void published(Page page) override;
  void dropped(Page page) override;

  void met(PeerLife peer);
  void lost(PeerLife peer);
  /// As `PageNews`.
  bool take(PeerLife peer, const pages::Follow& follow);
  std::uint64_t told() const;

 private:
  /// Under the lock, so that nothing is said to a peer's next link that was meant for this one.
  void send();

  KvPool& pool_;
  PageWatcher& next_;
  const Send send_;
  const std::function<void(const PageKey&)> dropped_;
  mutable std::mutex mutex_;
  PageNews news_;
};

}  // namespace sluice
