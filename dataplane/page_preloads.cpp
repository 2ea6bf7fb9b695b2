#include "dataplane/page_preloads.h"

#include <algorithm>

#include "base/check.h"

namespace sluice {

void PagePreloads::met(PeerLife life) {
  lost(life);
  ask(life, peers_[life]);
}

void PagePreloads::lost(PeerLife life) {
  const auto it = peers_.find(life);
  if (it == peers_.end()) return;
  leave(it->second);
  peers_.erase(it);
  std::erase_if(out_, [&](const PeerMessage& one) { return one.peer == life; });
}

void PagePreloads::leave(Peer& peer) {
  counts_.missed += peer.queue.size();
  queued_ -= peer.queue.size();
  peer.queue.clear();
}

void PagePreloads::ask(PeerLife life, Peer& peer) {
  if (peer.is_asked || peer.is_over || peer.queue.size() + pages::told_most > queued_most) return;
  out_.push_back({life, encode(pages::Follow{peer.since, peer.mark})});
  peer.is_asked = true;  // last: there may be no memory, and it is asked later then
}

void PagePreloads::take(PeerLife life, const pages::Published& told) {
  const auto it = peers_.find(life);
  if (it == peers_.end() || !it->second.is_asked) {
    ++counts_.refused;
    return;
  }
  Peer& peer = it->second;
  // Of an owner that makes sense each page has a number behind the one before.
  if (told.last < peer.since || told.last - peer.since < told.pages.size()) {
    ++counts_.refused;
    peer.is_asked = false;
    peer.is_over = true;
    return;
  }
  // First: where there is no memory for them the message can be taken again.
  peer.queue.insert(peer.queue.end(), told.pages.begin(), told.pages.end());
  peer.is_asked = false;
  peer.since = told.last;
  peer.mark = told.mark;
  queued_ += told.pages.size();
  counts_.told += told.pages.size();
  ask(life, peer);
}

std::optional<PagePreloads::Run> PagePreloads::next(const std::function<bool(const PageKey&)>& has,
                                                    std::size_t most,
                                                    const std::function<bool(PeerLife)>& may_ask) {
  SLUICE_CHECK(!run_.has_value() && most > 0);
  auto at = peers_.upper_bound(last_);
  for (std::size_t i = 0; i < peers_.size(); ++i, ++at) {
    if (at == peers_.end()) at = peers_.begin();
    if (may_ask && !may_ask(at->first)) continue;
    std::optional<Run> run = run_of(at->first, at->second, has, most);
    ask(at->first, at->second);
    if (!run.has_value()) continue;
    last_ = at->first;
    run_ = run->keys.size();
    return run;
  }
  return std::nullopt;
}

/// The first that is worth it, and what follows it of what waits: other chains may stand between.
std::optional<PagePreloads::Run> PagePreloads::run_of(
    PeerLife life, Peer& peer, const std::function<bool(const PageKey&)>& has, std::size_t most) {
  std::optional<Run> run;
  std::deque<pages::ToldPage> left;
  for (const pages::ToldPage& page : peer.queue) {
    if (run.has_value() && (run->keys.size() == most || page.parent != run->keys.back())) {
      left.push_back(page);
    } else if (run.has_value()) {
      run->keys.push_back(page.key);
    } else if (has(page.key)) {
      ++counts_.had;
    } else if (page.parent == PageKey{} || has(page.parent)) {
      run = Run{life, page.parent, {page.key}};
    } else {
      ++counts_.missed;
    }
  }
  queued_ -= peer.queue.size() - left.size();
  peer.queue = std::move(left);
  return run;
}

void PagePreloads::ended() {
  counts_.missed += run_.value_or(0);
  run_.reset();
}

void PagePreloads::came(const PageKey& key, bool is_new) {
  SLUICE_CHECK(run_.has_value() && *run_ > 0);
  --*run_;
  ++(is_new ? counts_.taken : counts_.had);
  if (is_new) unused_.insert(key);
}

std::size_t PagePreloads::may_displace() {
  const std::int64_t left = static_cast<std::int64_t>(counts_.useful) + free_credit_ -
                            static_cast<std::int64_t>(counts_.displaced);
  if (left <= 0 && refusals_ < tries_after) {
    ++refusals_;
    return 0;
  }
  refusals_ = 0;
  return static_cast<std::size_t>(left > 0 ? left : std::max<std::int64_t>(free_credit_, 1));
}

void PagePreloads::used(std::span<const PageKey> keys) {
  for (const PageKey& key : keys) counts_.useful += unused_.erase(key);
}

void PagePreloads::dropped(const PageKey& key, bool for_run) {
  if (unused_.erase(key) > 0)
    ++counts_.wasted;
  else if (for_run)
    ++counts_.displaced;
}

}  // namespace sluice
