#include "dataplane/page_puller.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"

namespace sluice {

using namespace pages;

bool PagePuller::has_peers(std::int64_t now) const {
  return std::ranges::any_of(peers_,
                             [&](const auto& one) { return may_be_asked(one.second, now); });
}

bool PagePuller::may_ask(PeerLife peer, std::int64_t now) const {
  const auto it = peers_.find(peer);
  return it != peers_.end() && may_be_asked(it->second, now);
}

void PagePuller::met(PeerLife life, const Hello& hello, std::int64_t now) {
  if (peers_.contains(life)) lost(life, now);
  peers_[life].incarnation = hello.incarnation;
}

bool PagePuller::begin(std::uint64_t id, std::vector<PageKey> keys, std::int64_t now,
                       std::optional<PeerLife> first, bool wants_content) {
  SLUICE_CHECK(id != 0 && !keys.empty() && !pulls_.contains(id));
  std::vector<PeerLife> asked;
  const auto choose = [&](PeerLife life, const Peer& peer) {
    if (!may_be_asked(peer, now) || asked.size() == peers_asked) return false;
    asked.push_back(life);
    return true;
  };
  const auto known = first.has_value() ? peers_.find(*first) : peers_.end();
  const bool is_known = known != peers_.end() && choose(known->first, known->second);
  auto next = peers_.upper_bound(last_asked_);
  for (std::size_t i = 0; i < peers_.size(); ++i, ++next) {
    if (next == peers_.end()) next = peers_.begin();
    if (next != known && choose(next->first, next->second)) last_asked_ = next->first;
  }
  if (asked.empty()) return false;
  Pull& pull = pulls_[id];
  if (keys.size() > keys_most) keys.resize(keys_most);
  pull.keys = std::move(keys);
  pull.began = pull.heard = now;
  for (const PeerLife life : asked)
    ask_first(id, pull, life, life == asked.front() && (is_known || asked.size() == 1),
              wants_content);
  return true;
}

void PagePuller::ask_first(std::uint64_t id, Pull& pull, PeerLife life, bool is_likely,
                           bool wants_content) {
  Peer& peer = peers_.at(life);
  const std::size_t all = pull.keys.size();
  const bool is_small = all <= early_pages_most && all * self_.page_bytes <= early_most_;
  const bool for_places = may_read(peer) && (peer.is_near || !is_small);
  const std::size_t early = is_likely && (for_places || (is_small && wants_content))
                                ? std::min(all, asked_most(self_.page_bytes, for_places))
                                : 0;
  // The answer of all of them says how many there are.
  if (early == all && ask(id, pull, peer, life, early, for_places)) {
    pull.first_asked = next_question_ - 1;
    pull.finds.emplace(pull.first_asked, life);
    return;
  }
  out_.push_back({life, encode(Find{next_question_, pull.keys})});
  peer.finds.insert(next_question_);
  pull.finds.emplace(next_question_++, life);
  if (early > 0 && early < all && ask(id, pull, peer, life, early, for_places))
    pull.first_asked = next_question_ - 1;
}

bool PagePuller::begin_at(std::uint64_t id, std::vector<PageKey> keys, PeerLife peer,
                          std::size_t pages, std::int64_t now) {
  SLUICE_CHECK(id != 0 && pages > 0 && pages <= keys.size() && !pulls_.contains(id));
  if (!may_ask(peer, now)) return false;
  Pull pull;
  pull.keys = std::move(keys);
  pull.began = pull.heard = now;
  pull.found = pages;
  pull.peer = peer;
  found_all(id, pulls_.emplace(id, std::move(pull)).first->second);
  return true;
}

void PagePuller::fetch(std::uint64_t id, std::size_t pages, std::int64_t now) {
  const auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  Pull& pull = at->second;
  SLUICE_CHECK(pages > 0 && pages <= pull.found && !pull.is_fetching);
  pull.is_fetching = true;
  pull.wanted = pages;
  pull.places.reserve(pages);
  pull.came.resize(pages);
  pull.began = pull.heard = now;
  if (pull.first_asked != 0) take_early(pull);
  ask_more();
}

void PagePuller::place(std::uint64_t id, std::vector<Ref<Buffer>> places, std::int64_t now) {
  const auto at = pulls_.find(id);
  if (at == pulls_.end()) return;
  Pull& pull = at->second;
  SLUICE_CHECK(pull.is_fetching && places.size() <= pull.wanted - pull.places.size());
  for (Ref<Buffer>& place : places) {
    SLUICE_CHECK(place && place->size() == self_.page_bytes);
    pull.places.push_back(std::move(place));
  }
  if (pull.first_asked != 0) read_early(pull, now);
}

void PagePuller::cancel(std::uint64_t id) {
  if (const auto at = pulls_.find(id); at != pulls_.end()) drop(at);
  ask_more();
}

void PagePuller::take(PeerLife from, Bytes message, std::int64_t now, const Ref<Buffer>& body) {
  const std::optional<Message> read = decode(message, bytes_of(body));
  if (!read.has_value() || !peers_.contains(from)) {
    ++stale_;
    return;
  }
  if (const Found* found = std::get_if<Found>(&*read)) return take_found(from, *found);
  if (const PageContent* page = std::get_if<PageContent>(&*read))
    return take_page(from, {*page, std::move(message), body}, now);
  if (const Places* said = std::get_if<Places>(&*read)) {
    for (const Place& place : said->places) take_place(from, place, now);
    return take_end(from, said->end, now);
  }
  if (const End* end = std::get_if<End>(&*read)) return take_end(from, *end, now);
  ++stale_;
}

/// The peer may forget it. Said of what was asked for alone, so that no peer makes this side talk.
void PagePuller::took(PeerLife peer, std::uint64_t receipt) {
  if (receipt != 0)  // else it came by a way that bounds what is on it
    out_.push_back({peer, encode(Took{receipt})});
}

void PagePuller::take_found(PeerLife from, const Found& found) {
  if (peers_.at(from).finds.erase(found.id) == 0) {
    ++stale_;
    return;
  }
  took(from, found.receipt);
  for (auto& [id, pull] : pulls_) {
    const auto asked = pull.finds.find(found.id);
    if (asked == pull.finds.end() || asked->second != from) continue;
    pull.finds.erase(asked);
    return take_count(id, pull, from, std::min<std::size_t>(found.pages, pull.keys.size()));
  }
  ++stale_;
}

void PagePuller::take_count(std::uint64_t id, Pull& pull, PeerLife peer, std::size_t pages) {
  if (pages > pull.found) {
    pull.found = pages;
    pull.peer = peer;
  }
  if (pull.finds.empty() || pull.found == pull.keys.size()) found_all(id, pull);
}

/// Says how much was found, or how much is known so far: nobody else's answer is waited for.
void PagePuller::found_all(std::uint64_t id, Pull& pull) {
  pull.finds.clear();
  if (pull.found == 0) return end(pulls_.find(id), PullEnd::nobody, 0);
  PullEvent event;
  event.kind = PullEvent::Kind::found;
  event.pull = id;
  event.peer = pull.peer;
  event.pages = pull.found;
  const auto first = questions_.find(pull.first_asked);
  event.has_come =
      first != questions_.end() && first->second.peer == pull.peer && !first->second.held.empty();
  events_.push_back(std::move(event));
}

void PagePuller::take_page(PeerLife from, Held came, std::int64_t now) {
  const PageHead& head = came.page.head;
  const auto it = questions_.find(head.id);
  if (it == questions_.end() || it->second.peer != from || it->second.pull == 0) {
    ++stale_;
    return;
  }
  Question& question = it->second;
  const auto at = pulls_.find(question.pull);
  if (!is_asked_for(question, head, false)) return end(at, PullEnd::broken, now);
  ++question.got;
  if (at->second.is_fetching) {
    put(question, came.page, now);
  } else {
    at->second.heard = now;
    question.held.push_back(std::move(came));
  }
}

/// Unless more was asked for than is wanted.
bool PagePuller::put(const Question& question, const PageContent& page, std::int64_t now) {
  const auto at = pulls_.find(question.pull);
  const std::size_t index = question.first + page.head.index;
  if (index >= at->second.wanted) return true;
  // What is checked is what is kept: memory that the owner still has may change in between.
  const Ref<Buffer>& place = at->second.places[index];
  if (copy_with_crc32c(page.content, place->data()) != page.head.crc32c) {
    end(at, PullEnd::broken, now);
    return false;
  }
  arrive(question, page.head.index, false, now);
  return true;
}

bool PagePuller::is_asked_for(const Question& question, const PageHead& head, bool is_place) const {
  return is_place == question.for_places && question.got < question.count &&
         !question.end.has_value() && head.index == question.got &&
         head.key == pulls_.at(question.pull).keys[question.first + question.got] &&
         head.incarnation == peers_.at(question.peer).incarnation &&
         head.length == self_.page_bytes;
}

void PagePuller::arrive(const Question& question, std::size_t page, bool is_read,
                        std::int64_t now) {
  Pull& pull = pulls_.at(question.pull);
  pull.came[question.first + page] = is_read ? Came::read : Came::sent;
  pull.heard = now;
  peers_.at(question.peer).pause = 0;
  for (; pull.got < pull.wanted && pull.came[pull.got] != Came::not_yet; ++pull.got) {
    PullEvent event;
    event.kind = PullEvent::Kind::page;
    event.pull = question.pull;
    event.peer = question.peer;
    event.pages = pull.got;
    event.place = std::move(pull.places[event.pages]);
    event.is_read = pull.came[pull.got] == Came::read;
    events_.push_back(std::move(event));
  }
}

void PagePuller::take_end(PeerLife from, const End& answer, std::int64_t now) {
  const auto it = questions_.find(answer.id);
  if (it == questions_.end() || it->second.peer != from || it->second.end.has_value()) {
    ++stale_;
    return;
  }
  took(from, answer.receipt);
  it->second.end = answer;
  const auto at = pulls_.find(it->second.pull);
  if (at != pulls_.end() && at->second.finds.erase(answer.id) > 0)
    return take_count(at->first, at->second, from, it->second.got);
  const bool is_early = at != pulls_.end() && !at->second.is_fetching;
  if (it->second.reading == 0 && !is_early) finish(it, now);
}

void PagePuller::forget(Questions::iterator it) {
  if (const auto peer = peers_.find(it->second.peer); peer != peers_.end()) {
    peer->second.asks -= it->second.is_near ? 0 : 1;
    peer->second.in_flight -= it->second.count * self_.page_bytes;
  }
  questions_.erase(it);
}

void PagePuller::finish(Questions::iterator it, std::int64_t now) {
  const std::uint64_t id = it->first;
  const Question question = it->second;
  forget(it);
  if (question.pull == 0) {
    ++stale_;
    return ask_more();
  }
  const auto at = pulls_.find(question.pull);
  at->second.questions.erase(id);
  const End& answer = *question.end;
  if (answer.pages != question.got) return end(at, PullEnd::broken, now);
  if (question.got < std::min(question.count, at->second.wanted - question.first)) {
    const PullEnd how = answer.status == End::Status::busy      ? PullEnd::busy
                        : answer.status == End::Status::refused ? PullEnd::refused
                                                                : PullEnd::missing;
    return end(at, how, now);
  }
  if (at->second.got == at->second.wanted) return end(at, PullEnd::done, now);
  ask_more();
}

/// For all pulls, as far as their peers may be asked.
void PagePuller::ask_more() {
  for (auto& [id, pull] : pulls_) {
    const auto peer = peers_.find(pull.peer);
    if (pull.is_fetching && peer != peers_.end()) ask(id, pull, peer->second);
  }
}

void PagePuller::ask(std::uint64_t id, Pull& pull, Peer& peer) {
  while (pull.asked < pull.wanted) {
    const std::size_t most = asked_most(self_.page_bytes, may_read(peer));
    const std::size_t count = std::min(pull.wanted - pull.asked, most);
    if (!ask(id, pull, peer, pull.peer, count, may_read(peer))) return;
    pull.asked += count;
  }
}

/// The next `count` of them. False: so much is under way from the peer already.
bool PagePuller::ask(std::uint64_t id, Pull& pull, Peer& peer, PeerLife life, std::size_t count,
                     bool for_places) {
  const std::size_t bytes = count * self_.page_bytes;
  // Of large pages two, where they are read: several threads may, and none waits for a question.
  const std::size_t most = for_places ? std::max(read_most, 2 * bytes) : in_flight_most;
  const bool is_full = peer.in_flight > 0 && peer.in_flight + bytes > most;
  if (is_full || peer.asks >= questions_most) return false;
  const auto begin = pull.keys.begin() + static_cast<std::ptrdiff_t>(pull.asked);
  out_.push_back({life, encode(Ask{next_question_,
                                   {begin, begin + static_cast<std::ptrdiff_t>(count)},
                                   for_places})});
  questions_[next_question_] = {id, life, pull.asked, count};
  questions_[next_question_].for_places = for_places;
  pull.questions.insert(next_question_++);
  ++peer.asks;
  peer.in_flight += bytes;
  return true;
}

/// What was asked for still comes, and counts until then. The early question may have had its whole
/// answer before the pull was to be fetched: nothing else would end it, but a read that is under
/// way.
void PagePuller::drop(Pulls::iterator at) {
  for (const std::uint64_t id : at->second.questions) questions_.at(id).pull = 0;
  const auto first = questions_.find(at->second.first_asked);
  if (first != questions_.end() && first->second.end.has_value() && first->second.reading == 0)
    forget(first);
  pulls_.erase(at);
}

void PagePuller::end(Pulls::iterator at, PullEnd how, std::int64_t now) {
  PullEvent event;
  event.pull = at->first;
  event.peer = at->second.peer;
  event.end = how;
  event.pages = at->second.got;
  const bool failed = how == PullEnd::late || how == PullEnd::broken || how == PullEnd::refused;
  if (failed) leave_alone(at->second.peer, now);
  drop(at);
  events_.push_back(std::move(event));
  ask_more();
}

void PagePuller::leave_alone(PeerLife life, std::int64_t now) {
  const auto it = peers_.find(life);
  if (it == peers_.end()) return;
  Peer& peer = it->second;
  peer.pause = peer.pause == 0 ? first_pause : std::min(2 * peer.pause, longest_pause);
  peer.until = now + peer.pause;
}

void PagePuller::lost(PeerLife life, std::int64_t now) {
  peers_.erase(life);
  std::vector<std::uint64_t> ended;
  for (auto& [id, pull] : pulls_) {
    const bool was_asked =
        std::erase_if(pull.finds, [&](const auto& one) { return one.second == life; }) > 0;
    if (pull.first_asked != 0 && questions_.at(pull.first_asked).peer == life)
      pull.questions.erase(std::exchange(pull.first_asked, 0));
    if (pull.found > 0 && pull.peer == life)
      ended.push_back(id);
    else if (was_asked && pull.finds.empty() && !pull.is_fetching)
      ended.push_back(id);
  }
  for (const std::uint64_t id : ended) {
    const auto at = pulls_.find(id);
    const bool has_other = at->second.found > 0 && at->second.peer != life;
    if (has_other)
      found_all(id, at->second);
    else
      end(at, PullEnd::lost, now);
  }
  std::erase_if(questions_, [&](const auto& one) { return one.second.peer == life; });
  reading_.erase_if([&](const Reading& one) { return one.peer == life; });
}

void PagePuller::tick(std::int64_t now) {
  for (auto& [life, peer] : peers_)
    if (peer.read_until <= now) peer.read_until = 0;
  std::vector<std::uint64_t> late;
  for (auto& [id, pull] : pulls_) {
    const bool finds = !pull.finds.empty() && now - pull.heard > find_patience;
    const bool pulls =
        pull.is_fetching && (now - pull.heard > page_patience || now - pull.began > pull_patience);
    if (finds || pulls) late.push_back(id);
  }
  for (const std::uint64_t id : late) {
    const auto at = pulls_.find(id);
    for (const auto& [question, life] : at->second.finds) leave_alone(life, now);
    if (!at->second.is_fetching && at->second.found > 0)
      found_all(id, at->second);
    else
      end(at, PullEnd::late, now);
  }
}

}  // namespace sluice
