// The thread of shared memory: hands out slabs, takes blocks back, and asks others for theirs.
#include <poll.h>

#include <chrono>
#include <utility>

#include "runtime/shm/shared_memory.h"
#include "runtime/shm/store.h"

namespace sluice::shm {

namespace {

constexpr int packets_a_turn = 64;
constexpr int retry_ms = 200;

}  // namespace

void SharedMemory::run() {
  while (!stops_.load()) {
    attach();
    watch();
  }
}

/// Asks for the memory of whoever was met, and lets go of that of earlier lives.
void SharedMemory::attach() {
  std::map<std::uint32_t, Origin> wanted;
  {
    const std::lock_guard lock(store_->mutex);
    wanted = wanted_;
    std::erase_if(wanted, [&](const auto& entry) {
      const auto found = attached_.find(entry.first);
      return !options_.peers.contains(entry.first) ||
             (found != attached_.end() && found->second->owner() == entry.second);
    });
  }
  for (const auto& [machine, life] : wanted) {
    // Whoever has a socket there now may be a later life, which will hang up.
    Result<std::shared_ptr<Attachment>> made =
        Attachment::make(options_.self, life, options_.peers.at(machine), bell_);
    const std::lock_guard lock(store_->mutex);
    attached_.erase(machine);
    if (made) attached_[machine] = std::move(*made);
  }
}

/// Waits for whatever comes first, and does it.
void SharedMemory::watch() {
  std::vector<pollfd> polled{{bell_->descriptor(), POLLIN, 0}};
  std::vector<shm::Reader> numbers;
  std::vector<std::shared_ptr<Attachment>> owners;
  bool is_missing = false;
  {
    const std::lock_guard lock(store_->mutex);
    for (auto& [number, reader] : readers_) {
      show_slabs(reader);
      const bool owes =
          !reader.is_refused && reader.life.incarnation != 0 && reader.shown < store_->slabs.size();
      // What a reader of all slabs says is looked at when memory is wanted; its end is always told.
      const bool listens = !reader.is_refused && reader.mapped < store_->slabs.size();
      const auto what = static_cast<short>((listens ? POLLIN : 0) | (owes ? POLLOUT : 0));
      polled.push_back({reader.socket.get(), what, 0});
      numbers.push_back(number);
    }
    for (const auto& [machine, owner] : attached_)
      if (!owner->is_over()) owners.push_back(owner);
    for (const auto& [machine, life] : wanted_)
      is_missing = is_missing || (options_.peers.contains(machine) && !attached_.contains(machine));
  }
  for (const auto& owner : owners)
    polled.push_back(
        {owner->socket().get(), static_cast<short>(POLLIN | (owner->waits() ? POLLOUT : 0)), 0});
  const bool rests = std::exchange(rests_, false);
  const bool takes = numbers.size() < connections_max && !rests;
  if (takes) polled.push_back({listener_.get(), POLLIN, 0});
  const int most = is_missing || rests ? retry_ms : -1;
  if (::poll(polled.data(), polled.size(), most) <= 0) return;
  if (polled[0].revents != 0) bell_->hear();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (polled[1 + i].revents != 0) serve(numbers[i]);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (polled[1 + numbers.size() + i].revents == 0) continue;
    owners[i]->flush();
    std::string why;
    if (owners[i]->hear(why)) continue;
    const Origin owner = owners[i]->owner();
    const std::lock_guard lock(store_->mutex);
    if (!why.empty())
      note("the memory of machine " + std::to_string(owner.machine) + " is not read: " + why);
    if (const auto found = attached_.find(owner.machine);
        found != attached_.end() && found->second == owners[i] && !wanted_.contains(owner.machine))
      attached_.erase(found);
  }
  if (takes && polled.back().revents != 0) rests_ = !accept_readers();
}

bool SharedMemory::accept_readers() {
  std::optional<OwnedFile> socket = accept_from(listener_);
  if (!socket) return false;
  const std::lock_guard lock(store_->mutex);
  readers_[next_reader_++].socket = std::move(*socket);
  return true;
}

