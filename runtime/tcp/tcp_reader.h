// A thread that reads regions of other processes.
//
// It takes what it is told in order; a read of a connection that rests is asked for at once by
// whoever wants it, which spares the thread's waking. A read that cannot be ends without bytes: at
// once where its region has failed, and when its connection breaks, is not made in time, or stands
// still. Thread: `open`, `read` and `close` from any; the listeners are called on its own.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "base/copy_threads.h"
#include "runtime/tcp/tcp_link.h"
#include "runtime/tcp/tcp_memory.h"
#include "runtime/tcp/tcp_socket.h"

namespace sluice::tcp {

/// What the connections of one region have in common.
class Remote {
 public:
  Remote(Key key, RemoteRegion::Listener& listener) : key_(std::move(key)), ends_(listener) {}

  const Key& key() const { return key_; }
  bool has_failed() const { return has_failed_.load(std::memory_order_relaxed); }
  void fail() { has_failed_.store(true, std::memory_order_relaxed); }
  /// Its listener is not called any more when this has returned.
  void close() { ends_.close(); }
  /// Unheard once it is closed.
  void tell(Link::Ended ended) {
    ended.is_answer ? ends_.tell_answer(ended.number, std::move(ended.bytes))
                    : ends_.tell(ended.number, std::move(ended.bytes), ended.sum);
  }

 private:
  const Key key_;
  std::atomic<bool> has_failed_{false};
  ReadEnds ends_;
};

class Reader {
 public:
  static Result<std::unique_ptr<Reader>> make(const TcpMemoryOptions& options,
                                              std::shared_ptr<Landing> landing);
  Reader(const TcpMemoryOptions& options, std::shared_ptr<Landing> landing,
         std::unique_ptr<Waiter> waiter);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  /// Begins a connection, of which the number is told.
  std::uint64_t open(std::shared_ptr<Remote> remote);
  void read(std::uint64_t connection, std::uint64_t number, const Request& request, Ref<Buffer> to);
  /// False: it is not asked, for the connection does not rest.
  bool ask(std::uint64_t connection, std::uint64_t number, std::span<const std::byte> question);
  void close(std::uint64_t connection);
  /// Takes what has come of what was asked for, on the caller's thread, unless its own is at it.
  /// False: nothing was asked for.
  bool look();

 private:
  using Clock = std::chrono::steady_clock;
  struct Open {
    std::uint64_t connection = 0;
    std::shared_ptr<Remote> remote;
  };
  struct Read {
    std::uint64_t connection = 0, number = 0;
    Request request;
    Ref<Buffer> to;
  };
  struct Question {
    std::uint64_t connection = 0, number = 0;
    std::vector<std::byte> text;
  };
  struct Close {
    std::uint64_t connection = 0;
  };
  using Command = std::variant<Open, Read, Question, Close>;
  struct Connection {
    std::uint64_t number = 0;
    std::shared_ptr<Remote> remote;
    OwnedFile socket;  // none: it has failed
    Link link;
    Clock::time_point deadline;  // for its handshake, or to get on
    std::size_t got = 0;         // since the deadline was set
    bool writes = true;
    bool has_changed = false;  // since it was last looked at
    bool is_over = false;      // and has to fail
    Clock::time_point asked_at{};  // the last question
  };

  void run();
  /// False: its thread has to do it, for there is more to do than to send a request.
  bool ask_now(Read& read);
  /// Whoever has the connections, which is the thread but while it waits.
  void take_connections();
  void leave_connections();
  std::chrono::nanoseconds longest_wait();
  /// Until then the thread hears nothing but its bell: somebody looks for answers, and nothing else
  /// is awaited or was read lately. Long ago: it does not rest.
  Clock::time_point rests_until() const;
  void take_commands();
  void perform(Open& open);
  void perform(Read& read);
  void perform(const Question& question);
  void perform(const Close& close);
  /// Of one that has been asked for something by another thread.
  void send_now(Connection& one);
  void move(Connection& one, bool can_read);
  void receive_some(Connection& one);
  /// False: it has ended.
  bool send_some(Connection& one);
  void tell_ended(Connection& one);
  void fail(Connection& one);
  void give_time(Connection& one);
  static bool is_timed(const Connection& one);
  /// When the next connection is late. Below zero: none will be.
  std::chrono::nanoseconds until_late() const;
  void end_late();
  void put(Command command);

  const TcpMemoryOptions options_;
  const std::shared_ptr<Landing> landing_;
  const std::unique_ptr<Waiter> waiter_;
  std::atomic_flag taken_;  // what follows
  std::map<std::uint64_t, Connection> connections_;
  bool has_moved_ = false;   // anything, since it last waited
  bool waits_long_ = false;  // for ever: reads are to wake it
  bool rests_ = false;       // it hears its bell alone
  Clock::time_point looked_at_{}, read_at_{};  // a look for what is awaited, the end of a read

  std::mutex mutex_;
  std::deque<Command> commands_;
  bool is_over_ = false;
  std::atomic<std::uint64_t> next_{1};
  std::thread thread_;
};

}  // namespace sluice::tcp
