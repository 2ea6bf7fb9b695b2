#include "engine/storage/host_tier.h"

#include <poll.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "engine/storage/incoming_room.h"
#include "engine/storage/storage_clock.h"

namespace sluice {

using Way = PageCopies::Way;

namespace {

/// Whoever waits for copies looks so long without a break, for few pages take no longer, and from
/// then on after a break of so long each. Nanoseconds.
constexpr std::int64_t looking_most = 50'000;
constexpr std::int64_t look_every = 50'000;

}  // namespace

HostTier::HostTier(KvPages& pages, PageCopies& copies, KvPool& host, PageSource* below,
                   bool others_read)
    : pages_(pages),
      copies_(copies),
      host_(host),
      below_(below),
      others_read_(others_read),
      is_lowered_(pages.pages()) {
  SLUICE_CHECK(pages.shape().page_bytes() == host.shape().page_bytes() &&
               pages.shape().page_tokens == host.shape().page_tokens);
  if (const Result<void> pinned = copies_.pin(host_.memory()); !pinned.ok())
    unpinned_ = pinned.error().message;
  pages_.watch(this);
}

HostTier::~HostTier() {
  try {
    drain();
  } catch (const std::exception&) {  // no memory: what waits is lost
    (void)copies_.wait(Way::down);
  }
  if (!rises_.empty()) (void)copies_.wait(Way::up);
  pages_.watch(nullptr);
}

void HostTier::give_up(const Error& error) {
  if (off_.empty()) off_ = error.message;
  // What is under way may go on for all that is known: nobody else is to have these pages then.
  (void)copies_.wait(Way::up);
  (void)copies_.wait(Way::down);
  rises_.clear();
  lowerings_.clear();
  is_lowered_.assign(is_lowered_.size(), false);
  backlog_.clear();
  waiting_.clear();
}

/// What a machine has said to follow another page there is to be copied all the same.
bool HostTier::host_has(Page page) const {
  const PageTable& host = host_.table();
  const Page there = host.find(pages_.table().key(page));
  if (there == no_page) return false;
  const Page before = pages_.table().parent(page), before_there = host.parent(there);
  if (before == no_page || before_there == no_page) return before == before_there;
  return pages_.table().key(before) == host.key(before_there);
}

void HostTier::published(Page page) {
  const PageKey& key = pages_.table().key(page);
  if (!off_.empty() || host_has(page) || !waiting_.insert(key).second) return;
  backlog_.push_back(key);
  // Of more than there are, some are there no more: likely the oldest.
  if (backlog_.size() <= pages_.pages()) return;
  waiting_.erase(backlog_.front());
  backlog_.pop_front();
  ++counts_.missed;
}

/// It is about to be written anew.
void HostTier::dropped(Page page) {
  if (!is_lowered_[page]) return;
  if (const Result<void> done = copies_.wait(Way::down); !done.ok()) failed_ = done.error();
}

bool HostTier::begin(std::uint64_t task, const RowsOrigin& origin,
                     std::span<const std::int32_t> tokens, std::optional<double> per_token,
                     std::int64_t now) {
  if (!off_.empty()) return false;
  Fetch fetch{.task = task, .keys = pages_.keys_of(origin, tokens), .per_token = per_token};
  fetch.tenant = origin.tenant;
  fetch.begin = fetch.next = pages_.table().match(fetch.keys);
  Sequence asked = host_.open(fetch.keys);
  host_.give_back(asked, true);
  if (fetch.next == fetch.keys.size()) return false;
  // What is below goes on behind the host's pages: where those end sooner than the device's, it
  // brings what the device has, too. Not where that would be most of it.
  const std::size_t again =
      fetch.next - std::min<std::size_t>(host_.table().match(fetch.keys), fetch.next);
  fetch.is_below = below_ != nullptr && fetch.keys.size() - fetch.next > again &&
                   below_->begin(task, origin, tokens, per_token, now);
  if (!fetch.is_below && (!look(fetch) || !pays(fetch))) return false;
  fetch.there = pages_.open(std::span<const PageKey>(fetch.keys).first(fetch.next));
  if (!keeps_promises(pages_, fetch.tenant)) {  // else the task finds them itself
    if (fetch.is_below) below_->forget(task);
    return false;
  }
  fetches_.push_back(std::move(fetch));
  return true;
}

void HostTier::forget(std::uint64_t task) {
  if (below_ != nullptr) below_->forget(task);
  std::erase_if(fetches_, [&](const Fetch& fetch) { return fetch.task == task; });
}

/// Whether the host has something that it lacks, and may have.
bool HostTier::look(Fetch& fetch) const {
  const std::size_t had = host_.table().match(fetch.keys);
  fetch.end = std::max(fetch.next, std::min(had, pages_.pages()));
  if (fetch.end > fetch.next)
    fetch.end = std::min(fetch.end, fetch.next + tenant_room_behind(pages_, fetch.keys, fetch.next,
                                                                    fetch.tenant, fetches_));
  return fetch.end > fetch.next;
}

/// Whether copying that is quicker than computing it.
bool HostTier::pays(Fetch& fetch) {
  const std::size_t more = fetch.end - fetch.next;
  std::optional<std::int64_t> compute;
  if (fetch.per_token.has_value())
    compute = static_cast<std::int64_t>(*fetch.per_token *
                                        static_cast<double>(more * pages_.shape().page_tokens));
  if (guard_.pays(more * pages_.shape().page_bytes(), compute)) return true;
  ++counts_.not_worth;
  fetch.end = fetch.next;
  fetch.is_over = true;
  return false;
}

/// All chains have it at the same place.
bool HostTier::is_rising(const PageKey& key, std::size_t at) const {
  return std::ranges::any_of(rises_, [&](const Rise& rise) {
    return rise.first <= at && at < rise.keys.size() && rise.keys[at] == key;
  });
}

/// False: it waits for nothing more.
bool HostTier::advance(Fetch& fetch, bool may_rise, std::int64_t now) {
  while (fetch.next < fetch.keys.size() && incoming_room(pages_, fetch.tenant) > 0 &&
         pages_.follow(fetch.there, fetch.keys[fetch.next]))
    ++fetch.next;
  if (!off_.empty()) return false;
  if (fetch.is_below || fetch.is_rising) return true;
  if (fetch.is_over || !look(fetch)) return false;
  if (!may_rise || is_rising(fetch.keys[fetch.next], fetch.next)) return true;
  return rise(fetch, now);
}

/// Begins to copy up as much as there is room for. False: there is none.
bool HostTier::rise(Fetch& fetch, std::int64_t now) {
  const std::span<const PageKey> keys = fetch.keys;
  const std::size_t count = std::min(fetch.end - fetch.next, incoming_room(pages_, fetch.tenant));
  if (count == 0) return false;
  const std::span<const PageKey> all = keys.first(fetch.next + count);
  Rise made{{all.begin(), all.end()}, fetch.next, host_.open(all), {}, now};
  made.to = pages_.open(keys.first(fetch.next), fetch.tenant);
  if (made.from.published() < all.size() || made.to.published() < fetch.next) return false;
  if (!pages_.add_pages(made.to, count).ok()) return false;
  std::vector<PageCopies::One> copies;
  for (std::size_t at = fetch.next; at < all.size(); ++at)
    copies.push_back({made.to.pages()[at], host_.place(made.from.pages()[at])});
  rises_.reserve(rises_.size() + 1);  // nothing fails between their beginning and this
  const Result<void> begun = copies_.begin(Way::up, copies);
  rises_.push_back(std::move(made));
  fetch.is_rising = fetch.is_over = true;
  if (begun.ok()) return true;
  give_up(begun.error());
  return false;
}

/// Whether what rises is there; looks for it until then, once at least.
Result<bool> HostTier::has_risen(std::int64_t until) {
  const std::int64_t looks_until = storage_clock() + looking_most;
  for (;;) {
    const Result<bool> done = copies_.is_done(Way::up);
    const std::int64_t now = storage_clock();
    if (!done.ok() || *done || now >= until) return done;
    if (now < looks_until) {
      std::this_thread::yield();
      continue;
    }
    const timespec pause{0, std::min(look_every, until - now)};
    (void)::ppoll(nullptr, 0, &pause, nullptr);
  }
}

/// `until`: it is waited for, so long.
void HostTier::take_risen(std::int64_t now, std::optional<std::int64_t> until) {
  if (rises_.empty()) return;
  const Result<bool> done = has_risen(until.value_or(0));
  if (!done.ok()) return give_up(done.error());
  if (!*done) return;
  if (until.has_value()) now = storage_clock();
  for (Rise& rise : rises_) {
    const std::uint64_t bytes = (rise.keys.size() - rise.first) * pages_.shape().page_bytes();
    // Where forwards ran meanwhile it took at most so long, which is news if more was thought.
    const std::int64_t took = now - rise.began;
    if (!rise.is_beside || took < guard_.cost(bytes).value_or(0)) guard_.learn(bytes, took);
    for (std::size_t at = rise.first; at < rise.keys.size(); ++at) {
      if (!pages_.publish_next(rise.to, rise.keys[at])) break;
      ++counts_.raised;
    }
    pages_.give_back(rise.to, false);
  }
  rises_.clear();
  for (Fetch& fetch : fetches_) fetch.is_rising = false;
}

void HostTier::hear_below(std::int64_t now, std::chrono::nanoseconds most) {
  if (below_ == nullptr) return;
  below_->poll(now, below_ready_, most);
  for (const Ready& one : std::exchange(below_ready_, {})) {
    const auto it = std::ranges::find(fetches_, one.task, &Fetch::task);
    if (it == fetches_.end()) continue;
    it->is_below = false;
    if (look(*it)) (void)pays(*it);  // it rises when there is room
  }
}

void HostTier::poll(std::int64_t now, std::vector<Ready>& ready, std::chrono::nanoseconds most) {
  if (failed_.has_value()) give_up(*std::exchange(failed_, {}));
  std::optional<std::int64_t> until;  // it is waited for what comes
  if (most.count() > 0) until = storage_clock() + most.count();
  for (Rise& rise : rises_) rise.is_beside = rise.is_beside || !until.has_value();
  lower();  // before what rises takes pages that wait for this
  take_risen(now, until);
  const std::size_t before = ready.size();
  const bool may_rise = rises_.empty();  // those under way end together
  const auto advance_all = [&](bool may) {
    std::erase_if(fetches_, [&](Fetch& fetch) {
      if (advance(fetch, may, now)) return false;
      if (fetch.is_below) below_->forget(fetch.task);
      ready.push_back({fetch.task, (fetch.next - fetch.begin) * pages_.shape().page_tokens});
      return true;
    });
  };
  advance_all(may_rise);
  if (until.has_value() && !rises_.empty()) {  // nobody has anything else to do
    take_risen(now, until);
    advance_all(false);
  }
  for (Rise& rise : rises_) rise.is_beside = rise.is_beside || !until.has_value();
  std::chrono::nanoseconds rest{};
  if (until.has_value() && ready.size() == before)  // a wait is told from a glance, however short
    rest = std::chrono::nanoseconds(std::max<std::int64_t>(1, *until - storage_clock()));
  hear_below(now, rest);
}

std::size_t HostTier::pages_awaited() const {
  std::size_t pages = below_ != nullptr ? below_->pages_awaited() : 0;
  for (const Fetch& fetch : fetches_)  // those that rise have their places
    if (!fetch.is_rising) pages += fetch.end - std::min(fetch.next, fetch.end);
  return pages;
}

/// How many of the first that wait follow each other, and are still found, from their root on.
std::size_t HostTier::next_run(std::size_t most) const {
  const PageTable& table = pages_.table();
  const std::vector<PageKey> path = table.path(backlog_.front());
  if (table.match(path) < path.size()) return 0;
  std::size_t run = 0;
  Page before = no_page;
  for (; run < std::min(most, backlog_.size()); ++run) {
    const Page page = table.find(backlog_[run]);
    if (page == no_page || (run > 0 && table.parent(page) != before)) break;
    before = page;
  }
  return run;
}

void HostTier::forget_waiting(std::size_t count) {
  for (; count > 0; --count, backlog_.pop_front()) waiting_.erase(backlog_.front());
}

/// One chain's pages, from the first that the host lacks: it may have given some up. Of a chain
/// that is longer than the host those that it has room for. False: there is no room for them now.
bool HostTier::lower_next(std::vector<Lowering>& begun, std::vector<PageCopies::One>& copies) {
  const PageTable& table = pages_.table();
  const std::size_t most = std::max<std::size_t>(1, window / pages_.shape().page_bytes());
  const std::size_t run = next_run(most - copies.size());
  if (run == 0) {
    ++counts_.missed;
    forget_waiting(1);
    return true;
  }
  Page page = table.find(backlog_[run - 1]);
  Lowering made;
  made.keys = table.path(table.key(page));
  const std::size_t too_many = made.keys.size() - std::min(made.keys.size(), host_.pages());
  for (std::size_t i = 0; i < too_many; ++i) page = table.parent(page);
  made.keys.erase(made.keys.end() - static_cast<std::ptrdiff_t>(too_many), made.keys.end());
  made.first = host_.table().match(made.keys);
  const std::size_t count = made.keys.size() - made.first;
  if (count == 0) {
    counts_.missed += std::min(run, too_many);
    forget_waiting(run);
    return true;
  }
  made.to = host_.open(std::span<const PageKey>(made.keys).first(made.first));
  if (!host_.add_pages(made.to, count).ok()) return false;
  made.from.resize(count);
  for (std::size_t at = count; at-- > 0; page = table.parent(page)) {
    made.from[at] = page;
    copies.push_back({page, host_.place(made.to.pages()[made.first + at])});
  }
  counts_.missed += std::min(run, too_many);
  forget_waiting(run);
  begun.push_back(std::move(made));
  return true;
}

void HostTier::lower() {
  take_lowered(false);
  if (!lowerings_.empty() || backlog_.empty()) return;
  const std::size_t most = std::max<std::size_t>(1, window / pages_.shape().page_bytes());
  std::vector<PageCopies::One> copies;
  std::vector<Lowering> begun;
  while (!backlog_.empty() && copies.size() < most)
    if (!lower_next(begun, copies)) break;
  if (copies.empty()) return;
  const Result<void> done = copies_.begin(Way::down, copies);
  lowerings_ = std::move(begun);
  for (const PageCopies::One& one : copies) is_lowered_[one.page] = true;
  if (!done.ok()) give_up(done.error());
}

void HostTier::take_lowered(bool waits) {
  if (lowerings_.empty()) return;
  Result<bool> done = true;
  if (!waits) done = copies_.is_done(Way::down);
  if (waits)
    if (const Result<void> waited = copies_.wait(Way::down); !waited.ok()) done = waited.error();
  if (!done.ok()) return give_up(done.error());
  if (!*done) return;
  for (Lowering& one : lowerings_) {
    for (std::size_t at = one.first; at < one.keys.size(); ++at) {
      if (!host_.publish_next(one.to, one.keys[at])) break;
      ++counts_.lowered;
      if (host_.on_publish) host_.on_publish(one.to.pages()[at]);
    }
    for (const Page page : one.from) is_lowered_[page] = false;
    host_.give_back(one.to, false);
  }
  lowerings_.clear();
}

void HostTier::rest() {
  if (others_read_)
    drain();
  else if (!failed_.has_value() && off_.empty())
    lower();
  if (below_ != nullptr) below_->rest();
}

void HostTier::drain() {
  if (failed_.has_value()) give_up(*std::exchange(failed_, {}));
  while (off_.empty() && (!lowerings_.empty() || !backlog_.empty())) {
    const std::size_t before = backlog_.size();
    take_lowered(true);
    lower();
    if (lowerings_.empty() && backlog_.size() == before) return;  // the host has no room
  }
}

}  // namespace sluice
