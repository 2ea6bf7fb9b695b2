// Which of the offered works go into the next forward: a state machine without the models.
//
// A task is whatever wants forwards: an answer, a drawing. It is admitted when all pages that it
// will ever take are free, so no forward runs out of pages and no task fails in the middle for
// want of them; those that do not fit yet wait in the order in which they came, and one that wants
// none is admitted at once. One whose tenant may have no more pages waits for tasks of its tenant
// alone, and in nobody else's way. Where nobody runs who gives pages back when it ends, and its
// least fits, a task gets all that there is, and ends with that; where it does not, one that came
// later goes first if it can begin, eight times, and else the task is refused. An admitted task
// offers one need at a time. Each plan fills a budget of rows: first what has waited too long, then
// steps (a token, a velocity: somebody waits for each), the earliest deadline first, then pieces of
// prompts. Among equals the one goes first whose last turn is longest ago. Thread: one. Units: rows
// (tokens), pages, nanoseconds of any one clock. Bounds: a plan's rows are at most the budget, or
// the least part of one need; a need that is offered gets rows within `wait_most` plans and as many
// more as the rows that wait with it take. Cost: tasks times their logarithm for a plan; no
// allocation once the lists have grown. Source: omni-flow, section 5.2; OxyGen, section 4.2
// (decoding batched across control cycles).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/page_tenants.h"
#include "dataplane/promised_pages.h"
#include "engine/plan/costs.h"

namespace sluice {

using TaskId = std::uint64_t;
inline constexpr Nanoseconds no_deadline = std::numeric_limits<Nanoseconds>::max();

/// What a task wants of its next forward.
struct Need {
  enum class Kind : std::uint8_t { step, prompt } kind = Kind::step;
  std::uint32_t rows = 1;
  bool divisible = false;              // may be given a part of its rows
  std::uint8_t priority = 0;           // higher first
  Nanoseconds deadline = no_deadline;  // when the step must have ended
  std::uint32_t least = 1;             // a part is so many rows or a multiple, or all that are left
};

struct BatchItem {
  TaskId task = 0;
  std::uint32_t rows = 0;
};

/// Pages that a task will take until its end, beyond those it has when it begins.
struct PagesWanted {
  std::uint32_t least = 0;  // with fewer it cannot run
  std::uint32_t most = 0;
  bool gives_back = true;  // pages, when it ends; a picture's encoding has none
  std::string tenant{};    // whose they are; empty: nobody's
};
struct PagesGranted {
  TaskId task = 0;
  std::uint32_t pages = 0;
};
struct PagesRefused {
  TaskId task = 0;
  std::uint32_t least = 0;
  std::string tenant{};  // that may not have so many; empty: the pool has not
};
/// What a tenant may have and holds; none: there is no such limit.
using RoomOfTenant = std::function<std::optional<TenantRoom>(const std::string& tenant)>;

/// Who goes into a forward, and who was admitted or refused before it.
struct Batch {
  std::vector<BatchItem> items;
  std::uint32_t rows = 0;
  std::vector<PagesGranted> admitted;
  std::vector<PagesRefused> refused;  // they want more than can become free

  void clear() {
    items.clear();
    rows = 0;
    admitted.clear();
    refused.clear();
  }
};

enum class Policy : std::uint8_t {
  continuous,  // as above
  isolated,    // one task from its beginning to its end, then the next: what others are measured by
};

struct PlannerOptions {
  std::uint32_t budget = 256;     // rows of a forward
  std::uint32_t tasks_most = 64;  // in one forward
  std::uint32_t wait_most = 16;   // plans that an offered need waits before it goes first
  Policy policy = Policy::continuous;
};

class Planner final : public PromisedPages {
 public:
  static constexpr std::uint32_t overtaken_most = 8;  // while it cannot begin and nobody runs

  explicit Planner(PlannerOptions options) : options_(options) {}

  /// A new task. Requires: a new id; least <= most.
  void begin(TaskId task, PagesWanted pages);
  /// Its next need; instead of the one before. Requires: it has begun; rows > 0.
  void offer(TaskId task, const Need& need);
  /// How many of the pages that were granted it holds now.
  void took(TaskId task, std::uint32_t pages);
  /// Its reservation is given back. A task that there is not: nothing happens.
  void end(TaskId task);

  /// What it was granted is elsewhere now, whether it has taken it or not.
  void gave_away(TaskId task);
  /// `to`, which is new, has what `from` was granted and has not taken, and runs from now on;
  /// `from` ends. Requires: `from` is admitted.
  void hand_on(TaskId from, TaskId to);

