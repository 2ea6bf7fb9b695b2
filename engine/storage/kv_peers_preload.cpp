// Pages of other machines that are pulled before anybody asks for them.
#include <algorithm>

#include "engine/storage/kv_peers.h"

namespace sluice {

namespace {

/// Of runs that come to nothing, in one turn: others want the pool too.
constexpr int runs_looked_at = 16;

}  // namespace

bool KvPeers::is_waited_for() const { return !std::ranges::all_of(fetches_, &Fetch::is_preload); }

bool KvPeers::holds_pages() const {
  return !left_.empty() ||
         std::ranges::any_of(fetches_, [](const Fetch& one) { return one.incoming != nullptr; });
}

bool KvPeers::preload(std::optional<double> per_token, std::size_t wanted, std::int64_t now) {
  if (!preloads_ || !is_open_) return false;
  take_news(now);
  {
    const std::lock_guard lock(mutex_);
    was_told_ = false;
  }
  if (!is_waited_for()) {  // else whoever waits moves all on
    std::vector<Ready> nobody;
    puller_.tick(now);
    take_events(now, false);
    take_events(now, false);
    end_fetches(now, nobody);
    const std::size_t free = pool_.pages_free();
    if (!preloads_->is_under_way() && free > wanted) begin_preload(per_token, free - wanted, now);
  }
  send_all();
  note_preloads();
  return preloads_->is_under_way() || preloads_->has_more();
}

void KvPeers::begin_preload(std::optional<double> per_token, std::size_t room, std::int64_t now) {
  const PageTable& table = pool_.table();
  const std::size_t one_ask = std::max<std::size_t>(pages::ask_bytes_most / hello_.page_bytes, 1);
  const std::size_t most = std::min({room, one_ask, pages::keys_most});
  const auto has = [&](const PageKey& key) { return table.has(key); };
  const auto may_ask = [&](PeerLife peer) { return puller_.may_ask(peer, now); };
  for (int i = 0; i < runs_looked_at; ++i) {
    std::optional<PagePreloads::Run> run = preloads_->next(has, most, may_ask);
    if (!run) return;
    const std::size_t empty = table.free_pages();
    if (run->keys.size() > empty)
      run->keys.resize(std::min(run->keys.size(), empty + preloads_->may_displace()));
    Fetch fetch{.is_preload = true, .keys = table.path(run->parent), .per_token = per_token};
    fetch.pull = next_pull_++;
    fetch.begin = fetch.next = fetch.end = fetch.keys.size();
    fetch.keys.insert(fetch.keys.end(), run->keys.begin(), run->keys.end());
    fetches_.push_back(std::move(fetch));  // first, so that it is known where memory runs out
    const std::size_t count = run->keys.size();
    if (count > 0 &&
        puller_.begin_at(next_pull_ - 1, std::move(run->keys), run->peer, count, now)) {
      take_events(now, false);  // it is found
      return;
    }
    fetches_.pop_back();
    preloads_->ended();
  }
}

/// Whoever waits behind it asks by itself. Where memory ran out before it was asked for, there is
/// the run alone.
void KvPeers::drop_preload() {
  if (preloads_ && preloads_->is_under_way() && std::ranges::none_of(fetches_, &Fetch::is_preload))
    preloads_->ended();
  for (Fetch& fetch : fetches_) {
    if (!fetch.is_preload) continue;
    puller_.cancel(fetch.pull);
    leave(fetch);
    fetch.is_over = true;
  }
}

/// On whichever thread that is: the one that preloads (`wait_for_news`) is to hear of it.
void KvPeers::take_told(const News& one) {
  preloads_->take(one.peer, std::get<pages::Published>(*pages::decode(one.message)));
  const std::lock_guard lock(mutex_);
  was_told_ = true;
  news_came_.notify_all();
}

void KvPeers::page_dropped(const PageKey& key) {
  if (preloads_) preloads_->dropped(key, takes_for_preload_);
}

void KvPeers::note_preloads() {
  if (!preloads_) return;
  const std::lock_guard lock(mutex_);
  counts_.preloads = preloads_->counts();
}

bool KvPeers::wait_for_news(std::chrono::nanoseconds most) {
  std::unique_lock lock(mutex_);
  return news_came_.wait_for(lock, most, [&] { return is_news() || was_told_ || stops_waiting_; });
}

void KvPeers::stop_waiting() {
  const std::lock_guard lock(mutex_);
  stops_waiting_ = true;
  news_came_.notify_all();
}

}  // namespace sluice
