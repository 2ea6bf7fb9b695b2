// Role instances of which one runs at a time: a replica, or several roles that share a place
// (`colocate`).
//
// A lane takes activations first in, first out. What one of them causes for roles on this lane
// never leaves the thread and runs next, while its values are in the cache, up to `line_max` of it;
// then it waits like everybody. A stepped role's admitted activations advance together, and other
// work of the lane runs between its steps.
// Thread: `push` from any; the rest is the thread's that runs the lane, which is one at a time and
// not always the same. Owns: the instances.
// Errors: what a role throws fails the activation, or what is admitted, and nothing else.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "roles/role.h"
#include "runtime/inproc/activation.h"
#include "runtime/inproc/lane_ear.h"
#include "runtime/mailbox.h"

namespace sluice {

/// Activations linked through their own `next`, first in, first out.
class ActivationQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  LaneActivation* last() const { return last_; }
  void push(LaneActivation* activation) {
    activation->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = activation;
    last_ = activation;
  }
  LaneActivation* pop() {
    LaneActivation* const activation = first_;
    first_ = activation->next;
    if (first_ == nullptr) last_ = nullptr;
    return activation;
  }
  /// Takes all of `other`, behind what is here.
  void append(ActivationQueue& other) {
    if (other.empty()) return;
    (last_ == nullptr ? first_ : last_->next) = other.first_;
    last_ = other.last_;
    other.first_ = other.last_ = nullptr;
  }

 private:
  LaneActivation* first_ = nullptr;
  LaneActivation* last_ = nullptr;
};

class LaneThreads;

class Lane {
 public:
  explicit Lane(LaneThreads& threads) : threads_(threads) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Before anything is pushed. Returns the instance's index in this lane.
  std::size_t add(RoleInstance instance);
  /// Activations linked from the newest to the oldest; each stays alive until it is released.
  void push(LaneActivation* newest, LaneActivation* oldest);
  /// On the thread that runs it.
  void push_here(LaneActivation* activation) { caused_.push(activation); }
  bool is_here() const { return current_ == this; }
  /// Where whoever runs it waits until a role may yield.
  LaneEar& ear() { return ear_; }

  /// Runs what there is until nothing is left or `closing`. By whoever was told that it is ready.
  void work(const std::atomic<bool>& closing);
  /// When no thread runs it any more: ends what is left.
  void stop();

 private:
  /// A role and what is admitted to it, where it is a stepped one.
  struct Slot {
    RoleInstance instance;
    std::vector<LaneActivation*> admitted;
    std::vector<LaneActivation*> failed;  // ended when the role threw, which holds them still
    bool stalled = false;                 // it threw with nothing left to lose
  };

  /// True: nothing is left for this thread, and another may run the lane.
  bool leave();
  /// Runs it and what it causes here.
  void run_line(LaneActivation& activation);
  void run_one(LaneActivation& activation);
  void admit(Slot& slot, SteppedRole& role, LaneActivation& activation);
  bool step_all();
  /// True while it has work.
  bool step(Slot& slot, SteppedRole& role);
  /// Until all that is admitted may yield, or some of it is cancelled and the role has made no step
  /// since, which has to notice it.
  static void wait_to_step(const std::vector<LaneActivation*>& admitted);
  void step_threw(Slot& slot, const std::string& what);
  void returned(Slot& slot, StepOutcome& outcome);

  static thread_local Lane* current_;

  LaneThreads& threads_;
  std::vector<Slot> slots_;
  std::vector<StepOutcome> outcomes_;
  ActivationQueue queue_;
  ActivationQueue caused_;          // by what runs now
  bool stepping_ = false;           // a stepped role has work
  std::atomic<bool> taken_{false};  // a thread runs it, or is being found
  Mailbox<LaneActivation> mailbox_;
  LaneEar ear_;
};

}  // namespace sluice
