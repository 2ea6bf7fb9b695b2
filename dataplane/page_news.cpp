#include "dataplane/page_news.h"

#include <string>

namespace sluice {

void PageNews::published(const pages::ToldPage& page) {
  if (!by_word_.emplace(page.key.words[0], next_).second) return;
  pages_.emplace(next_++, page);
  for (auto& [peer, follower] : followers_)
    if (follower.waits) tell(peer, follower);
}

void PageNews::dropped(const PageKey& key) {
  const auto it = by_word_.find(key.words[0]);
  if (it == by_word_.end()) return;
  pages_.erase(it->second);
  by_word_.erase(it);
}

void PageNews::lost(PeerLife peer) { followers_.erase(peer); }

bool PageNews::take(PeerLife peer, const pages::Follow& follow) {
  const auto it = followers_.find(peer);
  if (it == followers_.end()) return false;
  Follower& follower = it->second;
  if (follower.waits || follow.mark != follower.mark) return false;
  follower.since = follow.since;
  follower.waits = true;
  tell(peer, follower);
  return true;
}

void PageNews::tell(PeerLife peer, Follower& follower) {
  pages::Published told;
  for (auto it = pages_.upper_bound(follower.since);
       it != pages_.end() && told.pages.size() < pages::told_most; ++it) {
    told.pages.push_back(it->second);
    told.last = it->first;
  }
  if (told.pages.empty()) return;
  told.mark = marks_.root({"mark", "", std::to_string(++marks_made_), ""}).words[0];
  told_ += told.pages.size();
  follower.mark = told.mark;
  follower.waits = false;
  out_.push_back({peer, encode(told)});
}

}  // namespace sluice
