// Where roles wait until they may yield: the window of an edge that leaves their node is full, or
// too many of the node's frames wait for whoever drives the engines.
//
// Thread: `is_open`, `wait` and `comes` on lanes, `set`, `came` and `wake` by whoever drives.
// Bounds: `coming_max` frames of a node between its lanes and the engines, and one for each lane.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/plan.h"

namespace sluice {

/// Those who wait at gates of any workflow of the process: a role that several workflows share
/// waits for all of their gates at once.
class GateWaits {
 public:
  /// Until `done`, which may look at gates and at whether activations are cancelled.
  template <typename Done>
  void wait(const Done& done) {
    std::unique_lock lock(mutex_);
    waiting_.fetch_add(1);
    // Whoever changes something from here on sees that somebody waits, or is seen by `done`.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    changed_.wait(lock, done);
    waiting_.fetch_sub(1);
  }
  /// Something has changed: who waits looks again.
  void wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (waiting_.load() == 0) return;
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> waiting_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

class YieldGates {
 public:
  /// `waits`: of all workflows whose roles may be the same.
  YieldGates(std::size_t nodes, std::shared_ptr<GateWaits> waits)
      : gates_(nodes), waits_(std::move(waits)) {}

  bool is_open(NodeId node) const {
    const Gate& gate = gates_[node];
    return (!gate.full.load() && gate.coming.load() < coming_max) || ended_.load();
  }
  template <typename Done>
  void wait(const Done& done) {
    waits_->wait(done);
  }
  /// A frame is on its way to whoever drives.
  void comes(NodeId node) { gates_[node].coming.fetch_add(1); }

  void set(NodeId node, bool full) { gates_[node].full.store(full); }
  void came(NodeId node) { gates_[node].coming.fetch_sub(1); }
  void wake() { waits_->wake(); }
  /// The workflow ends: no window opens any more, and what is yielded goes nowhere. Who waits goes
  /// on, a role that needs several steps to end too.
  void end() {
    ended_.store(true);
    wake();
  }

 private:
  static constexpr std::uint32_t coming_max = 16;
  struct Gate {
    std::atomic<bool> full{false};
    std::atomic<std::uint32_t> coming{0};
  };

  std::vector<Gate> gates_;  // by node
  std::atomic<bool> ended_{false};
  const std::shared_ptr<GateWaits> waits_;
};

}  // namespace sluice
