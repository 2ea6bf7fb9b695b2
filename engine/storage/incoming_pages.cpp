#include "engine/storage/incoming_pages.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "engine/storage/incoming_room.h"

namespace sluice {

class IncomingPages::Place final : public Buffer {
 public:
  Place(std::byte* at, std::size_t size, Writers& writers)
      : Buffer(at, size, nullptr), writers_(writers) {}

 private:
  void end() override;
  Writers& writers_;
};

/// All places, until none of them is referred to and nobody asks any more.
struct IncomingPages::Writers {
  mutable std::mutex mutex;
  mutable std::condition_variable gone;
  std::deque<Place> all;
  Ref<Buffer> memory;
  std::size_t places = 0;         // that somebody refers to
  std::shared_ptr<Writers> self;  // as long as somebody does

  void leave() {
    std::shared_ptr<Writers> last;  // goes behind the lock, and this may go with it
    const std::lock_guard lock(mutex);
    if (--places > 0) return;
    gone.notify_all();
    last = std::move(self);
  }
};

void IncomingPages::Place::end() { writers_.leave(); }

std::unique_ptr<IncomingPages> IncomingPages::take(KvPool& pool, std::span<const PageKey> before,
                                                   std::size_t least, std::size_t most,
                                                   std::string_view tenant) {
  Sequence taken = pool.open(before, tenant);
  // Those before are held by now, and not among them.
  const std::size_t pages = std::min(most, incoming_room(pool, tenant));
  if (taken.published() < before.size() || pages < least) return nullptr;
  return std::make_unique<IncomingPages>(pool, std::move(taken), pages);
}

IncomingPages::IncomingPages(KvPool& pool, Sequence taken, std::size_t pages)
    : pool_(pool),
      taken_(std::move(taken)),
      unplaced_(pages),
      writers_(std::make_shared<Writers>()) {}

IncomingPages::~IncomingPages() { pool_.give_back(taken_, is_use_); }

std::vector<Ref<Buffer>> IncomingPages::places(const Ref<Buffer>& memory, std::size_t most) {
  const std::size_t had = taken_.pages().size(), more = std::min(most, unplaced_);
  SLUICE_CHECK(pool_.add_pages(taken_, more).ok());
  unplaced_ -= more;
  std::vector<Ref<Buffer>> places;
  places.reserve(more);
  const std::lock_guard lock(writers_->mutex);
  writers_->places += more;
  writers_->memory = memory;
  if (more > 0) writers_->self = writers_;
  for (const Page page : taken_.pages().subspan(had))
    places.emplace_back(
        &writers_->all.emplace_back(pool_.place(page), pool_.shape().page_bytes(), *writers_));
  return places;
}

bool IncomingPages::publish(const PageKey& key) {
  if (!pool_.publish_next(taken_, key)) return false;
  if (pool_.on_publish) pool_.on_publish(taken_.pages()[taken_.published() - 1]);
  return true;
}

bool IncomingPages::is_written() const {
  const std::lock_guard lock(writers_->mutex);
  return writers_->places > 0;
}

void IncomingPages::wait_for_writers(std::chrono::nanoseconds most) const {
  std::unique_lock lock(writers_->mutex);
  writers_->gone.wait_for(lock, most, [&] { return writers_->places == 0; });
}

}  // namespace sluice
