#include "runtime/shm/mapped_owner.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/file_packets.h"
#include "runtime/shm/packets.h"

namespace sluice::shm {

namespace {

/// Where descriptors are wanting no reader is let in for so long.
constexpr int rest_ms = 200;

void fill_random(void* to, std::size_t size) {
  SLUICE_CHECK(::getrandom(to, size, 0) == static_cast<ssize_t>(size),
               "the system has no random bytes");
}

}  // namespace

Result<std::shared_ptr<MappedOwner>> MappedOwner::make(const MappedMemoryOptions& options) {
  Result<OwnedFile> listener = listen_at(options.socket);
  if (!listener) return listener.error();
  auto made = std::make_shared<MappedOwner>(options, std::move(*listener));
  made->thread_ = std::thread([owner = made.get()] { owner->run(); });
  return made;
}

MappedOwner::~MappedOwner() {
  is_over_.store(true);
  bell_.ring();
  if (thread_.joinable()) thread_.join();
  ::unlink(options_.socket.c_str());
}

MappedKey MappedOwner::grant(const std::shared_ptr<const MappedRegion>& region) {
  MappedKey key{0, region->size(), {}, options_.socket};
  fill_random(key.secret.data(), key.secret.size());
  const std::lock_guard lock(mutex_);
  // Random too: whoever guesses one learns nothing by it.
  do fill_random(&key.grant, sizeof key.grant);
  while (grants_.contains(key.grant));
  grants_[key.grant] = {key.secret, region};
  order_.push_back(key.grant);
  if (order_.size() > grants_most) {
    grants_.erase(order_.front());
    order_.pop_front();
  }
  return key;
}

void MappedOwner::let_go(MappedRegion& region) {
  region.is_gone.store(true);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(grants_, [&](const auto& one) { return one.second.region.get() == &region; });
    std::erase_if(order_, [&](std::uint64_t number) { return !grants_.contains(number); });
  }
  bell_.ring();
}

std::shared_ptr<const MappedRegion> MappedOwner::find(const MappedHello& hello) const {
  const std::lock_guard lock(mutex_);
  const auto it = grants_.find(hello.grant);
  const bool may = it != grants_.end() && are_same(it->second.secret, hello.secret);
  return may ? it->second.region : nullptr;
}

void MappedOwner::run() {
  while (!is_over_.load()) turn();
  connections_.clear();
}

void MappedOwner::turn() {
  int most_ms = end_some();
  std::vector<pollfd> polled{{bell_.descriptor(), POLLIN, 0}};
  for (const Connection& one : connections_) polled.push_back({one.socket.get(), POLLIN, 0});
  const bool rests = std::exchange(rests_, false);
  if (rests) most_ms = most_ms < 0 ? rest_ms : std::min(most_ms, rest_ms);
  const bool takes = !rests && connections_.size() < connections_most;
  if (takes) polled.push_back({listener_.get(), POLLIN, 0});
  count_.store(connections_.size());
  if (::poll(polled.data(), polled.size(), most_ms) < 0) return;
  static_cast<void>(bell_.hear());
  std::size_t at = 0;
  std::erase_if(connections_,
                [&](Connection& one) { return polled[++at].revents != 0 && !hear(one); });
  if (takes && polled.back().revents != 0) rests_ = !accept_one();
}

int MappedOwner::end_some() {
  const Clock::time_point now = Clock::now();
  std::erase_if(connections_, [&](const Connection& one) {
    return one.region ? one.region->is_gone.load() : one.deadline <= now;
  });
  Clock::time_point next = Clock::time_point::max();
  for (const Connection& one : connections_)
    if (!one.region) next = std::min(next, one.deadline);
  if (next == Clock::time_point::max()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
}

bool MappedOwner::accept_one() {
  std::optional<OwnedFile> socket = accept_from(listener_);
  if (!socket) return false;
  const auto is_stranger = [](const Connection& one) { return !one.region; };
  if (static_cast<std::size_t>(std::ranges::count_if(connections_, is_stranger)) >= strangers_most)
    connections_.erase(std::ranges::find_if(connections_, is_stranger));
  connections_.push_back({std::move(*socket), Clock::now() + options_.handshake_most});
  return true;
}

bool MappedOwner::hear(Connection& one) {
  std::array<std::byte, MappedHello::bytes> room;
  const PacketWithFiles came = receive_with_files(one.socket.get(), room, MSG_DONTWAIT);
  if (came.bytes < 0) return errno == EAGAIN;
  const auto said = std::span(room).first(static_cast<std::size_t>(came.bytes));
  const std::optional<MappedHello> hello = decode_hello(said);
  // Who has been given something has nothing more to say, nor has who sends descriptors.
  if (!hello || one.region || came.is_cut || !came.files.empty()) return false;
  std::shared_ptr<const MappedRegion> region = find(*hello);
  if (!region) return false;
  const int file = region->memory.file.get();
  if (send_with_files(one.socket.get(), mapped_welcome(), std::span(&file, 1), MSG_DONTWAIT) < 0)
    return false;
  one.region = std::move(region);
  return true;
}

}  // namespace sluice::shm
