// The machines of a cluster as processes of this computer: started, started again when they die,
// and stopped with whoever started them.
//
// Each is `sluice node`, in a process group of its own, so that Ctrl-C is not theirs; when this
// process dies, whatever way, the kernel ends them. A machine that another process is already is
// used as it is, left alone at the end, and started when that process has ended. Thread: one of its
// own; `stop` by the owner.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/bell.h"
#include "base/owned_file.h"
#include "base/result.h"
#include "cli/respawn.h"

namespace sluice::cli {

class Supervisor {
 public:
  struct Machine {
    std::string name;
    std::vector<std::string> command;
    std::string lock;            // whoever holds this file is the machine; empty: nobody is
    int death_signal = SIGTERM;  // what the kernel sends it when this process dies
    /// A socket for each of its lives, by which it shares weights; it has it as `weights_socket`.
    /// Empty: it does not.
    std::function<Result<OwnedFile>()> weights = {};
  };
  struct Status {
    std::string name;
    pid_t pid = 0;  // 0: it does not run now
    unsigned starts = 0;
    std::string ended;      // how it ended last; empty: it has not
    unsigned failing = 0;   // it keeps failing: so many ends in a row (`Respawn`); 0: it does not
    bool is_other = false;  // something else has started what runs now
  };
  /// `quiet`: what they print on standard output goes nowhere. `notice` takes a line about one that
  /// died.
  Supervisor(std::vector<Machine> machines, bool quiet,
             std::function<void(const std::string&)> notice);
  ~Supervisor() { stop(); }
  /// Asks all to end, and ends those that do not within five seconds.
  void stop();
  /// From now on `stop` waits for one second. Thread: any.
  void hurry() { hurry_.ring(); }
  /// Thread: any.
  std::vector<Status> status() const;

 private:
  struct Process {
    Machine machine;
    pid_t pid = -1;
    int handle = -1;      // readable when it has died; -1: it does not run
    bool is_ours = true;  // a child of this process
    Respawn respawn;
    Respawn::Time next{};
    unsigned starts = 0;
    std::string ended;
  };

  void watch();
  void start(Process& process);
  OwnedFile socket_for(const Machine& machine) const;
  /// True where another process is the machine already.
  bool use_other(Process& process);
  void died(Process& process);
  void plan_next(Process& process);
  void end_all();
  /// Waits for one that was told to end then; false: it has had its time.
  bool has_ended(const Process& process, Respawn::Time told);
  /// It has ended, or is left alone.
  static void forget(Process& process);
  /// Until one dies, something is due or `until`; true when asked to stop.
  bool wait(Respawn::Time until);

  mutable std::mutex mutex_;  // while a process is started or has ended, or `status` looks
  std::vector<Process> processes_;
  const bool quiet_;
  const std::function<void(const std::string&)> notice_;
  const Bell stop_, hurry_;
  bool is_hurried_ = false;  // of the thread
  std::thread thread_;
};

/// Where a machine that was started so finds the socket by which it shares weights.
inline constexpr int weights_socket = 3;

/// This program's own file.
std::string own_program();

}  // namespace sluice::cli
