// One thread that runs role instances: a replica, or several roles that share a place (`colocate`).
//
// A lane takes activations first in, first out. What one of them causes for roles on this lane
// never leaves the thread and runs next, while its values are in the cache, up to `line_max` of it;
// then it waits like everybody. A stepped role's admitted activations advance together, and other
// work of the lane runs between its steps.
// Thread: `push` from any; roles are called on the lane's own thread. Owns: the instances.
// Errors: what a role throws fails the activation, or what is admitted, and nothing else.
#pragma once

#include <string>
#include <thread>
#include <vector>

#include "roles/role.h"
#include "runtime/inproc/activation.h"
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

class Lane {
 public:
  Lane() = default;
  /// Waits for what runs; what has not begun ends cancelled, and so does what is admitted.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Before `run`. Returns the instance's index in this lane.
  std::size_t add(RoleInstance instance);
  /// `threads`: those that its roles may compute on; 0: all.
  void run(std::uint32_t threads);
  /// Activations linked from the newest to the oldest; each stays alive until it is released.
  void push(LaneActivation* newest, LaneActivation* oldest) { mailbox_.push(newest, oldest); }
  /// On this lane's own thread.
  void push_here(LaneActivation* activation) { caused_.push(activation); }
  bool is_here() const { return current_ == this; }

 private:
  /// A role and what is admitted to it, where it is a stepped one.
  struct Slot {
    RoleInstance instance;
    std::vector<LaneActivation*> admitted;
    std::vector<LaneActivation*> failed;  // ended when the role threw, which holds them still
    bool stalled = false;                 // it threw with nothing left to lose
  };

  void work(std::uint32_t threads);
  /// Runs it and what it causes here.
  void run_line(LaneActivation& activation);
  void run_one(LaneActivation& activation);
  void admit(Slot& slot, SteppedRole& role, LaneActivation& activation);
  bool step_all();
  /// True while it has work.
  bool step(Slot& slot, SteppedRole& role);
  /// Until all that is admitted may yield, or some of it is cancelled, which the role has to
  /// notice.
  static void wait_to_step(const Slot& slot);
  void step_threw(Slot& slot, const std::string& what);
  void returned(Slot& slot, StepOutcome& outcome);
  void stop();

  static thread_local Lane* current_;

  std::vector<Slot> slots_;
  std::vector<StepOutcome> outcomes_;
  ActivationQueue queue_;
  ActivationQueue caused_;  // by what runs now
  bool stepping_ = false;   // a stepped role has work
  Mailbox<LaneActivation> mailbox_;
  std::thread thread_;
};

}  // namespace sluice
