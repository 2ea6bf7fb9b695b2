#include "engine/plan/planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace sluice {

void Planner::begin(TaskId task, PagesWanted pages) {
  const auto [it, made] = tasks_.try_emplace(task);
  SLUICE_CHECK(made && pages.least <= pages.most, "a task begins once, and says what it wants");
  State& state = it->second;
  state.last_turn = plans_;
  if (!pages.tenant.empty()) {
    state.tenant = &*tenants_.try_emplace(pages.tenant).first;
    ++state.tenant->second.tasks;
    state.tenant->second.waits += pages.most;
  }
  state.wanted = std::move(pages);
  waiting_.push_back(task);
}

void Planner::offer(TaskId task, const Need& need) {
  const auto it = tasks_.find(task);
  SLUICE_CHECK(it != tasks_.end() && need.rows > 0, "a task that has begun offers rows");
  SLUICE_CHECK(need.least > 0, "a part of a need has rows");
  State& state = it->second;
  // A need that goes on waits on: who offers the same again does not go to the end.
  if (!state.offers) state.offered = plans_;
  state.offers = true;
  state.need = need;
}

void Planner::took(TaskId task, std::uint32_t pages) {
  const auto it = tasks_.find(task);
  SLUICE_CHECK(it != tasks_.end() && pages <= it->second.granted,
               "a task takes no more pages than it was granted");
  State& state = it->second;
  reserve(state, state.granted - pages);
}

void Planner::reserve(State& state, std::uint32_t left) {
  reserved_ = reserved_ - state.left + left;
  if (state.tenant != nullptr)
    state.tenant->second.reserved = state.tenant->second.reserved - state.left + left;
  state.left = left;
}

/// Before it goes.
void Planner::forget(State& state) {
  reserve(state, 0);
  if (state.tenant == nullptr) return;
  Tenant& tenant = state.tenant->second;
  if (!state.admitted)
    tenant.waits -= state.wanted.most;
  else if (state.wanted.gives_back)
    --tenant.runs;
  if (--tenant.tasks == 0) tenants_.erase(tenants_.find(state.tenant->first));
  state.tenant = nullptr;
}

void Planner::gave_away(TaskId task) {
  const auto it = tasks_.find(task);
  SLUICE_CHECK(it != tasks_.end(), "who gives pages away has begun");
  reserve(it->second, 0);
}

void Planner::end(TaskId task) {
  const auto it = tasks_.find(task);
  if (it == tasks_.end()) return;
  if (!it->second.admitted) std::erase(waiting_, task);
  forget(it->second);
  tasks_.erase(it);
}

void Planner::hand_on(TaskId from, TaskId to) {
  auto moved = tasks_.extract(from);
  SLUICE_CHECK(!moved.empty() && moved.mapped().admitted, "what is handed on was granted");
  State& state = moved.mapped();
  state.granted = state.left;  // what was taken is no more the new one's to give back
  state.wanted.least = state.wanted.most = state.left;
  state.offers = false;
  state.last_turn = plans_;
  moved.key() = to;
  SLUICE_CHECK(tasks_.insert(std::move(moved)).inserted, "a task begins once");
}

bool Planner::is_admitted(TaskId task) const {
  const auto it = tasks_.find(task);
  return it != tasks_.end() && it->second.admitted;
}

bool Planner::is_over_quota(TaskId task, const RoomOfTenant& room_of) const {
  const auto it = tasks_.find(task);
  if (it == tasks_.end() || it->second.tenant == nullptr || !room_of) return false;
  const PagesWanted& wanted = it->second.wanted;
  const std::optional<TenantRoom> room = room_of(wanted.tenant);
  const Tenant& tenant = it->second.tenant->second;
  return room.has_value() && tenant.runs == 0 && tenant.reserved + wanted.most > room->free();
}

bool Planner::has_admitted(bool who_gives_back) const {
  return std::ranges::any_of(tasks_, [&](const auto& one) {
    return one.second.admitted && (one.second.wanted.gives_back || !who_gives_back);
  });
}

void Planner::refuse(TaskId task, bool for_tenant, Batch& batch) {
  const auto it = tasks_.find(task);
  State& state = it->second;
  forget(state);
  batch.refused.push_back(
      {task, state.wanted.least, for_tenant ? std::move(state.wanted.tenant) : std::string()});
  tasks_.erase(it);
}

