#include "engine/tasks/model_engine.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/check.h"
#include "engine/storage/storage_clock.h"

namespace sluice {

Nanoseconds engine_clock() { return storage_clock(); }

namespace {

/// How long a step waits for pages in which nobody can run; others may come in behind it.
constexpr std::chrono::milliseconds moment{5};

/// Of pages that other processes use too, for what those may give back.
constexpr Nanoseconds others_patience = 5'000'000'000;

}  // namespace

std::optional<double> cost_of_token(const Planner& planner) {
  if (!planner.costs().known()) return std::nullopt;
  const std::uint32_t rows = planner.options().budget;
  return static_cast<double>(planner.costs().of(rows)) / rows;
}

void ModelEngine::add(TaskId id, Task& task) {
  SLUICE_CHECK(!task.done() && tasks_.emplace(id, &task).second,
               "a new task has a number of its own");
  // Should memory run out its owner has not added it.
  const auto undo = [&](Task*) { remove(id); };
  std::unique_ptr<Task, decltype(undo)> in_part(&task, undo);
  const std::optional<Beginning> beginning =
      source_ != nullptr ? task.beginning() : std::optional<Beginning>();
  const bool waits =  // until its pages are there
      beginning.has_value() && may_begin(task, beginning->origin->tenant) &&
      source_->begin(id, *beginning->origin, beginning->tokens, cost_of_token(planner_),
                     engine_clock());
  if (!waits) begin(id, task);
  (void)in_part.release();
}

/// Of one that wants more than its tenant may have at all nothing is read: it is told at once.
bool ModelEngine::may_begin(const Task& task, const std::string& tenant) const {
  const std::optional<TenantRoom> room = text_.pages().tenant_room(tenant);
  return !room.has_value() || task.pages_wanted(text_).least <= room->quota;
}

void ModelEngine::begin(TaskId id, const Task& task) {
  planner_.begin(id, task.pages_wanted(text_));
  offer(id, task);
}

void ModelEngine::go_on(TaskId ended, TaskId id, Task& task) {
  auto moved = tasks_.extract(ended);
  SLUICE_CHECK(!moved.empty() && moved.mapped() == nullptr && !task.done(),
               "a task goes on where one that is done has ended");
  moved.key() = id;
  moved.mapped() = &task;
  SLUICE_CHECK(tasks_.insert(std::move(moved)).inserted, "a new task has a number of its own");
  planner_.hand_on(ended, id);
  offer(id, task);
}

void ModelEngine::remove(TaskId id) {
  if (tasks_.erase(id) == 0) return;
  planner_.end(id);
  short_since_.erase(id);
  if (source_ != nullptr) source_->forget(id);
}

void ModelEngine::settle() { text_.pages().settle(planner_.promised()); }

/// Tasks whose pages have come are planned from now on.
void ModelEngine::read_back(std::chrono::nanoseconds most) {
  if (make_room) make_room(planner_);  // for what is read
  source_->poll(engine_clock(), ready_, most);
  for (const PageSource::Ready& one : ready_) {
    Task& task = *tasks_.find(one.task)->second;
    task.found(one.tokens, one.of_folder);
    begin(one.task, task);
  }
  ready_.clear();
}

void ModelEngine::offer(TaskId id, const Task& task) { planner_.offer(id, task.need(text_)); }

bool ModelEngine::plan(Nanoseconds now, std::vector<TaskId>& ended) {
  KvPages& pages = text_.pages();
  // Of pages that other processes use too it is known what is free once that was asked for.
  if (pages.is_attached()) (void)pages.claim(planner_.wanted());
  if (make_room) make_room(planner_);
  began_ = now;
  batch_.clear();
  const std::size_t free = pages.claim(planner_.wanted());
  // Who waits for pages has those of its session.
  const bool some_come_back =
      source_ != nullptr && (source_->holds_pages() || source_->is_waited_for());
  const auto room_of = [&pages](const std::string& tenant) { return pages.tenant_room(tenant); };
  wait_for_others(free, some_come_back, std::ref(room_of), now);
  const auto waits_on = [&](TaskId id, bool may_begin) {
    const auto since = short_since_.find(id);
    return since != short_since_.end() && now - since->second < others_patience &&
           (some_come_back || others_run || !may_begin);
  };
  // By reference: each step comes here, and takes no memory.
  planner_.admit(static_cast<std::uint32_t>(free), static_cast<std::uint32_t>(pages.pages()),
                 batch_, std::ref(waits_on), std::ref(room_of));
  for (const PagesGranted& one : batch_.admitted) short_since_.erase(one.task);
  refuse(ended);
  // Those that are left there when something throws were never granted their pages.
  for (auto& left = batch_.admitted; !left.empty(); left.erase(left.begin())) {
    const PagesGranted granted = left.front();
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
    slot.before.clear();
    slot.task->lay_out(text_, item.rows, slot.work);
    for (const Chunk& chunk : slot.work.chunks) slot.before.push_back(chunk.sequence->tokens());
  }
  return used_ != 0;
}

void ModelEngine::wait_for_others(std::size_t free, bool some_come_back,
                                  const RoomOfTenant& room_of, Nanoseconds now) {
  const KvPages& pages = text_.pages();
  const bool others_have = (pages.is_attached() || some_come_back) && free < pages.pages();
  if (!others_have) return short_since_.clear();
  // Those who run here are waited for, however long they take, but by who lacks its tenant's pages.
  const bool runs = planner_.runs();
  for (const TaskId id : planner_.who_waits())
    if (!runs || planner_.is_over_quota(id, room_of))
      short_since_.try_emplace(id, now);
    else
      short_since_.erase(id);
}

void ModelEngine::refuse(std::vector<TaskId>& ended) {
  const KvPages& pages = text_.pages();
  ended.reserve(ended.size() + batch_.refused.size());
  for (const auto& [id, least, tenant] : batch_.refused) {
    Task& task = *tasks_.find(id)->second;
    if (const auto room = pages.tenant_room(tenant); room.has_value())
      task.fail(tenant_is_full(tenant, least, *room));
    else
      task.fail(Error{ErrorCode::exhausted,
                      "the KV pool is full: " + std::to_string(least) + " pages are needed, " +
                          std::to_string(pages.pages_free()) + " of " +
                          std::to_string(pages.pages()) + " are free; " +
                          (least > pages.pages() ? "ask for less" : "end a session") +
                          " or raise `pages`"});
    tasks_.erase(id);
    short_since_.erase(id);
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
    const Decoder* expert = slots[at].work.expert;
    std::size_t end = at;
    for (std::size_t i = at; i < used_; ++i)
      if (slots[i].work.expert == expert) std::swap(slots[end++], slots[i]);
    forward(slots.subspan(at, end - at));
    at = end;
  }
}

std::size_t ModelEngine::width_of(const Work& work) const {
  return work.expert != nullptr ? work.expert->width() : text_.shape().block.width;
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
  if (!text_.step(steps_, tokens_).ok()) {
    cut_back(std::span(slots_).first(used_));
    return false;
  }
  for (std::size_t i = 0; i < used_; ++i) slots_[i].token = tokens_[i];
  return true;
}

/// Works through the same weights.
void ModelEngine::forward(std::span<Slot> slots) {
  const Decoder* expert = slots.front().work.expert;
  const std::size_t width = width_of(slots.front().work);
  chunks_.clear();
  for (const Slot& slot : slots)
    chunks_.insert(chunks_.end(), slot.work.chunks.begin(), slot.work.chunks.end());
  const Result<void> ran = expert != nullptr ? text_.forward_expert(*expert, chunks_, part_)
                                             : text_.forward(chunks_, part_);
  if (!ran.ok()) cut_back(slots);
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

/// Rows that have their places, and were perhaps not written, are in their sequences no more:
/// whoever keeps or publishes those takes all of their rows for written ones. Nothing happens where
/// the engine has seen to it, as it should for an error that it returns.
void ModelEngine::cut_back(std::span<const Slot> slots) {
  for (const Slot& slot : slots)
    for (std::size_t i = 0; i < slot.before.size(); ++i) {
      KvSequence& sequence = *slot.work.chunks[i].sequence;
      if (sequence.tokens() > slot.before[i]) text_.pages().truncate(sequence, slot.before[i]);
    }
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
  rest();
}

void ModelEngine::rest() {
  const auto is_done = [](const auto& one) { return one.second == nullptr; };
  if (source_ == nullptr || !std::ranges::all_of(tasks_, is_done)) return;
  try {
    source_->rest();
  } catch (const std::bad_alloc&) {  // so it goes on with the next step
  }
}

/// It is done; its pages are its owner's until that removes it.
void ModelEngine::stop(TaskId id, const Task& task) {
  planner_.took(id, static_cast<std::uint32_t>(task.pages_taken()));
  tasks_.find(id)->second = nullptr;
}

/// Who was to be in the forward, laid out or not, whose pages have come but who is perhaps not
/// planned, and who was refused or admitted and has not heard of it: nobody else knows of them.
void ModelEngine::fail_all(const std::string& why, std::vector<TaskId>& advanced) {
  cut_back(std::span(slots_).first(std::exchange(used_, 0)));
  for (const PageSource::Ready& one : std::exchange(ready_, {})) {
    Task*& task = tasks_.find(one.task)->second;
    task->fail(Error{ErrorCode::unavailable, "it could not be begun: " + why});
    advanced.push_back(one.task);
    planner_.end(one.task);
    task = nullptr;
  }
  for (const PagesRefused& one : batch_.refused) {
    const auto it = tasks_.find(one.task);
    if (it == tasks_.end()) continue;
    it->second->fail(Error{ErrorCode::exhausted, "the KV pool is full, and then: " + why});
    advanced.push_back(one.task);
    tasks_.erase(it);
  }
  for (const PagesGranted& one : batch_.admitted) {
    Task*& task = tasks_.find(one.task)->second;
    if (task == nullptr) continue;  // it was read back just now
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
  used_ = 0;
  try {
    // Not after a step that only waited: a glance between two waits would count as other work, by
    // which the source judges how long pages take.
    if (source_ != nullptr && !std::exchange(only_waits_, false)) read_back({});
    if (!plan(engine_clock(), advanced)) {
      if (advanced.size() != before || source_ == nullptr ||
          !(source_->is_waited_for() || (source_->holds_pages() && planner_.waiting() > 0)))
        return false;
      // Nobody can run, and somebody waits for pages only. Whoever steps holds up others who want
      // the engine, so it waits no longer than a moment.
      read_back(moment);
      if (!plan(engine_clock(), advanced)) {
        only_waits_ = advanced.size() == before && source_->is_waited_for();
        return false;
      }
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
