#include "engine/storage/kv_tier.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/storage/incoming_room.h"
#include "engine/storage/storage_clock.h"

namespace sluice {
namespace {

/// Of flushing: without anything having ended.
constexpr std::chrono::seconds hangs_after{10};

}  // namespace

PageStoreOptions KvTier::options_for(const KvShape& shape, std::string folder,
                                     std::uint64_t bytes_most) {
  PageStoreOptions options;
  options.folder = std::move(folder);
  options.bytes_most = bytes_most;
  options.page_bytes = static_cast<std::uint32_t>(shape.page_bytes());
  options.layout = std::to_string(shape.layers) + " layers, " + std::to_string(shape.page_tokens) +
                   " tokens, rows of " + std::to_string(shape.row) + " " +
                   std::string(to_string(shape.dtype));
  return options;
}

KvTier::KvTier(KvPool& pool, std::unique_ptr<PageStore> store)
    : pool_(pool), store_(std::move(store)) {
  SLUICE_CHECK(pool.shape().page_bytes() == store_->page_bytes());
  pool_.on_publish = [this](Page page) { published(page); };
  store_->on_read = [this](const PageKey& key, const std::byte* content) {
    const auto it = readings_.find(key);
    SLUICE_CHECK(it != readings_.end());
    if (content != nullptr)
      it->second.content = content;
    else
      readings_.erase(it);
  };
}

KvTier::~KvTier() {
  flush();
  pool_.on_publish = nullptr;
}

/// It, or what it follows, was refused, and nothing has changed since.
bool KvTier::has_no_room(Page page) {
  const std::uint64_t changes = store_->index().room_changes();
  if (std::exchange(room_changes_, changes) != changes || refused_.size() > pool_.pages())
    refused_.clear();
  if (refused_.empty()) return false;
  const PageTable& table = pool_.table();
  const Page before = table.parent(page);
  if (before != no_page && refused_.contains(table.key(before))) refused_.insert(table.key(page));
  return refused_.contains(table.key(page));
}

/// With those before it that the store has not: it may have dropped them since they were written.
void KvTier::published(Page page) {
  if (has_no_room(page)) return;
  const PageTable& table = pool_.table();
  const Page first = page;
  std::vector<PageKey> chain;
  for (; page != no_page; page = table.parent(page)) {
    const PageKey& key = table.key(page);
    if (store_->index().knows(key)) break;
    // The first may have taken the place of one that waits, before what it follows does.
    if (!waiting_.insert(key).second && page != first) break;
    chain.push_back(key);
  }
  backlog_.insert(backlog_.end(), chain.rbegin(), chain.rend());
  // Of more than there are, some are in memory no more: likely the oldest.
  while (backlog_.size() > pool_.pages()) {
    waiting_.erase(backlog_.front());
    backlog_.pop_front();
  }
}

/// While there are buffers.
void KvTier::write_behind(std::int64_t now) {
  const PageTable& table = pool_.table();
  const SegmentIndex& index = store_->index();
  while (!backlog_.empty() && store_->can_write()) {
    const PageKey key = backlog_.front();
    backlog_.pop_front();
    waiting_.erase(key);
    const Page page = table.find(key);
    if (page == no_page || has_no_room(page)) continue;
    const Page before = table.parent(page);
    const PageKey parent = before == no_page ? PageKey{} : table.key(before);
    if (store_->wants(key, parent, now))
      store_->write(key, parent, pool_.content(page), now);
    else if (store_->health().works() && !index.knows(key) &&
             (before == no_page || index.knows(parent)))
      refused_.insert(key);
  }
}

bool KvTier::begin(std::uint64_t task, const RowsOrigin& origin,
                   std::span<const std::int32_t> tokens, std::optional<double> per_token,
                   std::int64_t now) {
  if (store_->hangs()) return false;
  Fetch fetch{.task = task, .keys = pool_.keys_of(origin, tokens), .began = now};
  fetch.tenant = origin.tenant;
  fetch.begin = fetch.next = fetch.asked = pool_.table().match(fetch.keys);
  fetch.end = fetch.begin + store_->match(fetch.keys, fetch.begin);
  fetch.end = std::min(fetch.end, pool_.pages());
  if (fetch.end > fetch.begin)
    fetch.end = std::min(fetch.end, fetch.begin + tenant_room_behind(pool_, fetch.keys, fetch.begin,
                                                                     fetch.tenant, fetches_));
  if (fetch.end <= fetch.begin) return false;
  const std::size_t pages = fetch.end - fetch.begin;
  std::optional<std::int64_t> compute;
  if (per_token.has_value())
    compute = static_cast<std::int64_t>(*per_token *
                                        static_cast<double>(pages * pool_.shape().page_tokens));
  if (!guard_.pays(pages * store_->page_bytes(), compute)) {
    ++not_worth_;
    return false;
  }
  if (!store_->reads()) fetch.end = fetch.begin + 1;  // to see whether the disk works again
  fetch.there = pool_.open(std::span<const PageKey>(fetch.keys).first(fetch.begin), origin.tenant);
  if (!keeps_promises(pool_, fetch.tenant)) return false;  // else the task finds them itself
  fetches_.push_back(std::move(fetch));
  if (ask(fetches_.back(), now) || fetches_.back().end > fetches_.back().begin) return true;
  fetches_.pop_back();
  return false;
}

void KvTier::forget(std::uint64_t task) {
  std::erase_if(fetches_, [&](const Fetch& fetch) { return fetch.task == task; });
  drop_unwanted();
}

/// Begins its next reads. False: a page is not there any more, and those behind it are of no use.
bool KvTier::ask(Fetch& fetch, std::int64_t now) {
  for (; fetch.asked < fetch.end; ++fetch.asked) {
    const PageKey& key = fetch.keys[fetch.asked];
    if (store_->is_reading(key)) continue;  // for another task, or read
    if (!store_->can_read()) return true;
    if (!store_->read(key, now)) {
      fetch.end = fetch.asked;
      return false;
    }
    readings_[key] = {fetch.asked, nullptr};
  }
  return true;
}

/// Publishes what is there in the order of the chain. False: it has come to its end.
bool KvTier::advance(Fetch& fetch) {
  const std::span<const PageKey> keys = fetch.keys;
  std::vector<const std::byte*> contents;
  for (;;) {
    // What others have put there meanwhile.
    while (fetch.next < fetch.end && incoming_room(pool_, fetch.tenant) > 0 &&
           pool_.follow(fetch.there, keys[fetch.next]))
      ++fetch.next;
    const std::size_t room = incoming_room(pool_, fetch.tenant);
    if (room == 0) fetch.end = fetch.next;  // the rest is computed, once that may have pages
    contents.clear();
    for (std::size_t at = fetch.next; at < fetch.end && contents.size() < room; ++at) {
      const auto it = readings_.find(keys[at]);
      if (it == readings_.end() || it->second.content == nullptr) break;
      contents.push_back(it->second.content);
    }
    if (contents.empty()) break;
    const std::size_t put = pool_.put(fetch.there, keys.subspan(fetch.next), contents);
    fetch.next += put;
    if (put < contents.size()) fetch.end = fetch.next;
    drop_unwanted();
  }
  fetch.asked = std::max(fetch.asked, fetch.next);
  // Asked for, not read and not under way: it was no whole page.
  if (fetch.next < fetch.asked && !store_->is_reading(keys[fetch.next])) fetch.end = fetch.next;
  return fetch.next < fetch.end;
}

bool KvTier::is_wanted(const PageKey& key, std::size_t at) const {
  return std::ranges::any_of(fetches_, [&](const Fetch& fetch) {
    return fetch.next <= at && at < fetch.end && fetch.keys[at] == key;
  });
}

/// Buffers of pages that nobody waits for, or that have been published for all.
void KvTier::drop_unwanted() {
  std::erase_if(readings_, [&](const auto& one) {
    const auto& [key, reading] = one;
    if (reading.content == nullptr || is_wanted(key, reading.at)) return false;
    store_->release(key);
    return true;
  });
}

/// Its time is the disk's where nothing but waiting was done since it began. Where forwards ran
/// meanwhile it took at most so long, which is news if more was thought.
void KvTier::end(const Fetch& fetch, bool waited, std::int64_t now, std::vector<Ready>& ready) {
  const std::size_t pages = fetch.next - fetch.begin;
  const std::uint64_t bytes = pages * store_->page_bytes();
  const std::int64_t took = now - fetch.began;
  const bool is_disks = waited && fetch.glances <= 1;
  if (pages > 0 && (is_disks || took < guard_.cost(bytes).value_or(0))) guard_.learn(bytes, took);
  const std::size_t tokens = pages * pool_.shape().page_tokens;
  ready.push_back({fetch.task, tokens, tokens});
}

void KvTier::poll(std::int64_t now, std::vector<Ready>& ready, std::chrono::nanoseconds most) {
  store_->poll(now, fetches_.empty() ? std::chrono::nanoseconds{} : most);
  const bool waits = most.count() > 0;
  if (waits) now = storage_clock();
  // What has ended by now was taken: whatever else the caller did meanwhile, this one has not.
  if (const auto oldest = store_->oldest_read(); oldest.has_value() && now - *oldest > patience)
    store_->give_up(now,
                    "a read took longer than " + std::to_string(patience / 1'000'000'000) + " s");
  if (const auto since = store_->writes_stand_since();
      since.has_value() && now - *since > write_patience)
    store_->give_up_writes(
        now, "no write has ended for " + std::to_string(write_patience / 1'000'000'000) + " s");
  for (std::size_t at = 0; at < fetches_.size();) {
    Fetch& fetch = fetches_[at];
    if (!waits) ++fetch.glances;
    bool goes_on = advance(fetch);
    if (store_->hangs() || now - fetch.began > patience) goes_on = false;
    if (goes_on) goes_on = ask(fetch, now) || fetch.next < fetch.end;
    if (goes_on) {
      ++at;
      continue;
    }
    end(fetch, waits, now, ready);
    fetches_.erase(fetches_.begin() + static_cast<std::ptrdiff_t>(at));
    drop_unwanted();
  }
  drop_unwanted();
  write_behind(now);
}

std::size_t KvTier::pages_awaited() const {
  std::size_t pages = 0;
  for (const Fetch& fetch : fetches_) pages += fetch.end - std::min(fetch.next, fetch.end);
  return pages;
}

void KvTier::rest() {
  if (backlog_.empty()) return;
  const std::int64_t now = storage_clock();
  if (!store_->can_write()) store_->poll(now);
  write_behind(now);
}

bool KvTier::has_backlog() const { return !backlog_.empty() && store_->health().works(); }

void KvTier::flush() {
  std::vector<Ready> ready;
  const auto drain = [&] {
    auto last = storage_clock();
    while (store_->is_writing() || !backlog_.empty()) {
      // Each by itself: what goes from one to the other leaves their sum as it is.
      const std::size_t waiting = backlog_.size();
      const std::uint64_t written = store_->counts().written;
      store_->poll(storage_clock(), std::chrono::milliseconds(100));
      write_behind(storage_clock());
      if (backlog_.size() != waiting || store_->counts().written != written) last = storage_clock();
      if (storage_clock() - last > std::chrono::nanoseconds(hangs_after).count()) {
        store_->give_up(storage_clock(), "nothing was written for a while");
        return;
      }
    }
  };
  drain();
  if (!store_->health().works()) return;
  store_->sync(storage_clock());
  drain();
}

}  // namespace sluice
