// One thread that runs role instances: a replica, or several roles that share a place (`colocate`).
//
// A lane takes activations first in, first out; a stepped role's admitted activations advance
// together, and other work of the lane runs between its steps. What a role on this lane causes for
// another one on it never leaves the thread.
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
  void push_here(LaneActivation* activation);
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
  void run_one(LaneActivation& activation);
  void admit(Slot& slot, SteppedRole& role, LaneActivation& activation);
  bool step_all();
  /// True while it has work.
  bool step(Slot& slot, SteppedRole& role);
  void step_threw(Slot& slot, const std::string& what);
  void returned(Slot& slot, StepOutcome& outcome);
  void stop();

  static thread_local Lane* current_;

  std::vector<Slot> slots_;
  std::vector<StepOutcome> outcomes_;
  LaneActivation* first_ = nullptr;  // the queue: what is next
  LaneActivation* last_ = nullptr;
  Mailbox<LaneActivation> mailbox_;
  std::thread thread_;
};

}  // namespace sluice
