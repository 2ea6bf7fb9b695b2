// A role host as its program sees it: a process of its own, watched, and started again when it
// dies, with all that was made in it.
//
// Death is noticed at once; a process that does not answer a ping while it has work, or in which an
// activation does not return after it was cancelled, is ended and counts as dead. Thread: one of
// its own, which also starts the process, so that the kernel ends the one with the other; all
// functions from any. Owns: the process. Units: `memory` in bytes. Source: docs/HOSTS.md.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "runtime/hosts/cgroup.h"
#include "runtime/hosts/channel.h"
#include "runtime/hosts/host_protocol.h"
#include "runtime/hosts/host_supervision.h"
#include "runtime/hosts/known_sessions.h"

namespace sluice::hosts {

struct HostOptions {
  std::vector<std::string> command;  // its control socket is `control_socket`
  std::uint64_t memory = 0;          // 0: no limit
  /// Where a cgroup for each process can be made, which limits `memory`; null: none, and the
  /// process' address space is limited. What has no cgroup after all says so once.
  std::shared_ptr<Cgroups> cgroups;
  std::vector<std::uint32_t> cores;  // it runs on these; empty: on this program's
  /// From an activation's cancellation to the end of the host, when it does not return.
  std::chrono::milliseconds hang_after{5'000};
  /// The same for a ping that is not answered.
  std::chrono::milliseconds silent_after{10'000};
  /// From its start to its first word.
  std::chrono::milliseconds greets_within{30'000};
  /// So long a call waits for a host that is being started again.
  std::chrono::milliseconds patience{10'000};
  SupervisionRules rules;
  std::function<void(const std::string&)> notice;  // a line about what died
  /// A socket for a process of the host of that name, by which it shares parts of checkpoints with
  /// others; none: it does not. Thread: any.
  std::function<OwnedFile(const std::string&)> parts = {};
};

/// What holds a host's memory, and how much of it: of the process that is there, or was last.
struct MemoryStatus {
  enum class Holder { none, address_space, cgroup_v1, cgroup_v2 };
  Holder holder = Holder::none;
  std::uint64_t limit = 0;
  std::uint64_t peak = 0;  // of the process that is there, and its children; 0: nobody knows
};

/// How a host is, for whoever asks.
struct HostStatus {
  std::string name;
  HostSupervision::State state = HostSupervision::State::down;
  pid_t pid = -1;            // of the process that is there
  std::uint64_t starts = 0;  // of processes
  std::size_t activations = 0;
  std::chrono::milliseconds next{0};  // until the next process is started, where none is there
  std::string ended;                  // how the last one died; empty: none did
  std::uint64_t tried_again = 0;      // activations
  MemoryStatus memory;
};

/// One process of a host, from its start to its death.
struct HostLife {
  std::uint64_t number = 0;  // of the host's lives
  std::atomic<bool> dead{false};
  // The host's lock guards the rest.
  std::string how;                             // it died
  std::string verdict;                         // the same, and of what activations
  std::map<std::uint64_t, std::string> works;  // "node 'a' of call 3", by a number of their own
  std::map<std::uint32_t, std::shared_ptr<Channel>> channels;  // by member
};

class HostProcess {
 public:
  HostProcess(std::string name, HostOptions options);
  /// Waits for the end of the process, which it is asked for and then made to.
  ~HostProcess();
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  const std::string& name() const { return name_; }
  const HostOptions& options() const { return options_; }

  /// Makes a parameter or a role in it, now and in each later life. Errors: what making it said, or
  /// how the process died of it.
  struct Member {
    std::uint32_t number = 0;
    bool stepped = false;
  };
  /// `connect`: a socket that goes with it, a new one for each life. Called with the host's lock;
  /// asks nothing of the host.
  using Connect = std::function<Result<OwnedFile>()>;
  Result<Member> add(Request making, std::string what, Connect connect = {});

  /// The life in which work can be done; waits while there is none. Errors: unavailable (why there
  /// will be none soon), cancelled.
  Result<std::shared_ptr<HostLife>> life(const std::function<bool()>& cancelled);
  std::shared_ptr<Channel> channel(const HostLife& life, std::uint32_t member);

  /// Work begins and ends, for the words about a death.
  std::uint64_t begins(HostLife& life, std::string what);
  void ends(HostLife& life, std::uint64_t work);
  void cancel(HostLife& life, std::uint32_t member, std::uint64_t activation);
  /// A session is used; true when it was in an earlier life and has lost what was kept of it.
  bool session_lost(const HostLife& life, std::string_view session);
  /// Whoever was told so may not have heard it: the next one is told again.
  void session_still_lost(std::string_view session);
  void session_ends(std::string_view session);

  /// The life is to end: `why` is its verdict, unless it died by itself. Returns how it ended.
  Error end(HostLife& life, const std::string& why);
  /// The same for a connection that failed, which may be because it died.
  Error lost(HostLife& life, const Error& failure);
  /// An activation that was in it is tried again: how it died. Requires: it is dead.
  std::string tries_again(const HostLife& life);
  HostStatus status();

 private:
  using Time = HostSupervision::Time;
  struct Making {
    Request request;
    std::string what;  // "role 'mine'"
    Connect connect;
    bool made = false;
    bool gone = false;  // could not be made the first time
    Made result;
  };

  // All on the host's thread and under its lock, but for where they say so.
  void watch();
  void start(std::unique_lock<std::mutex>& lock);
  /// Of the next process. Null, with the reason in `without`: its address space is limited.
  std::unique_ptr<Cgroup> make_cgroup(std::string& without) const;
  void note_once(const std::string& without);
  void share_parts();
  void make_members(std::unique_lock<std::mutex>& lock);
  /// Without the lock.
  Result<Made> make(Making& making, Channel& channel, OwnedFile theirs);
  /// What does not wait for roles. False: the process is dead, or this ends.
  bool attend();
  void rest(std::unique_lock<std::mutex>& lock);
  void listen();
  void ping(Time now);
  void ask_to_end(Time now);
  void reap();
  void stop_process(std::unique_lock<std::mutex>& lock);
  void remove_cgroups(std::chrono::milliseconds most);
  /// By any thread, under the lock.
  void want_end(const HostLife& life, const std::string& why, Time when);
  /// Now, or when its socket has room. `with`: descriptors that go with it, now or never.
  void send(const Control& message, std::span<const int> with = {});
  bool sends(const wire::Bytes& bytes, std::span<const int> with) const;
  void wake() const;
  std::string works_text() const;
  /// What memory had to do with its death, whose status that is.
  std::string memory_words(int status) const;
  Error wait_for_death(std::unique_lock<std::mutex>& lock, const HostLife& life);

  static constexpr std::size_t sessions_max = 10'000;

  const std::string name_;
  const HostOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  HostSupervision supervision_;
  std::shared_ptr<HostLife> life_;  // the newest
  std::vector<std::unique_ptr<Making>> members_;
  KnownSessions sessions_{sessions_max};
  std::uint64_t works_ = 0;
  std::uint64_t lives_ = 0;
  std::string ended_;  // how the last life did
  std::uint64_t tried_again_ = 0;
  bool stopping_ = false;
  // The present process.
  pid_t pid_ = -1;
  OwnedFile handle_, control_;
  std::unique_ptr<Cgroup> cgroup_;  // null: it is in none
  MemoryStatus::Holder holder_ = MemoryStatus::Holder::none;
  std::deque<wire::Bytes> unsent_;  // while its socket is full
  bool greeted_ = false;
  std::uint64_t pinged_ = 0, answered_ = 0;
  Time ping_at_{}, silent_since_{};
  // It is to end: why, and when it is asked to and made to.
  std::optional<std::string> why_;
  Time end_at_{}, kill_at_{};
  bool asked_ = false;
  std::vector<std::unique_ptr<Cgroup>> left_cgroups_;  // of processes that were, and not empty yet
  bool noted_ = false;

  const Bell bell_;  // wakes the thread
  std::thread thread_;
};

}  // namespace sluice::hosts
