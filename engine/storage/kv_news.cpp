#include "engine/storage/kv_news.h"

#include <utility>

namespace sluice {

KvNews::KvNews(KvPool& pool, PageWatcher& next, const PageKeys::Secret& marks, Send send,
               std::function<void(const PageKey&)> dropped)
    : pool_(pool), next_(next), send_(std::move(send)), dropped_(std::move(dropped)), news_(marks) {
  pool_.watch(this);
}

KvNews::~KvNews() { pool_.watch(&next_); }

void KvNews::published(Page page) {
  next_.published(page);
  const PageTable& table = pool_.table();
  const Page parent = table.parent(page);
  const std::lock_guard lock(mutex_);
  news_.published(page, {table.key(page), parent == no_page ? PageKey{} : table.key(parent)});
  send();
}

void KvNews::dropped(Page page) {
  next_.dropped(page);
  if (dropped_) dropped_(pool_.table().key(page));
  const std::lock_guard lock(mutex_);
  news_.dropped(page);
}

void KvNews::met(PeerLife peer) {
  const std::lock_guard lock(mutex_);
  news_.met(peer);
}

void KvNews::lost(PeerLife peer) {
  const std::lock_guard lock(mutex_);
  news_.lost(peer);
}

bool KvNews::take(PeerLife peer, const pages::Follow& follow) {
  const std::lock_guard lock(mutex_);
  const bool is_taken = news_.take(peer, follow);
  send();
  return is_taken;
}

void KvNews::send() {
  for (std::vector<PeerMessage>& out = news_.out(); !out.empty(); out.erase(out.begin()))
    send_(out.front());
}

std::uint64_t KvNews::told() const {
  const std::lock_guard lock(mutex_);
  return news_.told();
}

}  // namespace sluice
