// Reads regions of other processes of this computer out of memory that is mapped here.
//
// One thread asks owners for their memory and hears when they are gone; others copy
// (base/copy_threads.h). A read that cannot be ends without bytes: where its region has failed, or
// is not handed over in time. Thread: any; listeners are called on the threads that copy.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/copy_threads.h"
#include "base/owned_file.h"
#include "runtime/shm/mapped_key.h"
#include "runtime/shm/mapped_memory.h"

namespace sluice::shm {

class MappedReader;

/// One region.
class MappedRemote {
 public:
  MappedRemote(MappedKey key, RemoteRegion::Listener& listener)
      : key_(std::move(key)), ends_(std::make_shared<ReadEnds>(listener)) {}
  const MappedKey& key() const { return key_; }

 private:
  friend class MappedReader;
  const MappedKey key_;
  const std::shared_ptr<ReadEnds> ends_;

  // Under the reader's lock.
  enum class State : std::uint8_t { asked, open, failed, closed };
  State state_ = State::asked;
  std::vector<RemoteRegion::Read> waiting_;  // for the memory
  Ref<Buffer> bytes_;                        // of it, while it is open

  // Of the thread that asks, but for the beginning.
  OwnedFile socket_;
  std::chrono::steady_clock::time_point deadline_;  // for the memory to come
};

class MappedReader {
 public:
  explicit MappedReader(const MappedMemoryOptions& options, unsigned threads);
  ~MappedReader();
  MappedReader(const MappedReader&) = delete;
  MappedReader& operator=(const MappedReader&) = delete;

  void open(const std::shared_ptr<MappedRemote>& remote);
  void read(const std::shared_ptr<MappedRemote>& remote, std::vector<RemoteRegion::Read> reads);
  /// Null: they have not come, or are gone.
  Ref<Buffer> bytes(const MappedRemote& remote) const;
  /// Its listener is not called any more when this has returned.
  void close(MappedRemote& remote);

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  /// Waits for whatever comes first, and does it. False: all is over.
  bool watch_once();
  void hear(const std::shared_ptr<MappedRemote>& remote);
  void open_with(const std::shared_ptr<MappedRemote>& remote, Ref<Buffer> bytes);
  void fail(const std::shared_ptr<MappedRemote>& remote);

  const MappedMemoryOptions options_;
  const Bell bell_;
  CopyThreads copies_;

  mutable std::mutex mutex_;                            // of what follows
  std::vector<std::shared_ptr<MappedRemote>> remotes_;  // with a connection
  bool is_over_ = false;

  std::thread thread_;
};

}  // namespace sluice::shm
