#include "runtime/shm/shared_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/shm/store.h"

namespace sluice::shm {

Result<std::shared_ptr<SharedMemory::Store>> SharedMemory::Store::make(std::size_t slabs) {
  auto store = std::make_shared<Store>(slabs);
  for (std::size_t i = 0; i < slabs; ++i) {
    Result<std::unique_ptr<Slab>> slab = Slab::make();
    if (!slab) return slab.error();
    store->slabs.push_back(std::move(*slab));
    store->pool.grow();
  }
  return store;
}

std::optional<wire::Handle> SharedMemory::Store::place(std::size_t size) {
  const std::optional<wire::Handle> handle = pool.acquire(size, slabs.size());
  if (!handle) return std::nullopt;
  if (!slabs[handle->slab]->fill(handle->block, size)) {
    pool.let_go(*handle);
    return std::nullopt;
  }
  slabs[handle->slab]->mark(handle->block, handle->generation);
  return handle;
}

/// A block that is written here.
class SharedMemory::Owned final : public Buffer {
 public:
  Owned(std::shared_ptr<Store> store, const wire::Handle& handle, std::size_t size)
      : Buffer(store->at(handle), size, store.get()), store_(std::move(store)), handle_(handle) {}
  const wire::Handle& handle() const { return handle_; }

 private:
  void end() override {
    {
      const std::lock_guard lock(store_->mutex);
      store_->pool.let_go(handle_);
      store_->settle(handle_);
    }
    delete this;
  }

