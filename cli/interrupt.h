// Ctrl-C, and what else asks a program to end, as an event that can be waited for together with
// other descriptors, so that none is lost between a question and a wait.
//
// Thread: at most one Interrupts exists at a time; what it was before is restored behind it.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "base/bell.h"

namespace sluice::cli {

/// For good: who writes for a reader that is gone hears of it there, and nothing ends. Programs
/// that are started from here inherit none of it.
void survive_broken_pipes();

class Interrupts {
 public:
  /// ctrl_c: each one, as often as it is pressed. end: the first of Ctrl-C, SIGTERM and SIGHUP
  /// (where that is not ignored, as under nohup); from then on another Ctrl-C or SIGTERM ends the
  /// program. With
  /// `end`, a reader that is gone is an error of the stream that is written, and ends nothing.
  enum class Of : std::uint8_t { ctrl_c, end };
  explicit Interrupts(Of of);
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable from a signal until `take`.
  int descriptor() const { return bell_.descriptor(); }
  /// Whether one came since the last call.
  bool take();
  /// Which came first; 0: none has come.
  int signal() const;
  /// Of the program that a signal ended: what shells give for it.
  int status() const { return 128 + signal(); }
  /// "Ctrl-C", "SIGTERM, which `sluice down` sends too".
  std::string words() const;

 private:
  static constexpr std::array<int, 4> signals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};

  const Bell bell_;
  std::array<struct sigaction, signals.size()> before_{};
};

/// Asks what runs to stop when a signal comes or has come, from a thread of its own. Leaves the
/// event for who waits next.
class StopOnInterrupt {
 public:
  /// Borrows `interrupts`.
  StopOnInterrupt(const Interrupts& interrupts, std::function<void()> stop);
  ~StopOnInterrupt();

 private:
  void watch(const std::function<void()>& stop);

  const Interrupts& interrupts_;
  const Bell done_;
  std::thread thread_;
};

}  // namespace sluice::cli
