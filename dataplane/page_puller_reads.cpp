// The part of `PagePuller` that reads pages where they stand.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "dataplane/page_puller.h"

namespace sluice {

using namespace pages;

bool PagePuller::is_to_open(PeerLife life, const Region& region) {
  const auto it = peers_.find(life);
  return it != peers_.end() && region.incarnation == it->second.incarnation &&
         !std::exchange(it->second.has_told, true);
}

void PagePuller::opened(PeerLife life, std::uint32_t pages, bool is_near) {
  const auto it = peers_.find(life);
  if (it == peers_.end()) return;
  it->second.pages = pages;
  it->second.is_near = is_near;
}

PagePuller::Near PagePuller::near(std::int64_t now) const {
  Near near;
  for (const auto& [life, peer] : peers_) {
    if (!may_be_asked(peer, now)) continue;
    const bool is_near = may_read(peer) && peer.is_near && near.peers.size() < peers_asked;
    near.is_all = near.is_all && is_near;
    if (is_near) near.peers.push_back({life, peer.incarnation, peer.pages});
  }
  return near;
}

/// As if it had been asked for the places, and had answered; but that is no question to it.
bool PagePuller::begin_near(std::uint64_t id, std::vector<PageKey> keys, PeerLife life,
                            std::vector<Place> places, std::int64_t now) {
  SLUICE_CHECK(id != 0 && places.size() <= keys.size() && !pulls_.contains(id));
  const auto it = peers_.find(life);
  if (places.empty() || it == peers_.end() || !may_be_asked(it->second, now) ||
      !may_read(it->second))
    return false;
  const std::size_t count = places.size();
  Pull pull;
  pull.keys = std::move(keys);
  pull.began = pull.heard = now;
  pull.found = count;
  pull.peer = life;
  pull.first_asked = next_question_++;
  pull.questions.insert(pull.first_asked);
  Question& question = questions_[pull.first_asked];
  question = {id, life, 0, count};
  question.for_places = question.is_near = true;
  it->second.in_flight += count * self_.page_bytes;
  const auto at = pulls_.emplace(id, std::move(pull)).first;
  for (Place& place : places) {
    place.head.id = at->second.first_asked;
    const bool is_so = is_asked_for(question, place.head, true) && place.page < it->second.pages;
    SLUICE_CHECK(is_so, "a place is another page's");
    ++question.got;
  }
  question.early = std::move(places);
  question.end =
      End{at->second.first_asked, static_cast<std::uint32_t>(count), End::Status::done, 0};
  found_all(id, at->second);
  return true;
}

void PagePuller::closed(PeerLife life) { opened(life, 0); }

/// Nothing that a peer says is read anywhere but in what it has announced.
void PagePuller::take_place(PeerLife from, const Place& place, std::int64_t now) {
  const auto it = questions_.find(place.head.id);
  if (it == questions_.end() || it->second.peer != from || it->second.pull == 0) {
    ++stale_;
    return;
  }
  Question& question = it->second;
  const auto at = pulls_.find(question.pull);
  const std::uint32_t pages = peers_.at(from).pages;
  if (pages == 0) return end(at, PullEnd::lost, now);  // closed since it was asked
  if (!is_asked_for(question, place.head, true) || place.page >= pages)
    return end(at, PullEnd::broken, now);
  ++question.got;
  if (at->second.is_fetching)
    read(it, place);
  else
    question.early.push_back(place);
}

/// Unless more was asked for than is wanted.
void PagePuller::read(Questions::iterator it, const Place& place) {
  Question& question = it->second;
  const Pull& pull = pulls_.at(question.pull);
  const std::size_t index = question.first + place.head.index;
  if (index >= pull.wanted) return;
  ++question.reading;
  const std::uint64_t number =
      reading_.add({it->first, question.peer, place.head, pull.places[index]});
  const PageRegion region{peers_.at(question.peer).pages, self_.page_bytes};
  reads_.push_back({number, question.peer, region.page(place.page), region.stamp(place.page),
                    place.head, pull.places[index]});
}

/// It is known now whom the pages come from, and how many are wanted.
void PagePuller::take_early(Pull& pull) {
  const auto it = questions_.find(pull.first_asked);
  Question& question = it->second;
  const bool is_of_use = question.early.empty() || peers_.at(question.peer).pages > 0;
  if (question.peer == pull.peer && is_of_use) {
    pull.asked = std::min(question.count, pull.wanted);
    return;
  }
  pull.questions.erase(std::exchange(pull.first_asked, 0));
  question.pull = 0;
  if (question.end.has_value()) forget(it);
}

/// Those that have a place of the pool now.
void PagePuller::read_early(Pull& pull, std::int64_t now) {
  const auto it = questions_.find(pull.first_asked);
  Question& question = it->second;
  const std::size_t placed = pull.places.size();
  auto place = question.early.begin();
  while (place != question.early.end() && place->head.index < placed) read(it, *place++);
  question.early.erase(question.early.begin(), place);
  auto held = question.held.begin();
  while (held != question.held.end() && held->page.head.index < placed)
    if (!put(question, held++->page, now)) return;
  question.held.erase(question.held.begin(), held);
  if (placed < pull.wanted) return;
  question.early.clear();
  question.held.clear();
  pull.first_asked = 0;
  if (question.end.has_value() && question.reading == 0) finish(it, now);
}

void PagePuller::read_ended(std::uint64_t number, const Ref<Buffer>& stamp, std::int64_t now) {
  const Reading* const reading = reading_.find(number);
  std::optional<bool> whole;
  if (stamp && reading != nullptr)
    whole = is_whole(bytes_of(reading->place), bytes_of(stamp), reading->head);
  verified(number, whole, now);
}

void PagePuller::verified(std::uint64_t number, std::optional<bool> is_whole, std::int64_t now) {
  const std::optional<Reading> taken = reading_.take(number);
  if (!taken) {
    ++stale_;
    return;
  }
  const Reading& reading = *taken;
  const auto asked = questions_.find(reading.question);
  Question& question = asked->second;
  --question.reading;
  Peer& peer = peers_.at(reading.peer);
  if (!is_whole) closed(reading.peer);
  if (question.pull == 0) {
    ++stale_;
  } else if (!is_whole) {
    end(pulls_.find(question.pull), PullEnd::lost, now);
  } else if (!*is_whole) {
    peer.read_pause =
        peer.read_pause == 0 ? first_pause : std::min(2 * peer.read_pause, longest_pause);
    peer.read_until = now + peer.read_pause;
    end(pulls_.find(question.pull), PullEnd::changed, now);
  } else {
    peer.read_pause = 0;
    arrive(question, reading.head.index, true, now);
  }
  if (question.end.has_value() && question.reading == 0) finish(asked, now);
}

}  // namespace sluice