/// Slabs that the reader does not know yet.
void SharedMemory::show_slabs(Reader& reader) {
  if (reader.is_refused || reader.life.incarnation == 0) return;
  for (; reader.shown < store_->slabs.size(); ++reader.shown)
    if (send_word(reader.socket, Offer{reader.shown}, store_->slabs[reader.shown]->descriptor()) !=
        Sent::yes)
      return;
}

void SharedMemory::serve(shm::Reader number) {
  const std::lock_guard lock(store_->mutex);
  switch (hear(number, readers_.at(number))) {
    case Heard::ended:
      store_->gone(number);
      [[fallthrough]];
    case Heard::of_another_life:
      readers_.erase(number);
      return;
    case Heard::stays:
      return;
  }
}

SharedMemory::Heard SharedMemory::hear(shm::Reader number, Reader& reader) {
  for (int i = 0; i < packets_a_turn; ++i) {
    const Packet packet = receive_packet(reader.socket);
    if (packet.kind == Packet::Kind::none) break;
    if (packet.kind == Packet::Kind::ended) return Heard::ended;
    if (reader.is_refused) continue;
    const Result<void> taken = packet.kind == Packet::Kind::wrong
                                   ? Result<void>(Error{ErrorCode::corrupt, packet.why})
                                   : take(number, reader, packet.word);
    if (taken.ok()) {
      // Who has given back all has seldom said more, and is heard again before it is lent to.
      if (std::holds_alternative<Back>(packet.word) && store_->pool.held_by(number) == 0) break;
      continue;
    }
    if (taken.error().code == ErrorCode::unavailable) return Heard::of_another_life;
    // What it holds stays until it has gone: it may still read there.
    reader.is_refused = true;
    store_->pool.suspect(number, true);
    static_cast<void>(send_word(reader.socket, Declined{taken.error().message}));
  }
  return Heard::stays;
}

void SharedMemory::hear_backs() {
  for (auto& [number, reader] : readers_)
    if (reader.mapped == store_->slabs.size() && store_->pool.held_by(number) > 0)
      static_cast<void>(hear(number, reader));  // the end of one is the thread's
}

Result<void> SharedMemory::take(shm::Reader number, Reader& reader, const Word& word) {
  const auto wrong = [](std::string what) { return Error{ErrorCode::corrupt, std::move(what)}; };
  if (const Greeting* greeting = std::get_if<Greeting>(&word)) return greet(reader, *greeting);
  if (reader.life.incarnation == 0) return wrong("no greeting");
  if (const Mapped* mapped = std::get_if<Mapped>(&word)) {
    if (mapped->slab != reader.mapped || mapped->slab >= reader.shown)
      return wrong("it says that it mapped slab " + std::to_string(mapped->slab));
    ++reader.mapped;
    return {};
  }
  if (const Back* back = std::get_if<Back>(&word)) {
    for (const wire::Handle& handle : back->handles) {
      if (!store_->pool.give_back(handle, number))
        return wrong("it gives back block " + std::to_string(handle.block) + " of slab " +
                     std::to_string(handle.slab) + ", which it does not have");
      store_->settle(handle);
    }
    return {};
  }
  if (const Declined* no = std::get_if<Declined>(&word)) {
    note("machine " + std::to_string(reader.life.machine) +
         " does not read this machine's memory: " + no->why);
    return wrong("it declined");
  }
  return wrong("a word that only an owner says");
}

Result<void> SharedMemory::greet(Reader& reader, const Greeting& greeting) {
  const auto wrong = [](std::string what) { return Error{ErrorCode::corrupt, std::move(what)}; };
  if (reader.life.incarnation != 0) return wrong("a second greeting");
  if (greeting.to != options_.self) return Error{ErrorCode::unavailable, "another life"};
  if (!options_.peers.contains(greeting.from.machine))
    return wrong("no machine " + std::to_string(greeting.from.machine) + " of this computer");
  for (const auto& [number, other] : readers_)
    if (other.life == greeting.from) return wrong("this life has greeted before");
  reader.life = greeting.from;
  return {};
}

}  // namespace sluice::shm