  /// Who may run from now on. `pages_free`: in the page table now, those that are reserved here
  /// among them; of `pages_all`. `batch` gets who was admitted or refused: who wants more than
  /// there are at once, others when nobody runs whose pages could become free. `more_may_come`:
  /// from others than those who run here, for which a task that wants more than there is waits;
  /// told whether there is enough to begin with; null: none do. `room_of`: null: nobody has a
  /// limit.
  void admit(std::uint32_t pages_free, std::uint32_t pages_all, Batch& batch,
             const std::function<bool(TaskId, bool)>& more_may_come = {},
             const RoomOfTenant& room_of = {});
  /// Who goes into the next forward.
  void plan(Nanoseconds now, Batch& batch);
  /// The forward has ended; those who were in it offer anew.
  void ran(const Batch& batch, Nanoseconds duration);

  bool empty() const { return tasks_.empty(); }
  /// Whether all who wait for pages would be admitted now, with all that they want; but for what
  /// their tenants may not have.
  bool fits(std::uint32_t pages_free, const RoomOfTenant& room_of = {}) const;
  std::size_t waiting() const { return waiting_.size(); }  // for pages
  std::span<const TaskId> who_waits() const { return waiting_; }  // in the order of their coming
  bool is_admitted(TaskId task) const;
  /// It wants more than its tenant may have now, of whose tasks none runs that gives pages back.
  bool is_over_quota(TaskId task, const RoomOfTenant& room_of) const;
  /// Somebody runs who gives pages back.
  bool runs() const { return has_admitted(true); }
  /// Pages that admitted tasks may still take.
  std::uint64_t promised() const override { return reserved_; }
  std::uint64_t promised_to(std::string_view tenant) const override;
  /// These, and all that those who wait want.
  std::uint64_t wanted() const;
  /// The same of one tenant's tasks.
  std::uint64_t wanted_by(std::string_view tenant) const;
  template <typename Do>
  void for_tenants_who_wait(const Do& visit) const {
    for (const auto& [name, tenant] : tenants_)
      if (tenant.waits > 0) visit(name);
  }
  const Costs& costs() const { return costs_; }
  const PlannerOptions& options() const { return options_; }

 private:
  struct Tenant {
    std::size_t tasks = 0;       // that have begun
    std::size_t runs = 0;        // of those, admitted ones that give pages back
    std::uint64_t reserved = 0;  // pages that these may still take
    std::uint64_t waits = 0;     // pages that the others want
    std::uint64_t blocked = 0;   // number of the admission in which one of it had to wait
    std::uint64_t passed = 0;    // and in which one could not begin that another may overtake
  };
  using Tenants = std::map<std::string, Tenant, std::less<>>;
  struct State {
    PagesWanted wanted;
    Tenants::value_type* tenant = nullptr;  // null: nobody
    std::uint32_t granted = 0;
    std::uint32_t left = 0;  // of those, not taken
    bool admitted = false;
    /// What is too little for it to begin, while nobody runs. It `waits`: more may come.
    enum class Lacks : std::uint8_t { nothing, pages, quota } lacks = Lacks::nothing;
    bool waits = false;
    std::uint32_t overtaken = 0;  // while it lacked that
    bool offers = false;
    Need need;
    std::uint64_t last_turn = 0;  // number of the plan that it was in last
    std::uint64_t offered = 0;    // number of the plan before which its need was new
  };
  struct Candidate {
    TaskId task = 0;
    const State* state = nullptr;
    bool overdue = false;
  };

  void refuse_too_large(std::uint32_t pages_all, Batch& batch, const RoomOfTenant& room_of);
  void refuse(TaskId task, bool for_tenant, Batch& batch);
  /// Those that cannot begin; but who wait for one that was admitted behind them, or that is to
  /// be `soon`.
  void refuse_who_lacks(Batch& batch, bool alone, bool soon);
  /// So many pages it may get now. None: not now.
  std::optional<std::uint32_t> within_quota(
      TaskId task, State& state, const RoomOfTenant& room_of,
      const std::function<bool(TaskId, bool)>& more_may_come) const;
  void forget(State& state);
  void reserve(State& state, std::uint32_t left);
  void admit_without_pages(Batch& batch);
  void grant(TaskId task, std::uint32_t pages, Batch& batch);
  bool has_admitted(bool who_gives_back) const;
  void gather();
  void take(const Candidate& candidate, std::uint32_t most, Batch& batch) const;
  std::uint32_t rows_in_time(Nanoseconds now) const;

  PlannerOptions options_;
  Costs costs_;
  std::map<TaskId, State> tasks_;
  Tenants tenants_;              // of the tasks
  std::vector<TaskId> waiting_;  // for pages, in order
  std::vector<Candidate> candidates_;
  std::uint64_t reserved_ = 0;
  std::uint64_t plans_ = 0, admissions_ = 0;
};

}  // namespace sluice
