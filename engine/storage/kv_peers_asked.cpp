// Whom a prompt's pages are asked of: who the index names, or the other machines by turns; and
// those that are found without asking.
#include <algorithm>

#include "engine/storage/kv_peers.h"

namespace sluice {

bool KvPeers::find_near(Fetch& fetch, std::int64_t now) {
  const auto begin = fetch.keys.begin() + static_cast<std::ptrdiff_t>(fetch.begin);
  const std::vector<PageKey> keys(begin, begin + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                     fetch.keys.end() - begin, pages::keys_most)));
  const PagePuller::Near near = puller_.near(now);
  NearPages best;
  PeerLife from;
  bool is_all = near.is_all;
  for (const PagePuller::Near::Peer& one : near.peers) {
    const auto region = regions_.find(one.life);
    const Ref<Buffer> bytes = region != regions_.end() ? region->second->bytes() : Ref<Buffer>();
    if (!bytes) {
      is_all = false;
      continue;
    }
    NearPages found =
        find_places({one.pages, hello_.page_bytes}, bytes_of(bytes), one.incarnation, keys);
    is_all = is_all && found.is_all;
    if (found.places.size() <= best.places.size()) continue;
    best = std::move(found);
    from = one.life;
    if (best.places.size() == keys.size()) break;
  }
  // Those that were not looked at may have more.
  if (best.places.size() < (is_all ? 1 : keys.size())) return false;
  if (!puller_.begin_near(next_pull_, keys, from, std::move(best.places), now)) return false;
  fetch.pull = next_pull_++;
  fetch.asked = now;
  fetch.is_near = true;
  return true;
}

bool KvPeers::is_pulling(const RowsOrigin& origin, std::span<const std::int32_t> tokens) const {
  if (fetches_.empty()) return false;
  const std::vector<PageKey> keys = pool_.keys_of(origin, tokens);
  const std::size_t had = pool_.table().match(keys);
  const auto pulls = [&](const Fetch& one) { return one.pulls(keys[had], had); };
  return had < keys.size() && std::ranges::any_of(fetches_, pulls);
}

bool KvPeers::ask_index(Fetch& fetch, std::optional<std::int64_t> compute, std::int64_t now) {
  if (index_ == nullptr || fetch.is_indexed) return false;
  // Who has read the prompt just now knows better: the index may not have heard of it yet.
  if (fetch.first.has_value() && puller_.may_ask(*fetch.first, now)) return false;
  if (!index_guard_.pays(1, compute)) return false;
  const auto keys = std::span<const PageKey>(fetch.keys).subspan(fetch.begin);
  if (!index_->find(next_pull_, keys, now)) return false;
  fetch.pull = next_pull_++;
  fetch.asks_index = fetch.is_indexed = true;
  return true;
}

/// Content is not sent where it is known that computing is quicker. Asked for it is who may well
/// have the pages, or the only one that is there; what others cost, or did, says nothing.
bool KvPeers::wants_content(const Fetch& fetch, std::int64_t now) const {
  const std::size_t pages = fetch.keys.size() - fetch.begin;
  const std::optional<std::int64_t> compute = compute_time(fetch, pages);
  const bool is_one = fetch.first.has_value() && puller_.may_ask(*fetch.first, now);
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(there_, [&](PeerLife life) {
    if (is_one ? life != *fetch.first : !puller_.may_ask(life, now)) return true;
    const auto guard = guards_.find(life.machine);
    return guard == guards_.end() || guard->second.is_quicker(pages * hello_.page_bytes, compute);
  });
}

bool KvPeers::ask_machines(Fetch& fetch, std::int64_t now) {
  const std::uint64_t pull = fetch.pull != 0 ? fetch.pull : next_pull_;
  const auto begin = fetch.keys.begin() + static_cast<std::ptrdiff_t>(fetch.begin);
  if (!puller_.begin(pull, {begin, fetch.keys.end()}, now, fetch.first, wants_content(fetch, now)))
    return false;
  next_pull_ = std::max(next_pull_, pull + 1);
  fetch.pull = pull;
  send_all();
  return true;
}

/// Asks who is named first, of those that may be asked, for the pages at once.
bool KvPeers::begin_at(Fetch& fetch, const PageIndex::Found& found, std::int64_t now) {
  const std::vector<PageKey> keys(fetch.keys.begin() + static_cast<std::ptrdiff_t>(fetch.begin),
                                  fetch.keys.end());
  for (const PageProvider& one : found.providers) {
    const std::size_t pages = std::min(one.pages, keys.size());
    if (!puller_.begin_at(fetch.pull, keys, one.peer, pages, now)) continue;
    fetch.is_named = true;
    return true;
  }
  return false;
}

void KvPeers::take_found(std::int64_t now) {
  if (index_ == nullptr) return;
  for (const PageIndex::Found& found : index_->take_found(now)) {
    const auto it = std::ranges::find(fetches_, found.id, &Fetch::pull);
    if (it == fetches_.end() || !it->asks_index) continue;
    it->asks_index = false;
    if (found.is_answered) index_guard_.learn(1, now - it->asked);
    if (begin_at(*it, found, now)) continue;
    it->asked = now;
    it->is_over = !ask_machines(*it, now);
  }
}

bool KvPeers::ask_others(Fetch& fetch, PullEnd how, std::int64_t now) {
  const bool is_gone = how == PullEnd::missing || how == PullEnd::busy || how == PullEnd::lost ||
                       how == PullEnd::changed;
  if (!fetch.is_named || !is_gone || fetch.next > fetch.begin) return false;
  fetch.is_named = false;
  index_->add_stale();
  fetch.asked = now;
  fetch.end = fetch.begin;
  return ask_machines(fetch, now);
}

}  // namespace sluice