  const std::shared_ptr<Store> store_;
  const wire::Handle handle_;
};

Result<std::unique_ptr<SharedMemory>> SharedMemory::make(SharedMemoryOptions options) {
  Result<OwnedFile> listener = listen_at(options.socket);
  if (!listener) return listener.error();
  const std::size_t slabs =
      std::clamp<std::size_t>(options.bytes_max / BlockPool::slab_bytes, 1, Attachment::slabs_max);
  Result<std::shared_ptr<Store>> store = Store::make(slabs);
  if (!store) return store.error();
  auto made =
      std::make_unique<SharedMemory>(std::move(options), std::move(*listener), std::move(*store));
  made->thread_ = std::thread([memory = made.get()] { memory->run(); });
  return made;
}

SharedMemory::SharedMemory(SharedMemoryOptions options, OwnedFile listener,
                           std::shared_ptr<Store> store)
    : options_(std::move(options)), listener_(std::move(listener)), store_(std::move(store)) {}

SharedMemory::~SharedMemory() {
  stops_.store(true);
  bell_->ring();
  if (thread_.joinable()) thread_.join();
  ::unlink(options_.socket.c_str());
}

// ---- who is there

void SharedMemory::meet(Origin life) {
  {
    const std::lock_guard lock(store_->mutex);
    wanted_[life.machine] = life;
    for (auto& [number, reader] : readers_)
      if (reader.life == life && std::exchange(reader.is_suspected, false))
        store_->pool.suspect(number, false);
  }
  bell_->ring();
}

void SharedMemory::suspect(Origin life) {
  const std::lock_guard lock(store_->mutex);
  if (const auto found = wanted_.find(life.machine);
      found != wanted_.end() && found->second.incarnation <= life.incarnation)
    wanted_.erase(found);
  // While its process lives, what it has sent may still be read.
  if (const auto found = attached_.find(life.machine);
      found != attached_.end() && found->second->is_over() && !wanted_.contains(life.machine))
    attached_.erase(found);
  for (auto& [number, reader] : readers_)
    if (reader.life.machine == life.machine && reader.life.incarnation != 0 &&
        reader.life.incarnation <= life.incarnation) {
      reader.is_suspected = true;
      store_->pool.suspect(number, true);
    }
}

// ---- lending

SharedMemory::Reader* SharedMemory::reader_of(Origin life, shm::Reader& number) {
  for (auto& [known, reader] : readers_)
    if (reader.life == life && !reader.is_refused) {
      number = known;
      return &reader;
    }
  return nullptr;
}

std::optional<wire::Handle> SharedMemory::in_message(std::uint32_t to, std::size_t size,
                                                     const std::string& why, bool warns) {
  Peer& peer = peers_[to];
  ++peer.counts.in_message;
  peer.counts.in_message_bytes += size;
  peer.counts.why = why;
  if (warns && peer.warned.insert(why).second)
    note("values for machine " + std::to_string(to) +
         " travel in messages, where they are copied: " + why);
  return std::nullopt;
}

std::optional<wire::Handle> SharedMemory::lent(std::uint32_t to, const wire::Handle& handle,
                                               shm::Reader reader, std::size_t size,
                                               bool was_copied) {
  store_->pool.lend(handle, reader);
  LentCounts& counts = peers_[to].counts;
  ++counts.in_place;
  counts.in_place_bytes += size;
  counts.copied += was_copied ? 1 : 0;
  return handle;
}

Ref<Buffer> SharedMemory::make(std::size_t size) {
  if (size < options_.value_bytes_min || size > BlockPool::slab_bytes) return {};
  const std::lock_guard lock(store_->mutex);
  hear_backs();
  const std::optional<wire::Handle> handle = store_->place(size);
  return handle ? Ref<Buffer>(new Owned(store_, *handle, size)) : Ref<Buffer>();
}

std::optional<wire::Handle> SharedMemory::lend(Origin to, const Ref<Buffer>& bytes) {
  const std::size_t size = bytes->size();
  if (size < options_.value_bytes_min) return std::nullopt;
  std::unique_lock lock(store_->mutex);
  const auto no = [&](const std::string& why, bool warns = false) {
    return in_message(to.machine, size, why, warns);
  };
  if (!options_.peers.contains(to.machine)) return no("it is reached over a network");
  shm::Reader number = 0;
  Reader* const reader = reader_of(to, number);
  if (reader == nullptr) return no("it has not asked for this machine's memory");
  if (reader->mapped < store_->slabs.size()) return no("it has not mapped this machine's memory");
  if (hear(number, *reader) != Heard::stays) return no("it is gone");
  if (reader->is_refused) return no("it has said what is wrong");
  if (reader->is_suspected) return no("it is not heard");
  if (size > BlockPool::slab_bytes) return no("they are larger than a slab");
  if (store_->pool.held_by(number) + size > options_.reader_bytes_max)
    return no("it holds " + std::to_string(options_.reader_bytes_max >> 20U) +
                  " MiB that it has not given back",
              true);
  if (bytes->keeper() == store_.get()) {
    const wire::Handle handle = static_cast<const Owned*>(bytes.get())->handle();
    bytes->show();
    return lent(to.machine, handle, number, size, false);
  }
  const std::optional<wire::Handle> handle = store_->place(size);
  if (!handle)
    return no("the " + std::to_string(options_.bytes_max >> 20U) +
                  " MiB of shared memory have no free block of their size",
              true);
  const Ref<Buffer> copy(new Owned(store_, *handle, size));
  lock.unlock();
  std::memcpy(copy->data(), bytes->data(), size);
  lock.lock();
  // The block is held by `copy` until it is lent; the reader may have gone meanwhile.
  std::optional<wire::Handle> given;
  if (readers_.contains(number))
    given = lent(to.machine, *handle, number, size, true);
  else
    static_cast<void>(no("it is gone"));
  lock.unlock();  // before the copy goes
  return given;
}

void SharedMemory::take_back(Origin to, const wire::Handle& handle) {
  const std::lock_guard lock(store_->mutex);
  shm::Reader number = 0;
  if (reader_of(to, number) != nullptr) static_cast<void>(store_->pool.give_back(handle, number));
  store_->settle(handle);
}

Result<Ref<Buffer>> SharedMemory::borrow(Origin from, const wire::Handle& handle,
                                         std::size_t size) {
  std::shared_ptr<Attachment> owner;
  {
    const std::lock_guard lock(store_->mutex);
    const auto found = attached_.find(from.machine);
    if (found != attached_.end() && found->second->owner() == from) owner = found->second;
  }
  if (!owner)
    return Error{ErrorCode::corrupt, "a handle of a life whose memory is not mapped here"};
  return owner->borrow(handle, size);
}

LentCounts SharedMemory::counts(std::uint32_t machine) {
  const std::lock_guard lock(store_->mutex);
  hear_backs();
  LentCounts counts;
  if (const auto found = peers_.find(machine); found != peers_.end()) counts = found->second.counts;
  for (const auto& [number, reader] : readers_)
    if (reader.life.machine == machine) counts.held_bytes += store_->pool.held_by(number);
  return counts;
}

BlockPool::Totals SharedMemory::totals() {
  const std::lock_guard lock(store_->mutex);
  hear_backs();
  return store_->pool.totals();
}

std::vector<std::string> SharedMemory::take_notices() {
  if (!noticed_.exchange(false)) return {};  // asked at each turn of the transport
  const std::lock_guard lock(store_->mutex);
  return std::exchange(notices_, {});
}

}  // namespace sluice::shm
