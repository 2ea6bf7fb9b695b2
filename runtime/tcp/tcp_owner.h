// The threads that answer readers of this process's regions.
//
// The first of them also listens, and hands connections round. Strangers, who have not proved a
// secret, have `handshake_most` for it; where there are more than `strangers_most` with one thread
// the one that came first goes. Thread: any. Errors: as `make_tcp_memory`.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/tcp/tcp_memory.h"
#include "runtime/tcp/tcp_serving.h"
#include "runtime/tcp/tcp_socket.h"

namespace sluice::tcp {

class Owner {
 public:
  static constexpr std::size_t strangers_most = 64, connections_most = 1024;  // of one thread

  static Result<std::shared_ptr<Owner>> make(const TcpMemoryOptions& options, unsigned threads);
  explicit Owner(const TcpMemoryOptions& options) : options_(options) {}
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  /// For one reader.
  Key grant(const std::shared_ptr<const Region>& region);
  /// Nobody is answered from it any more.
  void let_go(Region& region);
  /// Connections that there are, strangers' included.
  std::size_t connections() const { return connections_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    OwnedFile socket;
    Serving serving;
    Clock::time_point deadline;  // for its handshake, or what it is owed
    bool reads = true, writes = false;
  };
  struct Loop {
    std::unique_ptr<Waiter> waiter;
    std::thread thread;
    std::mutex mutex;
    std::vector<OwnedFile> accepted;  // not taken yet
    std::map<std::uint64_t, Connection> connections;
    std::uint64_t next = 2;  // 1 is the listener
  };

  using Connections = std::map<std::uint64_t, Connection>;
  void run(Loop& loop);
  void accept_some();
  void take_accepted(Loop& loop);
  void drop(Loop& loop, Connections::iterator one);
  /// False: it ends.
  bool move(Connection& one, bool can_read);
  bool read_some(Connection& one);
  bool write_some(Connection& one);
  void watch(Loop& loop, std::uint64_t number, Connection& one);
  /// Ends those whose time is over; returns how long the next one has, negative: there is none.
  std::chrono::nanoseconds end_late(Loop& loop);

  const TcpMemoryOptions options_;
  Grants grants_;
  OwnedFile listener_;
  std::uint16_t port_ = 0;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::size_t turn_ = 0;            // of the loops, for the next connection
  Clock::time_point listens_at_{};  // not listening before, for want of descriptors
  bool is_listening_ = true;
  std::atomic<std::size_t> connections_{0};
  std::atomic<bool> is_over_{false};
};

}  // namespace sluice::tcp