void Planner::refuse_too_large(std::uint32_t pages_all, Batch& batch, const RoomOfTenant& room_of) {
  std::erase_if(waiting_, [&](TaskId task) {
    const State& state = tasks_.find(task)->second;
    const auto room =
        state.tenant != nullptr && room_of ? room_of(state.wanted.tenant) : std::nullopt;
    const bool for_tenant = room.has_value() && state.wanted.least > room->quota;
    if (state.wanted.least <= pages_all && !for_tenant) return false;
    refuse(task, for_tenant, batch);
    return true;
  });
}

std::optional<std::uint32_t> Planner::within_quota(
    TaskId task, State& state, const RoomOfTenant& room_of,
    const std::function<bool(TaskId, bool)>& more_may_come) const {
  const PagesWanted& wanted = state.wanted;
  if (state.tenant == nullptr || !room_of) return wanted.most;
  const std::optional<TenantRoom> room = room_of(wanted.tenant);
  if (!room.has_value()) return wanted.most;
  Tenant& tenant = state.tenant->second;
  if (tenant.blocked == admissions_) return std::nullopt;  // behind another of its tenant
  if (tenant.reserved + wanted.most <= room->free()) return wanted.most;
  const bool is_some = wanted.least <= room->free();
  const bool waits = tenant.runs > 0 || (more_may_come && more_may_come(task, is_some));
  if (!waits && is_some) return room->free();
  // Where it cannot even begin, and none of its tenant runs, one behind it may.
  const bool is_passed = tenant.runs == 0 && !is_some;
  (is_passed ? tenant.passed : tenant.blocked) = admissions_;
  if (is_passed) state.lacks = State::Lacks::quota;
  state.waits = waits;
  return std::nullopt;
}

void Planner::grant(TaskId task, std::uint32_t pages, Batch& batch) {
  State& state = tasks_.find(task)->second;
  state.admitted = true;
  state.offered = plans_;
  state.granted = pages;
  reserve(state, pages);
  if (state.tenant != nullptr) {
    Tenant& tenant = state.tenant->second;
    tenant.waits -= state.wanted.most;
    tenant.runs += state.wanted.gives_back ? 1 : 0;
    if (tenant.passed == admissions_) tenant.blocked = admissions_;  // one is enough
  }
  batch.admitted.push_back({task, pages});
}

/// They take nothing from those that wait for pages.
void Planner::admit_without_pages(Batch& batch) {
  std::erase_if(waiting_, [&](TaskId task) {
    if (tasks_.find(task)->second.wanted.most != 0) return false;
    grant(task, 0, batch);
    return true;
  });
}

/// In the order in which they came: a small one does not overtake, or a large one would wait for
/// ever. But where nobody runs, and one cannot even begin, the next that can goes first: it may
/// have what the other lacks, as pages of its session. Who waits for its own tenant's tasks is
/// overtaken by those of others.
void Planner::admit(std::uint32_t pages_free, std::uint32_t pages_all, Batch& batch,
                    const std::function<bool(TaskId, bool)>& more_may_come,
                    const RoomOfTenant& room_of) {
  ++admissions_;
  batch.admitted.clear();
  batch.refused.clear();
  // From here on no memory is taken: a task is admitted or refused where the batch says so, only.
  batch.admitted.reserve(waiting_.size());
  batch.refused.reserve(waiting_.size());
  refuse_too_large(pages_all, batch, room_of);
  const bool alone = options_.policy == Policy::isolated;
  if (!alone) admit_without_pages(batch);
  bool others = has_admitted(!alone), is_passed = false, soon = false;
  std::size_t at = 0, kept = 0;
  for (; at < waiting_.size(); ++at) {
    const TaskId task = waiting_[at];
    State& state = tasks_.find(task)->second;
    const PagesWanted& wanted = state.wanted;
    if (alone && others) break;
    const std::optional<std::uint32_t> own = within_quota(task, state, room_of, more_may_come);
    if (!own.has_value()) {
      waiting_[kept++] = task;
      continue;
    }
    std::uint32_t pages = *own;
    if (reserved_ + pages > pages_free) {
      if (others) break;
      // Nobody runs who can give pages back.
      const bool is_some = wanted.least <= pages_free;
      const bool waits = more_may_come && more_may_come(task, is_some);
      soon = waits && is_some;
      if (soon) break;
      if (!is_some) {
        state.lacks = State::Lacks::pages;
        state.waits = waits;
        is_passed = true;
        waiting_[kept++] = task;
        continue;
      }
      pages = pages_free;
    }
    grant(task, pages, batch);
    others = true;
    if (is_passed) {
      ++at;
      break;
    }
  }
  waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(kept),
                 waiting_.begin() + static_cast<std::ptrdiff_t>(at));
  refuse_who_lacks(batch, alone, soon);
}

