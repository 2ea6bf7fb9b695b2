// The thread that does what UCX does for one process: it connects to other processes' regions,
// reads them, and answers readers where no card does.
//
// It takes what it is told in order, and waits in the kernel (an eventfd beside UCX's descriptor)
// when nothing moves. What UCX maps is read by threads that copy (base/copy_threads.h), and stays
// mapped until they have ended; a key that says more of it than is mapped is one of a region that
// has failed. Elsewhere a read is two gets, the second when the first has come; it ends once, by
// UCX's callback at the latest when its endpoint is closed by force, and until then has its own
// memory. Thread: `open`, `read` and `close` from any; the listeners are called on its own and on
// those that copy. Errors: as `make_ucx_memory`.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/copy_threads.h"
#include "base/landing.h"
#include "runtime/ucx/ucx_context.h"
#include "runtime/ucx/ucx_key.h"

namespace sluice::ucx {

class Worker {
 public:
  static Result<std::shared_ptr<Worker>> make(std::shared_ptr<Context> context);
  Worker(std::shared_ptr<Context> context, ucp_worker_h handle, int wake);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Where others reach this process.
  const std::vector<std::byte>& address() const { return address_; }
  /// Returns the region's number. Borrows the listener until `close`.
  std::uint64_t open(Key key, RemoteRegion::Listener& listener);
  void read(std::uint64_t region, std::vector<RemoteRegion::Read> reads);
  /// Of a region that is mapped; else null.
  Ref<Buffer> bytes(std::uint64_t region);
  /// Its listener is not called any more when this has returned.
  void close(std::uint64_t region);

 private:
  struct Open {
    std::uint64_t region = 0;
    Key key;
  };
  struct Read {
    std::uint64_t region = 0;
    RemoteRegion::Read read;
  };
  struct Close {
    std::uint64_t region = 0;
  };
  /// Nobody reads what was mapped of it any more.
  struct Unread {
    std::uint64_t region = 0;
  };
  using Command = std::variant<Open, Read, Close, Unread>;

  struct Remote {
    Worker* worker = nullptr;
    std::uint64_t region = 0;
    std::uint64_t address = 0, size = 0;
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
    bool is_mapped = false, has_failed = false;
  };
  /// Of a region, what those who read it look at.
  struct Reached {
    std::shared_ptr<ReadEnds> ends;
    Ref<Buffer> mapped{};  // null: not known yet, failed, or elsewhere
  };
  class Mapped;
  /// Until UCX has ended it.
  struct Reading {
    Worker* worker = nullptr;
    std::uint64_t region = 0;
    RemoteRegion::Read read;
    std::shared_ptr<ReadEnds> ends;
    Ref<Buffer> bytes{};  // without those that have a place
    bool is_second = false;
    std::byte* next() const;  // where its part goes
  };
  struct Closing {
    ucs_status_ptr_t request = nullptr;  // null: it is closed
    std::unique_ptr<Remote> remote;
  };

  Result<void> begin();
  void run();
  /// False: nothing moved.
  bool move_on();
  void wait(int milliseconds);
  void perform(Open& open);
  void perform(Read& command);
  void perform(const Close& close);
  void perform(const Unread& unread);
  /// False: it is no region that could be read.
  bool reach(Remote& remote, const Key& key);
  void shut(std::unique_ptr<Remote> remote);
  void reap();
  /// Gets the next part, and those that come at once.
  void go_on(Reading* reading);
  void end(Reading* reading, bool has_come);
  void put(Command command);
  static void got(void* request, ucs_status_t status, void* reading);
  static void failed(void* remote, ucp_ep_h endpoint, ucs_status_t status);

  const std::shared_ptr<Context> context_;
  const Library& ucx_;
  const ucp_worker_h handle_;
  const int wake_;
  int events_ = -1;  // UCX's
  std::vector<std::byte> address_;
  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();

  // Its thread's.
  std::map<std::uint64_t, std::unique_ptr<Remote>> remotes_;
  std::vector<Closing> closing_;
  std::size_t readings_ = 0;  // under way

  std::mutex mutex_;  // of what follows
  std::deque<Command> commands_;
  std::map<std::uint64_t, Reached> reached_;
  bool is_over_ = false;

  std::atomic<std::uint64_t> next_region_{1};
  std::optional<CopyThreads> copies_;  // end with the thread
  std::thread thread_;
};

}  // namespace sluice::ucx
