// This machine's part in memory that processes of one computer share: what it lends to other
// machines there, and what it borrows from them.
//
// Each life of a machine has its own slabs, and a unix socket beside its ipc address, where the
// machines that hear it ask for them; a thread hands them out and takes back what was lent. A value
// is only lent to a life that has mapped the slab it stands in; every other one travels in the
// message, and `counts` says why. Blocks come back when their readers let go of them, or when the
// reader's connection ends, which the kernel sees to; a life that is suspected keeps what it has,
// and gets no more. That a block is back is read when memory is wanted or counted, so giving it
// back wakes no thread. Thread: any; one of its own. Bounds: `bytes_max` in all, `reader_bytes_max`
// for each reader, `connections_max` sockets. Source: docs/NETWORK.md, "Shared memory"; omni-flow,
// section 4.1.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shm/attachment.h"
#include "runtime/shm/block_pool.h"
#include "runtime/shm/slab.h"
#include "runtime/transport.h"

namespace sluice::shm {

struct SharedMemoryOptions {
  Origin self;
  std::string socket;                          // in a folder that only this user enters
  std::map<std::uint32_t, std::string> peers;  // sockets of the machines of this computer
  std::size_t bytes_max = std::size_t{256} << 20U;
  std::size_t reader_bytes_max = std::size_t{128} << 20U;
  std::size_t value_bytes_min = std::size_t{64} << 10U;  // smaller ones are cheaper in a message
};

class SharedMemory final : public wire::Lender {
 public:
  static constexpr std::size_t connections_max = 512;

  /// Errors: unavailable; nothing can be shared here.
  static Result<std::unique_ptr<SharedMemory>> make(SharedMemoryOptions options);
  struct Store;
  SharedMemory(SharedMemoryOptions options, OwnedFile listener, std::shared_ptr<Store> store);
  ~SharedMemory() override;

  /// That life is heard, from now on or again: its memory can be read.
  void meet(Origin life);
  /// It is not heard, or is over.
  void suspect(Origin life);

  Ref<Buffer> make(std::size_t size) override;
  bool reaches(std::uint32_t machine) const override { return options_.peers.contains(machine); }
  std::optional<wire::Handle> lend(Origin to, const Ref<Buffer>& bytes) override;
  void take_back(Origin to, const wire::Handle& handle) override;
  Result<Ref<Buffer>> borrow(Origin from, const wire::Handle& handle, std::size_t size) override;

  LentCounts counts(std::uint32_t machine);
  BlockPool::Totals totals();
  /// Lines for people since it was asked last.
  std::vector<std::string> take_notices();

 private:
  class Owned;

  /// A connection to this machine's socket.
  struct Reader {
    OwnedFile socket;
    Origin life{0, 0};        // incarnation 0: it has not said
    std::uint32_t shown = 0;  // slabs that it was offered
    std::uint32_t mapped = 0;
    bool is_suspected = false;
    bool is_refused = false;  // said something wrong: nothing is heard or sent any more
  };
  struct Peer {
    LentCounts counts;
    std::set<std::string> warned;  // reasons
  };

  // Under the store's lock.
  Reader* reader_of(Origin life, shm::Reader& number);
  std::optional<wire::Handle> in_message(std::uint32_t to, std::size_t size, const std::string& why,
                                         bool warns);
  std::optional<wire::Handle> lent(std::uint32_t to, const wire::Handle& handle, shm::Reader reader,
                                   std::size_t size, bool was_copied);

  void run();
  void watch();
  /// False: nobody could be let in (no descriptor is free, say).
  bool accept_readers();
  void serve(shm::Reader number);
  enum class Heard : std::uint8_t { stays, ended, of_another_life };
  /// What it has said, up to some words. Under the store's lock.
  Heard hear(shm::Reader number, Reader& reader);
  /// For people. Under the store's lock.
  void note(std::string line) {
    notices_.push_back(std::move(line));
    noticed_.store(true);
  }
  /// What readers have given back by now. Under the store's lock.
  void hear_backs();
  Result<void> take(shm::Reader number, Reader& reader, const Word& word);
  Result<void> greet(Reader& reader, const Greeting& greeting);
  void show_slabs(Reader& reader);
  void attach();

  const SharedMemoryOptions options_;
  const OwnedFile listener_;
  bool rests_ = false;  // from letting readers in, until the next turn
  const std::shared_ptr<const Bell> bell_ = std::make_shared<const Bell>();
  const std::shared_ptr<Store> store_;

  // Under the store's lock.
  std::map<shm::Reader, Reader> readers_;
  std::map<std::uint32_t, Peer> peers_;
  std::map<std::uint32_t, Origin> wanted_;  // lives to attach to
  std::map<std::uint32_t, std::shared_ptr<Attachment>> attached_;
  std::vector<std::string> notices_;
  std::atomic<bool> noticed_{false};  // some are there
  shm::Reader next_reader_ = 1;

  std::atomic<bool> stops_{false};
  std::thread thread_;
};

}  // namespace sluice::shm
