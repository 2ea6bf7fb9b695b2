// A way between two machines that the test can hold up, cut and heal: TCP in, TCP out.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "base/random.h"

namespace sluice::testing {

/// Carries connections from one loopback port to another, byte for byte. Thread: one of its own.
class Proxy {
 public:
  /// `cut_after`: each connection is cut after about so many bytes; 0: never. `seed`: of which.
  Proxy(int from, int to, std::uint64_t cut_after, std::uint64_t seed);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy();

  /// Nothing is carried until it is let go; connections stay.
  void hold(bool held) { ask(held_, held); }
  /// Every connection is cut, and new ones are, until this is over.
  void part(bool parted) { ask(parted_, parted); }
  /// From now on no connection is cut by count.
  void heal() { ask(healed_, true); }
  int cuts() const { return cuts_; }

 private:
  struct Way {
    int a = -1, b = -1;
    std::uint64_t left = 0;  // bytes until the cut
    bool dead = false;
  };
  void ask(std::atomic<bool>& what, bool value);
  void run();
  void accept_one();
  void carry(Way& way, int from, int to);

  int to_;
  std::uint64_t cut_after_;
  SplitMix64 random_;
  int listener_ = -1;
  int wake_ = -1;
  std::list<Way> ways_;
  std::atomic<bool> held_{false}, parted_{false}, healed_{false}, done_{false};
  std::atomic<int> cuts_{0};
  std::thread thread_;
};

}  // namespace sluice::testing