void Planner::refuse_who_lacks(Batch& batch, bool alone, bool soon) {
  const bool others = has_admitted(!alone);
  std::erase_if(waiting_, [&](TaskId task) {
    State& state = tasks_.find(task)->second;
    const State::Lacks lacks = std::exchange(state.lacks, State::Lacks::nothing);
    if (lacks == State::Lacks::nothing) return false;
    const bool for_tenant = lacks == State::Lacks::quota;
    const bool others_run = for_tenant ? state.tenant->second.runs > 0 : others;
    if (others_run ? ++state.overtaken <= overtaken_most : state.waits || soon) return false;
    refuse(task, for_tenant, batch);
    return true;
  });
}

std::uint64_t Planner::promised_to(std::string_view tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.reserved;
}

std::uint64_t Planner::wanted_by(std::string_view tenant) const {
  const auto it = tenants_.find(tenant);
  return it == tenants_.end() ? 0 : it->second.reserved + it->second.waits;
}

std::uint64_t Planner::wanted() const {
  std::uint64_t wanted = reserved_;
  for (const TaskId task : waiting_) wanted += tasks_.find(task)->second.wanted.most;
  return wanted;
}

bool Planner::fits(std::uint32_t pages_free, const RoomOfTenant& room_of) const {
  std::uint64_t all = wanted();
  if (all <= pages_free || !room_of) return all <= pages_free;
  for (const auto& [name, tenant] : tenants_) {
    const std::optional<TenantRoom> room = room_of(name);
    if (!room.has_value()) continue;
    const std::uint64_t free =
        room->free() - std::min<std::uint64_t>(room->free(), tenant.reserved);
    all -= tenant.waits - std::min(tenant.waits, free);
  }
  return all <= pages_free;
}

/// All that may run, in the order in which they are taken.
void Planner::gather() {
  candidates_.clear();
  for (const auto& [task, state] : tasks_) {
    if (!state.admitted || !state.offers) continue;
    const std::uint64_t since = std::max(state.last_turn, state.offered);
    candidates_.push_back({task, &state, plans_ - since >= options_.wait_most});
  }
  std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
    const auto place = [](const Candidate& c) {
      const Need& need = c.state->need;
      // Who has waited too long goes by how long; the others by what they are.
      if (c.overdue) return std::tuple(0, 0, no_deadline, c.state->last_turn, c.task);
      return std::tuple(need.kind == Need::Kind::step ? 1 : 2, -int{need.priority}, need.deadline,
                        c.state->last_turn, c.task);
    };
    return place(a) < place(b);
  });
}

void Planner::take(const Candidate& candidate, std::uint32_t most, Batch& batch) const {
  const Need& need = candidate.state->need;
  std::uint32_t rows = need.rows;
  if (rows > most) {
    const std::uint32_t least = need.divisible ? std::min(need.least, need.rows) : need.rows;
    // What is larger than what is left of the budget goes first into another forward.
    if (most < least && !batch.items.empty()) return;
    rows = std::max(least, most - most % least);
  }
  batch.items.push_back({candidate.task, rows});
  batch.rows += rows;
}

/// Rows of prompts beside which every urgent step that can still end in time does; all of the
/// budget where nothing is urgent or costs are not known.
std::uint32_t Planner::rows_in_time(Nanoseconds now) const {
  std::uint32_t rows = options_.budget;
  if (!costs_.known()) return rows;
  for (const Candidate& candidate : candidates_) {
    const Need& need = candidate.state->need;
    if (need.kind != Need::Kind::step || need.deadline == no_deadline) continue;
    const std::uint32_t within = costs_.rows_within(need.deadline - now);
    if (within != 0) rows = std::min(rows, within);
  }
  return rows;
}

void Planner::plan(Nanoseconds now, Batch& batch) {
  batch.items.clear();
  batch.rows = 0;
  ++plans_;
  gather();
  const std::uint32_t in_time = rows_in_time(now);
  for (const Candidate& candidate : candidates_) {
    if (batch.items.size() == options_.tasks_most) break;
    const bool is_prompt = candidate.state->need.kind == Need::Kind::prompt;
    const std::uint32_t budget = is_prompt && !candidate.overdue ? in_time : options_.budget;
    if (batch.rows >= budget) continue;
    take(candidate, budget - batch.rows, batch);
  }
  for (const BatchItem& item : batch.items) {
    State& state = tasks_.find(item.task)->second;
    state.last_turn = plans_;
    state.offers = false;
  }
}

void Planner::ran(const Batch& batch, Nanoseconds duration) {
  if (batch.rows != 0) costs_.learn(batch.rows, duration);
}

}  // namespace sluice
