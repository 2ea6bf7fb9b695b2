// The threads that read regions of other processes out of memory that is mapped here.
//
// One asks owners for their memory and hears when they are gone; the others copy, each read by one
// of them, in no order; or, of few bytes, whoever asks. A read that cannot be ends without bytes:
// where its region has failed, or is not handed over in time. Thread: any; listeners are called on
// the thread that copies.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/landing.h"
#include "base/owned_file.h"
#include "runtime/shm/mapped_key.h"
#include "runtime/shm/mapped_memory.h"

namespace sluice::shm {

class MappedReader;

using MappedRead = RemoteRegion::Read;

/// One region.
class MappedRemote {
 public:
  MappedRemote(MappedKey key, RemoteRegion::Listener& listener)
      : key_(std::move(key)), listener_(&listener) {}
  const MappedKey& key() const { return key_; }

 private:
  friend class MappedReader;
  /// Unheard once it is closed.
  void tell(std::uint64_t number, Ref<Buffer> bytes, std::optional<std::uint32_t> sum);

  const MappedKey key_;
  std::shared_mutex told_;  // held while the listener is called
  RemoteRegion::Listener* listener_;

  // Under the reader's lock.
  enum class State : std::uint8_t { asked, open, failed, closed };
  State state_ = State::asked;
  std::deque<MappedRead> waiting_;  // for the memory
  Ref<Buffer> bytes_;               // of it, while it is open

  // Of the thread that asks, but for the beginning.
  OwnedFile socket_;
  std::chrono::steady_clock::time_point deadline_;  // for the memory to come
};

class MappedReader {
 public:
  /// Of one call, which are read in it where nobody waits: waking a thread takes longer.
  static constexpr std::size_t here_most = std::size_t{256} << 10U;

  explicit MappedReader(const MappedMemoryOptions& options, unsigned threads);
  ~MappedReader();
  MappedReader(const MappedReader&) = delete;
  MappedReader& operator=(const MappedReader&) = delete;

  void open(const std::shared_ptr<MappedRemote>& remote);
  void read(const std::shared_ptr<MappedRemote>& remote, std::vector<MappedRead> reads);
  /// Its listener is not called any more when this has returned.
  void close(MappedRemote& remote);

 private:
  using Clock = std::chrono::steady_clock;
  struct Work {
    std::shared_ptr<MappedRemote> remote;
    MappedRead read;
  };

  void watch();
  /// Waits for whatever comes first, and does it. False: all is over.
  bool watch_once();
  void hear(const std::shared_ptr<MappedRemote>& remote);
  void open_with(const std::shared_ptr<MappedRemote>& remote, Ref<Buffer> bytes);
  void fail(const std::shared_ptr<MappedRemote>& remote);
  /// Under the lock: what has waited is done now.
  void go_on(const std::shared_ptr<MappedRemote>& remote);
  void copy();
  void perform(Work work, const Ref<Buffer>& from);

  const MappedMemoryOptions options_;
  const Bell bell_;
  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();

  std::mutex mutex_;  // of what follows
  std::condition_variable came_;
  std::deque<Work> work_;
  std::vector<std::shared_ptr<MappedRemote>> remotes_;  // with a connection
  bool is_over_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace sluice::shm
