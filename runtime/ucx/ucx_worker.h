// The thread that does what UCX does for one process: it connects to other processes' regions,
// reads them, and answers readers where no card does.
//
// It takes what it is told in order, and waits in the kernel (an eventfd beside UCX's descriptor)
// when nothing moves. A read is two gets, the second when the first has come; it ends once, by
// UCX's callback at the latest when its endpoint is closed by force, and until then has its own
// memory. Thread: `open`, `read`, `close` and `unheard` from any; the listeners are called on its
// own, under one lock. Errors: as `make_ucx_memory`.
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
  void read(std::uint64_t region, std::uint64_t number, RemoteRegion::Part first,
            RemoteRegion::Part then, Ref<Buffer> to);
  /// Its listener is not called any more when this has returned.
  void close(std::uint64_t region);

 private:
  struct Open {
    std::uint64_t region = 0;
    Key key;
  };
  struct Read {
    std::uint64_t region = 0, number = 0;
    RemoteRegion::Part first, then;
    Ref<Buffer> to;
  };
  struct Close {
    std::uint64_t region = 0;
  };
  using Command = std::variant<Open, Read, Close>;

  struct Remote {
    std::uint64_t address = 0, size = 0;
    ucp_ep_h endpoint = nullptr;
    ucp_rkey_h key = nullptr;
    const std::byte* mapped = nullptr;  // the region, where it is memory of this computer
    bool has_failed = false;
  };
  /// Until UCX has ended it.
  struct Reading {
    Worker* worker = nullptr;
    Read read;
    Ref<Buffer> bytes{};  // without those that have a place
    std::optional<std::uint32_t> sum{};
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
  void perform(Read& read);
  void perform(const Close& close);
  void shut(std::unique_ptr<Remote> remote);
  void reap();
  /// Gets the next part, and those that come at once.
  void go_on(Reading* reading);
  void end(Reading* reading, bool has_come);
  void tell(std::uint64_t region, std::uint64_t number, Ref<Buffer> bytes,
            std::optional<std::uint32_t> sum);
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

  std::mutex mutex_;
  std::deque<Command> commands_;
  bool is_over_ = false;

  std::mutex listeners_mutex_;  // held while one is called
  std::map<std::uint64_t, RemoteRegion::Listener*> listeners_;

  std::atomic<std::uint64_t> next_region_{1};
  std::thread thread_;
};

}  // namespace sluice::ucx
