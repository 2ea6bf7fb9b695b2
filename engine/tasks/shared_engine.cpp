#include "engine/tasks/shared_engine.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace sluice {

namespace {

/// Of a role whose task waits for another's that it cannot see.
constexpr std::chrono::milliseconds moment{2};

}  // namespace

SharedEngine::Turn::Turn(SharedEngine& shared) : shared_(shared) {
  std::unique_lock held(shared_.mutex_);
  const std::uint64_t ticket = shared_.next_ticket_++;
  shared_.changed_.wait(held, [&] { return shared_.serving_ == ticket; });
}

SharedEngine::Turn::~Turn() {
  shared_.engine_.settle();
  std::unique_lock held(shared_.mutex_);
  for (const auto* look : std::exchange(shared_.looks_, {})) (*look)();
  const std::uint64_t next = ++shared_.serving_;
  shared_.changed_.notify_all();
  if (!used_) shared_.changed_.wait_for(held, moment, [&] { return shared_.serving_ != next; });
}

bool SharedEngine::between_turns(const std::function<void()>& look,
                                 std::chrono::milliseconds patience) {
  std::unique_lock held(mutex_);
  if (serving_ == next_ticket_) {
    look();
    return true;
  }
  looks_.push_back(&look);
  const auto is_waiting = [&] { return std::ranges::find(looks_, &look) != looks_.end(); };
  if (changed_.wait_for(held, patience, [&] { return !is_waiting(); })) return true;
  std::erase(looks_, &look);
  return false;
}

TaskId SharedEngine::Turn::add(Task& task) {
  const TaskId id = shared_.next_id_++;
  shared_.engine_.add(id, task);
  return id;
}

TaskId SharedEngine::Turn::go_on(TaskId ended, Task& task) {
  const TaskId id = shared_.next_id_++;
  shared_.engine_.go_on(ended, id, task);
  return id;
}

bool SharedEngine::Turn::forward() {
  shared_.advanced_.clear();
  return shared_.engine_.step(shared_.advanced_);
}

}  // namespace sluice
