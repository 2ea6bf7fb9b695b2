#include "runtime/shm/mapped_reader.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/file_packets.h"
#include "base/page_memory.h"
#include "runtime/shm/packets.h"

namespace sluice::shm {

namespace {

/// For poll(2): for ever, where there is no such time.
int milliseconds_until(std::chrono::steady_clock::time_point time) {
  if (time == std::chrono::steady_clock::time_point::max()) return -1;
  const auto left = time - std::chrono::steady_clock::now();
  return static_cast<int>(
      std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
}

}  // namespace

MappedReader::MappedReader(const MappedMemoryOptions& options, unsigned threads)
    : options_(options), copies_(threads) {
  thread_ = std::thread([this] { watch(); });
}

MappedReader::~MappedReader() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  bell_.ring();
  thread_.join();
}

/// Nothing here waits: a connection to a unix socket is there at once or not at all.
void MappedReader::open(const std::shared_ptr<MappedRemote>& remote) {
  const MappedKey& key = remote->key();
  if (Result<OwnedFile> socket = connect_to(key.socket); socket.ok()) {
    const auto hello = encode(MappedHello{key.grant, key.secret});
    if (send_with_files(socket->get(), hello, {}, MSG_DONTWAIT) >= 0)
      remote->socket_ = std::move(*socket);
  }
  remote->deadline_ = Clock::now() + options_.handshake_most;
  if (!remote->socket_) return fail(remote);
  const std::lock_guard lock(mutex_);
  remotes_.push_back(remote);
  bell_.ring();
}

void MappedReader::read(const std::shared_ptr<MappedRemote>& remote,
                        std::vector<RemoteRegion::Read> reads) {
  Ref<Buffer> from;
  {
    const std::lock_guard lock(mutex_);
    if (remote->state_ == MappedRemote::State::asked) {
      std::ranges::move(reads, std::back_inserter(remote->waiting_));
      return;
    }
    from = remote->bytes_;
  }
  copies_.read(remote->ends_, from, std::move(reads));
}

Ref<Buffer> MappedReader::bytes(const MappedRemote& remote) const {
  const std::lock_guard lock(mutex_);
  return remote.bytes_;
}

void MappedReader::close(MappedRemote& remote) {
  // Let go of without the lock, for that may take a while, or call others.
  std::vector<RemoteRegion::Read> waiting;
  Ref<Buffer> bytes;
  {
    const std::lock_guard lock(mutex_);
    remote.state_ = MappedRemote::State::closed;
    bytes = std::move(remote.bytes_);
    waiting.swap(remote.waiting_);
  }
  copies_.drop(*remote.ends_);
  bell_.ring();
  remote.ends_->close();
}

void MappedReader::open_with(const std::shared_ptr<MappedRemote>& remote, Ref<Buffer> bytes) {
  std::vector<RemoteRegion::Read> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (remote->state_ != MappedRemote::State::asked) return;
    remote->state_ = MappedRemote::State::open;
    remote->bytes_ = bytes;
    waiting.swap(remote->waiting_);
  }
  copies_.read(remote->ends_, bytes, std::move(waiting));
}

void MappedReader::fail(const std::shared_ptr<MappedRemote>& remote) {
  Ref<Buffer> bytes;  // unmapped without the lock
  std::vector<RemoteRegion::Read> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (remote->state_ == MappedRemote::State::closed) return;
    remote->state_ = MappedRemote::State::failed;
    bytes = std::move(remote->bytes_);
    waiting.swap(remote->waiting_);
  }
  copies_.read(remote->ends_, {}, std::move(waiting));
}

void MappedReader::watch() {
  while (watch_once()) continue;
}

bool MappedReader::watch_once() {
  std::vector<std::shared_ptr<MappedRemote>> remotes;
  std::vector<pollfd> polled{{bell_.descriptor(), POLLIN, 0}};
  Clock::time_point next = Clock::time_point::max();
  {
    using State = MappedRemote::State;
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    std::erase_if(remotes_, [](const auto& one) {
      const bool is_done = one->state_ == State::closed || one->state_ == State::failed;
      if (is_done) one->socket_.close();
      return is_done;
    });
    for (const auto& one : remotes_) {
      polled.push_back({one->socket_.get(), POLLIN, 0});
      if (one->state_ == State::asked) next = std::min(next, one->deadline_);
    }
    remotes = remotes_;
  }
  if (::poll(polled.data(), polled.size(), milliseconds_until(next)) < 0) return true;
  static_cast<void>(bell_.hear());
  for (std::size_t i = 0; i < remotes.size(); ++i)
    if (polled[i + 1].revents != 0) hear(remotes[i]);
  const Clock::time_point now = Clock::now();
  for (const auto& one : remotes) {
    std::unique_lock lock(mutex_);
    const bool is_late = one->state_ == MappedRemote::State::asked && one->deadline_ <= now;
    lock.unlock();
    if (is_late) fail(one);
  }
  return true;
}

/// The memory, once. Anything else, the end too, is the end of it.
void MappedReader::hear(const std::shared_ptr<MappedRemote>& remote) {
  std::array<std::byte, 64> room;
  const PacketWithFiles came = receive_with_files(remote->socket_.get(), room, MSG_DONTWAIT);
  if (came.bytes < 0 && errno == EAGAIN) return;
  bool is_asked = false;
  {
    const std::lock_guard lock(mutex_);
    is_asked = remote->state_ == MappedRemote::State::asked;
  }
  const auto said =
      std::span(room).first(static_cast<std::size_t>(std::max<ssize_t>(0, came.bytes)));
  if (!is_asked || came.is_cut || came.files.size() != 1 ||
      !std::ranges::equal(said, mapped_welcome()))
    return fail(remote);
  Result<Ref<Buffer>> bytes =
      map_page_memory(came.files.front(), remote->key().size, PageWriters::owner);
  if (!bytes.ok()) return fail(remote);
  open_with(remote, std::move(*bytes));
}

}  // namespace sluice::shm
