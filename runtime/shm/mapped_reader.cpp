#include "runtime/shm/mapped_reader.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/file_packets.h"
#include "base/mapped_parts.h"
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

void MappedRemote::tell(std::uint64_t number, Ref<Buffer> bytes, std::optional<std::uint32_t> sum) {
  const std::shared_lock lock(told_);
  if (listener_ != nullptr) listener_->read_ended(number, std::move(bytes), sum);
}

MappedReader::MappedReader(const MappedMemoryOptions& options, unsigned threads)
    : options_(options) {
  threads_.emplace_back([this] { watch(); });
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { copy(); });
}

MappedReader::~MappedReader() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  came_.notify_all();
  bell_.ring();
  for (std::thread& one : threads_) one.join();
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
                        std::vector<MappedRead> reads) {
  std::size_t bytes = 0;
  for (const MappedRead& one : reads) bytes += one.first.size;
  std::unique_lock lock(mutex_);
  if (remote->state_ == MappedRemote::State::asked) {
    std::ranges::move(reads, std::back_inserter(remote->waiting_));
  } else if (bytes <= here_most && work_.empty()) {
    const Ref<Buffer> from = remote->bytes_;
    lock.unlock();
    for (MappedRead& one : reads) perform({remote, std::move(one)}, from);
  } else {
    for (MappedRead& one : reads) work_.push_back({remote, std::move(one)});
    lock.unlock();
    reads.size() == 1 ? came_.notify_one() : came_.notify_all();
  }
}

void MappedReader::close(MappedRemote& remote) {
  // Let go of without the lock, for that may take a while, or call others.
  std::deque<MappedRead> waiting;
  std::vector<Work> work;
  Ref<Buffer> bytes;
  {
    const std::lock_guard lock(mutex_);
    remote.state_ = MappedRemote::State::closed;
    bytes = std::move(remote.bytes_);
    waiting.swap(remote.waiting_);
    std::erase_if(work_, [&](Work& one) {
      if (one.remote.get() != &remote) return false;
      work.push_back(std::move(one));
      return true;
    });
  }
  bell_.ring();
  const std::lock_guard lock(remote.told_);  // behind those that are copied now
  remote.listener_ = nullptr;
}

void MappedReader::go_on(const std::shared_ptr<MappedRemote>& remote) {
  for (MappedRead& one : remote->waiting_) work_.push_back({remote, std::move(one)});
  remote->waiting_.clear();
  came_.notify_all();
}

void MappedReader::open_with(const std::shared_ptr<MappedRemote>& remote, Ref<Buffer> bytes) {
  const std::lock_guard lock(mutex_);
  if (remote->state_ != MappedRemote::State::asked) return;
  remote->state_ = MappedRemote::State::open;
  remote->bytes_ = std::move(bytes);
  go_on(remote);
}

void MappedReader::fail(const std::shared_ptr<MappedRemote>& remote) {
  Ref<Buffer> bytes;  // unmapped without the lock
  const std::lock_guard lock(mutex_);
  if (remote->state_ == MappedRemote::State::closed) return;
  remote->state_ = MappedRemote::State::failed;
  bytes = std::move(remote->bytes_);
  go_on(remote);
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

void MappedReader::copy() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [&] { return is_over_ || !work_.empty(); });
    if (is_over_) return;
    Work one = std::move(work_.front());
    work_.pop_front();
    const Ref<Buffer> from = one.remote->bytes_;
    lock.unlock();
    perform(std::move(one), from);
    lock.lock();
  }
}

void MappedReader::perform(Work work, const Ref<Buffer>& from) {
  MappedRead& read = work.read;
  const auto is_within = [&](const RemoteRegion::Part& part) {
    return part.offset <= from->size() && part.size <= from->size() - part.offset;
  };
  Ref<Buffer> bytes;
  if (from && is_within(read.first) && is_within(read.then))
    bytes = landing_->take((read.to ? 0 : read.first.size) + read.then.size);
  std::optional<std::uint32_t> sum;
  if (bytes) sum = copy_parts(from->data(), read.first, read.then, read.to, bytes->data());
  read.to = {};
  work.remote->tell(read.number, std::move(bytes), sum);
}

}  // namespace sluice::shm
