// A reader's side of one owner's shared memory: which slabs it has been shown, and what it reads.
//
// Lives as long as anybody reads, so what is lent goes back on the connection that it was lent on;
// when the last one has gone, the connection closes, which gives back everything.
// Thread: `borrow`, and letting go of what was borrowed, from any; `hear` and `flush` one at a
// time. Bounds: `slabs_max` mappings. Source: docs/NETWORK.md, "Shared memory".
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/bell.h"
#include "runtime/shm/packets.h"

namespace sluice::shm {

class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  static constexpr std::size_t slabs_max = 64;

  /// `self` greets `owner`, who listens at the path. Errors: it cannot be reached.
  /// `bell`: rung when something waits to be sent.
  static Result<std::shared_ptr<Attachment>> make(Origin self, Origin owner,
                                                  const std::string& path,
                                                  std::shared_ptr<const Bell> bell);
  Attachment(Origin owner, OwnedFile socket, std::shared_ptr<const Bell> bell)
      : owner_(owner), socket_(std::move(socket)), bell_(std::move(bell)) {}

  Origin owner() const { return owner_; }
  const OwnedFile& socket() const { return socket_; }
  /// False when the owner is gone, or has said something wrong: `why`.
  bool hear(std::string& why);
  /// Sends what could not leave before.
  void flush();
  /// Whether something could not leave.
  bool waits() const;
  /// The owner is gone, or was found wrong. What was borrowed can still be read.
  bool is_over() const { return over_.load(); }
  Result<Ref<Buffer>> borrow(const wire::Handle& handle, std::size_t size);

 private:
  class Borrowed;

  bool hear_packets(std::string& why);
  Result<void> take(Packet& packet);
  void give_back(const wire::Handle& handle);
  void send_waiting();

  const Origin owner_;
  const OwnedFile socket_;
  const std::shared_ptr<const Bell> bell_;
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<SlabView>> slabs_;
  std::vector<wire::Bytes> waiting_;  // words to be sent
  std::vector<wire::Handle> back_;    // behind them, to be given back
};

}  // namespace sluice::shm
