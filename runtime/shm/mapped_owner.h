// The thread that hands regions of this process to their readers.
//
// A grant is made for each key, with a secret of its own. Strangers, who have shown none, have
// `handshake_most`; where there are more than `strangers_most` the one that came first goes.
// Thread: any. Bounds: `grants_most`, of which the one that was made first goes first and lets its
// reader in no more; `connections_most`, beyond which others wait. Errors: as `make_mapped_memory`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/page_memory.h"
#include "runtime/shm/mapped_key.h"
#include "runtime/shm/mapped_memory.h"

namespace sluice::shm {

/// Memory of this process, as long as somebody here has it.
struct MappedRegion {
  explicit MappedRegion(PageMemory made) : memory(std::move(made)) {}
  std::byte* data() const { return memory.bytes->data(); }
  std::size_t size() const { return memory.bytes->size(); }
  const PageMemory memory;
  std::atomic<bool> is_gone{false};  // its owner has let go of it: nobody gets it any more
};

class MappedOwner {
 public:
  static constexpr std::size_t grants_most = 4096, connections_most = 512, strangers_most = 64;

  static Result<std::shared_ptr<MappedOwner>> make(const MappedMemoryOptions& options);
  MappedOwner(const MappedMemoryOptions& options, OwnedFile listener)
      : options_(options), listener_(std::move(listener)) {}
  ~MappedOwner();
  MappedOwner(const MappedOwner&) = delete;
  MappedOwner& operator=(const MappedOwner&) = delete;

  /// For one reader.
  MappedKey grant(const std::shared_ptr<const MappedRegion>& region);
  /// Its readers are hung up on.
  void let_go(MappedRegion& region);
  /// Connections that there are, strangers' included.
  std::size_t connections() const { return count_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Grant {
    Secret secret{};
    std::shared_ptr<const MappedRegion> region;
  };
  struct Connection {
    OwnedFile socket;
    Clock::time_point deadline;                       // to show a secret
    std::shared_ptr<const MappedRegion> region = {};  // what it was given; null: a stranger
  };

  void run();
  /// Waits for whatever comes first, and does it.
  void turn();
  /// Connections whose region or time is over end. Milliseconds until the next one's time is; below
  /// zero: none's.
  int end_some();
  bool accept_one();
  /// False: it ends.
  bool hear(Connection& one);
  std::shared_ptr<const MappedRegion> find(const MappedHello& hello) const;

  const MappedMemoryOptions options_;
  const OwnedFile listener_;
  const Bell bell_;
  std::vector<Connection> connections_;  // its thread's
  bool rests_ = false;                   // from letting readers in, for want of descriptors
  std::atomic<std::size_t> count_{0};
  std::atomic<bool> is_over_{false};

  mutable std::mutex mutex_;  // of what follows
  std::map<std::uint64_t, Grant> grants_;
  std::deque<std::uint64_t> order_;
  std::thread thread_;
};

}  // namespace sluice::shm
