// Forwards for many tasks together: the planner decides who is in the next one, the text engine
// runs it, each task takes what is its own. Works through the same weights (the trunk's, an
// expert's) go together; pieces of pictures' encodings go before them.
//
// Tasks are borrowed from `add` to `remove`, which a task's owner calls for one that is done too:
// until then it counts among those that run, for its pages are about to be free, and who waits for
// pages goes on waiting. A forward that fails is run again task by task, so that only who is to
// blame fails; where memory runs out in it all that are in it fail, and where it runs out for one
// that takes what came of it, that one. Thread: one at a time. Source:
// omni-flow, section 5.2.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "engine/plan/planner.h"
#include "engine/storage/page_source.h"
#include "engine/tasks/task.h"

namespace sluice {

/// Who was in a forward.
struct ForwardRecord {
  std::span<const BatchItem> items;
  Nanoseconds began = 0, took = 0;
};

class ModelEngine {
 public:
  /// Borrows `text`.
  ModelEngine(TextEngine& text, PlannerOptions options) : text_(text), planner_(options) {
    text_.pages().promised = &planner_;
  }
  ~ModelEngine() {
    if (text_.pages().promised == &planner_) text_.pages().promised = nullptr;
  }
  ModelEngine(const ModelEngine&) = delete;
  ModelEngine& operator=(const ModelEngine&) = delete;

  /// Requires: a new id; not done.
  void add(TaskId id, Task& task);
  /// Requires: it is in no forward. One that there is not: nothing happens.
  void remove(TaskId id);
  /// Of a task that is done and not removed: another goes on where it ended, over the pages that
  /// were granted to it and that it has not taken, and waits for nobody. The first is removed.
  /// Requires: a new id; not done.
  void go_on(TaskId ended, TaskId id, Task& task);
  /// Of a task that is done and not removed: its pages, and those that it was granted and has not
  /// taken, are with another process, which gives them back: until it is removed who waits for
  /// pages goes on waiting.
  void gave_away(TaskId id) { planner_.gave_away(id); }
  /// All have been removed, or were refused.
  bool empty() const { return tasks_.empty(); }

  /// One forward. False: nobody can run now, also where somebody waits for pages that are read
  /// back, for which it waits a moment: step again while tasks are not done. `advanced`: all who
  /// were in it, and who was refused. Those that were refused are in the engine no more.
  bool step(std::vector<TaskId>& advanced);
  /// Where nobody computes, what has come into the pages meanwhile is taken over as behind a
  /// forward.
  void rest();
  /// There is more of that, which goes on soon.
  bool has_backlog() const { return source_ != nullptr && source_->has_backlog(); }
  /// Of what `use` gave: a task waits for it.
  bool waits_for_pages() const { return source_ != nullptr && source_->is_waited_for(); }
  /// Before others than its tasks' owners are waited for: of pages that other processes use too,
  /// those go back that nobody was granted.
  void settle();

  const Planner& planner() const { return planner_; }
  /// Tasks wait for what it has of their beginnings before they are planned. Borrows it; null:
  /// none. Requires: no tasks.
  void use(PageSource* source) { source_ = source; }
  /// Called after each forward; for those who watch.
  std::function<void(const ForwardRecord&)> watch;
  /// Called before pages are given to anybody, for who holds some that others may have: before
  /// what was read back is put into the pool, and before each plan.
  std::function<void(const Planner&)> make_room;
  /// Who has pages in other processes runs, and gives them back: so who could begin with fewer than
  /// it wants waits for those too. Else others may keep them, and it is cut off instead.
  bool others_run = false;

 private:
  struct Slot {
    TaskId id = 0;
    Task* task = nullptr;
    Work work;
    std::vector<std::size_t> before;  // tokens of each chunk's sequence
    std::size_t rows = 0;
    std::size_t hidden_at = 0, logits_at = 0;  // of its rows in the buffers below
    std::int32_t token = -1;
    Result<void> outcome;
  };

  bool plan(Nanoseconds now, std::vector<TaskId>& advanced);
  void run();
  void take(Nanoseconds took, std::vector<TaskId>& advanced);
  void hand(Slot& slot);
  void stop(TaskId id, const Task& task);
  void fail_all(const std::string& why, std::vector<TaskId>& advanced);
  void refuse(std::vector<TaskId>& ended);
  /// Pages may come back from another process, or from reads (`some_come_back`), for which each who
  /// waits for some waits on for a while: notes since when.
  void wait_for_others(std::size_t free, bool some_come_back, const RoomOfTenant& room_of,
                       Nanoseconds now);
  bool may_begin(const Task& task, const std::string& tenant) const;
  std::size_t run_pictures(std::span<Slot> slots);
  bool run_steps();
  void forward(std::span<Slot> slots);
  void last_rows(std::span<Slot> slots, std::size_t width);
  std::size_t width_of(const Work& work) const;
  void begin(TaskId id, const Task& task);
  void offer(TaskId id, const Task& task);
  void read_back(std::chrono::nanoseconds most);
  void forget(const Work& work);
  void cut_back(std::span<const Slot> slots);

  TextEngine& text_;
  Planner planner_;
  PageSource* source_ = nullptr;
  std::vector<PageSource::Ready> ready_;  // between the source and the planner
  bool only_waits_ = false;               // the last step did, and no forward has run since
  std::map<TaskId, Task*> tasks_;         // null: done, and not removed yet
  std::map<TaskId, Nanoseconds> short_since_;  // who waits for pages of other processes
  Batch batch_;
  Nanoseconds began_ = 0;
  std::vector<Slot> slots_;  // the first `used_` are in the forward; the others keep their memory
  std::size_t used_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<DecodeStep> steps_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> hidden_, part_, last_, logits_, part_logits_;
};

/// Of a clock that only rises.
Nanoseconds engine_clock();
/// Of a prompt, as forwards took lately. None: too few have run.
std::optional<double> cost_of_token(const Planner& planner);

}  // namespace sluice
