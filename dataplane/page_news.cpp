#include "dataplane/page_news.h"

#include <algorithm>
#include <limits>
#include <string>

namespace sluice {

namespace {

constexpr std::size_t no_place = std::numeric_limits<std::size_t>::max();
constexpr std::size_t gone_least = 64;  // before the list is shortened

}  // namespace

void PageNews::published(Page page, const pages::ToldPage& told) {
  if (page >= places_.size()) places_.resize(page + 1, no_place);
  if (places_[page] != no_place) return;
  pages_.push_back({next_++, page, told});
  places_[page] = pages_.size() - 1;
  for (auto& [peer, follower] : followers_)
    if (follower.waits) tell(peer, follower);
}

void PageNews::dropped(Page page) {
  if (page >= places_.size() || places_[page] == no_place) return;
  pages_[std::exchange(places_[page], no_place)].page = no_page;
  if (++gone_ >= gone_least && gone_ * 2 > pages_.size()) shorten();
}

void PageNews::shorten() {
  std::erase_if(pages_, [](const Told& one) { return one.page == no_page; });
  gone_ = 0;
  for (std::size_t place = 0; place < pages_.size(); ++place) places_[pages_[place].page] = place;
}

void PageNews::lost(PeerLife peer) {
  followers_.erase(peer);
  std::erase_if(out_, [&](const PeerMessage& one) { return one.peer == peer; });
}

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
  for (auto it = std::ranges::upper_bound(pages_, follower.since, {}, &Told::number);
       it != pages_.end() && told.pages.size() < pages::told_most; ++it) {
    if (it->page == no_page) continue;
    told.pages.push_back(it->told);
    told.last = it->number;
  }
  if (told.pages.empty()) return;
  told.mark = marks_.root({"mark", "", std::to_string(++marks_made_), ""}).words[0];
  out_.push_back({peer, encode(told)});  // first: without memory for it nothing was told
  told_ += told.pages.size();
  follower.mark = told.mark;
  follower.waits = false;
}

}  // namespace sluice
