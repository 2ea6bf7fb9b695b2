// One engine for several roles: whoever's turn it is runs a forward for all of them.
//
// A role takes its turn, in the order in which roles ask; the turn gives it the engine, the pages
// and all that the roles keep beside them. It may run one forward, in which the tasks of all roles
// advance, and ends its turn soon. While the forward runs the mutex is free; who asks for a turn
// then waits for that one forward, never for an answer or a drawing of another.
// Thread: any. Source: omni-flow, section 5.2.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "engine/tasks/model_engine.h"

namespace sluice {

class SharedEngine {
 public:
  /// Borrows `text`.
  SharedEngine(TextEngine& text, PlannerOptions options) : engine_(text, options) {}

  class Turn {
   public:
    explicit Turn(SharedEngine& shared);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    ModelEngine& engine() { return shared_.engine_; }
    /// Under a number of its own.
    TaskId add(Task& task);
    /// Where one that is done has ended, as `ModelEngine::go_on`.
    TaskId go_on(TaskId ended, Task& task);
    /// One forward of all tasks that want one. False: nobody does.
    bool forward();
    /// Something happened in it. A turn in which nothing did ends when another role has had one,
    /// or after a moment: who waits for another role's task does not spin.
    void was_used() { used_ = true; }

   private:
    SharedEngine& shared_;
    bool used_ = false;
  };

  /// Runs `look` while nobody has a turn: at once, or at the end of the turn that somebody has, on
  /// that thread. It is short and takes no turn. False: that end has not come within `patience`;
  /// `look` runs no more. Thread: any, without a turn.
  bool between_turns(const std::function<void()>& look, std::chrono::milliseconds patience);

 private:
  ModelEngine engine_;
  TaskId next_id_ = 1;
  std::vector<TaskId> advanced_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ticket_ = 0, serving_ = 0;
  std::vector<const std::function<void()>*> looks_;  // of those who wait for a turn's end
};

}  // namespace sluice
