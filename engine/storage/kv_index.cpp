#include "engine/storage/kv_index.h"

#include "engine/storage/storage_clock.h"

namespace sluice {

namespace {

PageIndex::Settings settings_of(const IndexPort& port, std::uint64_t channel, PeerLife self) {
  PageIndex::Settings settings;
  settings.base = "sluice:" + port.cluster() + ":pages:" + std::to_string(channel);
  settings.self = self;
  settings.lease = port.lease();
  settings.epoch = std::to_string(self.machine) + "." + std::to_string(self.incarnation);
  // Microseconds of this process's clock: each call takes more than one, so no number of a pool
  // that was here before comes up to it.
  settings.start = static_cast<std::uint64_t>(storage_clock()) / 1000;
  return settings;
}

PageIndex::Instant clock_now() { return PageIndex::Instant{storage_clock()}; }

}  // namespace

KvIndex::KvIndex(KvPool& pool, PageWatcher& next, IndexPort& port, std::uint64_t channel,
                 PeerLife self, std::function<void()> answered)
    : pool_(pool),
      next_(next),
      port_(port),
      answered_(std::move(answered)),
      index_(settings_of(port, channel, self)) {
  pool_.watch(this);
  port_.open(*this);
}

KvIndex::~KvIndex() {
  port_.close(*this);
  pool_.watch(&next_);
}

void KvIndex::published(Page page) {
  next_.published(page);
  bool is_earlier = false;
  {
    const std::lock_guard lock(mutex_);
    const Instant due = index_.due();
    index_.published(pool_.table().key(page), clock_now());
    is_earlier = index_.due() < due;
  }
  if (is_earlier) port_.wake();
}

void KvIndex::dropped(Page page) {
  next_.dropped(page);
  bool is_earlier = false;
  {
    const std::lock_guard lock(mutex_);
    const Instant due = index_.due();
    index_.dropped(pool_.table().key(page), clock_now());
    is_earlier = index_.due() < due;
  }
  if (is_earlier) port_.wake();
}

bool KvIndex::find(std::uint64_t id, std::span<const PageKey> keys, std::int64_t now) {
  {
    const std::lock_guard lock(mutex_);
    if (!index_.find(id, keys, Instant{now})) return false;
  }
  port_.wake();
  return true;
}

void KvIndex::forget(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  index_.forget(id);
}

std::vector<PageIndex::Found> KvIndex::take_found(std::int64_t now) {
  const std::lock_guard lock(mutex_);
  return index_.take_found(Instant{now});
}

void KvIndex::add_stale() {
  const std::lock_guard lock(mutex_);
  ++stale_;
}

KvIndexCounts KvIndex::counts() const {
  const std::lock_guard lock(mutex_);
  return {index_.counts(), stale_, index_.down()};
}

bool KvIndex::is_told() const {
  const std::lock_guard lock(mutex_);
  return index_.is_told();
}

std::optional<IndexQuestion> KvIndex::ask(Instant now) {
  const std::lock_guard lock(mutex_);
  return index_.ask(now);
}

KvIndex::Instant KvIndex::due() const {
  const std::lock_guard lock(mutex_);
  return index_.due();
}

void KvIndex::answered(std::uint64_t number, const std::vector<std::string>& words, Instant now) {
  {
    const std::lock_guard lock(mutex_);
    index_.answered(number, words, now);
  }
  answered_();
}

void KvIndex::refused(std::uint64_t number, const std::string& why, Instant now) {
  {
    const std::lock_guard lock(mutex_);
    index_.refused(number, why, now);
  }
  answered_();
}

void KvIndex::broke(const std::string& why, Instant now) {
  {
    const std::lock_guard lock(mutex_);
    index_.broke(why, now);
  }
  answered_();
}

std::vector<std::string> KvIndex::farewell() const {
  const std::lock_guard lock(mutex_);
  return index_.farewell();
}

}  // namespace sluice
