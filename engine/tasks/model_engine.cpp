#include "engine/tasks/model_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/check.h"

namespace sluice {

Nanoseconds engine_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

namespace {

/// None: too few forwards have run.
std::optional<double> cost_of_token(const Planner& planner) {
  if (!planner.costs().known()) return std::nullopt;
  const std::uint32_t rows = planner.options().budget;
  return static_cast<double>(planner.costs().of(rows)) / rows;
}

/// Between two looks at reads that take long.
constexpr std::chrono::milliseconds moment{100};

}  // namespace

void ModelEngine::add(TaskId id, Task& task) {
  SLUICE_CHECK(!task.done() && tasks_.emplace(id, &task).second,
               "a new task has a number of its own");
  const std::optional<Beginning> beginning =
      source_ != nullptr ? task.beginning() : std::optional<Beginning>();
  if (beginning.has_value() && source_->begin(id, *beginning->origin, beginning->tokens,
                                              cost_of_token(planner_), engine_clock()))
    return;  // until its pages are there
  begin(id, task);
}

void ModelEngine::begin(TaskId id, const Task& task) {
  planner_.begin(id, task.pages_wanted(text_));
  offer(id, task);
}

void ModelEngine::go_on(TaskId ended, TaskId id, Task& task) {
  const auto before = tasks_.find(ended);
  SLUICE_CHECK(before != tasks_.end() && before->second == nullptr && !task.done(),
               "a task goes on where one that is done has ended");
  SLUICE_CHECK(tasks_.emplace(id, &task).second, "a new task has a number of its own");
  tasks_.erase(before);
  planner_.hand_on(ended, id);
  offer(id, task);
}

void ModelEngine::remove(TaskId id) {
  if (tasks_.erase(id) == 0) return;
  planner_.end(id);
  if (source_ != nullptr) source_->forget(id);
}

/// Tasks whose pages have come are planned from now on.
void ModelEngine::read_back(std::chrono::nanoseconds most) {
  if (make_room) make_room(planner_);  // for what is read
  source_->poll(engine_clock(), ready_, most);
  for (const PageSource::Ready& one : ready_) {
    Task& task = *tasks_.find(one.task)->second;
    task.found(one.tokens);
    begin(one.task, task);
  }
  ready_.clear();
}

void ModelEngine::offer(TaskId id, const Task& task) { planner_.offer(id, task.need(text_)); }

bool ModelEngine::plan(Nanoseconds now, std::vector<TaskId>& ended) {
  if (make_room) make_room(planner_);
  began_ = now;
  batch_.clear();
  const KvPages& pages = text_.pages();
  planner_.admit(static_cast<std::uint32_t>(pages.pages_free()),
                 static_cast<std::uint32_t>(pages.pages()), batch_);
  refuse(ended);
  for (const PagesGranted& granted : batch_.admitted) {
    Task& task = *tasks_.find(granted.task)->second;
    task.grant(text_, granted.pages);
    planner_.took(granted.task, static_cast<std::uint32_t>(task.pages_taken()));
    offer(granted.task, task);
  }
  planner_.plan(now, batch_);
  used_ = 0;
  for (const BatchItem& item : batch_.items) {
    if (used_ == slots_.size()) slots_.emplace_back();
    Slot& slot = slots_[used_++];
    slot.id = item.task;
    slot.task = tasks_.find(item.task)->second;
    slot.rows = item.rows;
    slot.token = -1;
    slot.outcome = {};
    slot.work.clear();
    slot.task->lay_out(text_, item.rows, slot.work);
  }
  return used_ != 0;
}

void ModelEngine::refuse(std::vector<TaskId>& ended) {
  const KvPages& pages = text_.pages();
  for (const auto& [id, least] : batch_.refused) {
    Task& task = *tasks_.find(id)->second;
    task.fail(
        Error{ErrorCode::exhausted, "the KV pool is full: " + std::to_string(least) +
                                        " pages are needed, " + std::to_string(pages.pages_free()) +
                                        " of " + std::to_string(pages.pages()) + " are free; " +
                                        (least > pages.pages() ? "ask for less" : "end a session") +
                                        " or raise `pages`"});
    tasks_.erase(id);
    ended.push_back(id);
  }
}

void ModelEngine::run() {
  const std::span<Slot> slots = std::span(slots_).first(used_);
  if (run_steps()) return;
  hidden_.clear();
  logits_.clear();
  // Those through the same weights stand together.
  for (std::size_t at = run_pictures(slots); at < used_;) {
    const Expert expert = slots[at].work.expert;
    std::size_t end = at;
    for (std::size_t i = at; i < used_; ++i)
      if (slots[i].work.expert == expert) std::swap(slots[end++], slots[i]);
    forward(slots.subspan(at, end - at));
    at = end;
  }
}

std::size_t ModelEngine::width_of(const Work& work) const {
  return work.expert.decoder != nullptr ? work.expert.decoder->width() : text_.shape().block.width;
}

/// They stand first then. Returns how many.
std::size_t ModelEngine::run_pictures(std::span<Slot> slots) {
  std::size_t count = 0;
  for (Slot& slot : slots) {
    if (slot.work.picture == nullptr) continue;
    slot.work.picture->run(slot.work.pieces);
    std::swap(slots[count++], slot);
  }
  return count;
}

/// On an engine that chooses tokens itself. False: not all of the works are such, or they do not
/// run together.
bool ModelEngine::run_steps() {
  steps_.clear();
  for (const Slot& slot : std::span(slots_).first(used_)) {
    if (!slot.work.step.has_value() || !text_.steps(slot.work.step->sampling)) return false;
    steps_.push_back(*slot.work.step);
  }
  if (!text_.step(steps_, tokens_).ok()) return false;
  for (std::size_t i = 0; i < used_; ++i) slots_[i].token = tokens_[i];
  return true;
}

/// Works through the same weights.
void ModelEngine::forward(std::span<Slot> slots) {
  const Expert& expert = slots.front().work.expert;
  const std::size_t width = width_of(slots.front().work);
  chunks_.clear();
  for (const Slot& slot : slots)
    chunks_.insert(chunks_.end(), slot.work.chunks.begin(), slot.work.chunks.end());
  const Result<void> ran = expert.decoder != nullptr ? text_.forward_expert(expert, chunks_, part_)
                                                     : text_.forward(chunks_, part_);
  if (!ran.ok() && slots.size() > 1) {
    for (std::size_t i = 0; i < slots.size(); ++i) forward(slots.subspan(i, 1));
    return;
  }
  std::size_t at = hidden_.size();
  for (Slot& slot : slots) {
    slot.outcome = ran;
    slot.hidden_at = at;
    at += slot.rows * width;
  }
  if (!ran.ok()) return;
  hidden_.insert(hidden_.end(), part_.begin(), part_.end());
  last_rows(slots, width);
}

/// The last rows of all that want logits go through the head together.
void ModelEngine::last_rows(std::span<Slot> slots, std::size_t width) {
  last_.clear();
  for (Slot& slot : slots) {
    if (!slot.work.wants_logits) continue;
    slot.logits_at = logits_.size() + last_.size() / width * text_.shape().vocabulary;
    const auto last = std::span(hidden_).subspan(slot.hidden_at + (slot.rows - 1) * width, width);
    last_.insert(last_.end(), last.begin(), last.end());
  }
  if (last_.empty()) return;
  const Result<void> ran = text_.logits(last_, part_logits_);
  for (Slot& slot : slots)
    if (slot.work.wants_logits) slot.outcome = ran;
  if (ran.ok()) logits_.insert(logits_.end(), part_logits_.begin(), part_logits_.end());
}

void ModelEngine::forget(const Work& work) {
  const std::size_t width = width_of(work);
  for (const Chunk& chunk : work.chunks)
    text_.pages().truncate(*chunk.sequence,
                           chunk.sequence->tokens() - chunk.embeddings.size() / width);
}

/// To its task, with what came of its work.
void ModelEngine::hand(Slot& slot) {
  Task& task = *slot.task;
  if (slot.outcome.ok() && slot.work.is_scratch) forget(slot.work);
  if (!slot.outcome.ok()) {
    task.fail(slot.outcome.error());
  } else if (slot.work.picture != nullptr) {
    task.take(text_, {});
  } else if (slot.token >= 0) {
    task.take(text_, {{}, {}, slot.token});
  } else {
    const auto hidden = std::span(hidden_).subspan(slot.hidden_at, slot.rows * width_of(slot.work));
    const auto logits = slot.work.wants_logits
                            ? std::span(logits_).subspan(slot.logits_at, text_.shape().vocabulary)
                            : std::span<const float>();
    task.take(text_, {hidden, logits, -1});
  }
  if (task.done()) return;
  planner_.took(slot.id, static_cast<std::uint32_t>(task.pages_taken()));
  offer(slot.id, task);
}

/// A task for which memory runs out is done, and the next one has its turn.
void ModelEngine::take(Nanoseconds took, std::vector<TaskId>& advanced) {
  for (Slot& slot : std::span(slots_).first(used_)) {
    try {
      hand(slot);
    } catch (const std::bad_alloc&) {
      slot.task->fail(Error{ErrorCode::exhausted, "out of memory"});  // short: takes none
    } catch (const std::exception& e) {
      slot.task->fail(Error{ErrorCode::unavailable, e.what()});
    }
    advanced.push_back(slot.id);
    if (slot.task->done()) stop(slot.id, *slot.task);
  }
  planner_.ran(batch_, took);
  if (watch) watch({batch_.items, began_, took});
  used_ = 0;
}

/// It is done; its pages are its owner's until that removes it.
void ModelEngine::stop(TaskId id, const Task& task) {
  planner_.took(id, static_cast<std::uint32_t>(task.pages_taken()));
  tasks_.find(id)->second = nullptr;
}

/// Who was to be in the forward, laid out or not, and whose pages have come but who is perhaps not
/// planned: nobody else knows of them.
void ModelEngine::fail_all(const std::string& why, std::vector<TaskId>& advanced) {
  used_ = 0;
  for (const PageSource::Ready& one : std::exchange(ready_, {})) {
    Task*& task = tasks_.find(one.task)->second;
    task->fail(Error{ErrorCode::unavailable, "it could not be begun: " + why});
    advanced.push_back(one.task);
    planner_.end(one.task);
    task = nullptr;
  }
  for (const BatchItem& item : batch_.items) {
    const auto it = tasks_.find(item.task);
    if (it == tasks_.end() || it->second == nullptr) continue;
    it->second->fail(Error{ErrorCode::unavailable, "the forward could not be run: " + why});
    advanced.push_back(item.task);
    stop(item.task, *it->second);
  }
}

bool ModelEngine::step(std::vector<TaskId>& advanced) {
  const std::size_t before = advanced.size();
  batch_.clear();  // nobody is in this forward yet, should it fail before it is planned
  try {
    if (source_ != nullptr) read_back({});
    // Nobody can run, and somebody waits for pages only.
    while (!plan(engine_clock(), advanced)) {
      if (advanced.size() != before || source_ == nullptr || !source_->is_waited_for())
        return false;
      read_back(moment);
    }
    advanced.reserve(advanced.size() + used_);
    run();
  } catch (const std::exception& e) {  // memory
    fail_all(e.what(), advanced);
    return true;
  }
  take(engine_clock() - began_, advanced);
  return true;
}

}  // namespace sluice
