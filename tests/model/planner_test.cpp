// The planner over a simulated executor: drawn tasks, pages and times, and what must hold after
// every plan. Each check is shown to fire on a batch that was tampered with.
#include "engine/plan/planner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

using namespace sluice;

namespace {

constexpr Nanoseconds forward_fixed = 1000, forward_row = 40;

Nanoseconds cost(std::uint32_t rows) { return forward_fixed + forward_row * rows; }

/// A task as a table: its prompt, its steps, and the pages that it takes on its way.
struct Drawn {
  std::uint32_t prompt = 0;  // rows that are left of it
  bool divisible = true;
  std::uint32_t least = 1;  // of a part of it
  std::uint32_t steps = 0, step_rows = 1;
  std::uint8_t priority = 0;
  Nanoseconds period = 0;  // deadline of a step behind the one before; 0: none
  PagesWanted wants;
  std::uint32_t keeps = 0;  // pages that stay taken when it has ended, as a session's do

  bool admitted = false;
  std::uint32_t granted = 0, taken = 0;
  Nanoseconds deadline = no_deadline;
  std::uint64_t waits = 0;  // plans since its need was offered
  std::uint32_t overtaken = 0;

  Need need() const {
    Need made;
    made.priority = priority;
    if (prompt > 0) {
      made.kind = Need::Kind::prompt;
      made.rows = prompt;
      made.divisible = divisible;
      made.least = least;
    } else {
      made.rows = step_rows;
      made.deadline = deadline;
    }
    return made;
  }
};

struct World {
  using Tamper = std::function<void(Batch&, const std::map<TaskId, Drawn>&)>;

  World(std::uint64_t seed, Policy policy) : random(seed) {
    options.budget = 8 + static_cast<std::uint32_t>(random.next() % 120);
    options.tasks_most = 2 + static_cast<std::uint32_t>(random.next() % 16);
    options.wait_most = 1 + static_cast<std::uint32_t>(random.next() % 12);
    options.policy = policy;
    pages_all = pages_free = 20 + static_cast<std::uint32_t>(random.next() % 200);
    planner.emplace(options);
  }

  std::uint32_t draw(std::uint32_t most) {
    return static_cast<std::uint32_t>(random.next() % most);
  }

  void begin() {
    Drawn task;
    task.prompt = draw(4) == 0 ? 0 : 1 + draw(3 * options.budget);
    task.divisible = draw(5) != 0;
    if (draw(4) == 0) task.least = 1 + draw(options.budget + options.budget / 4);
    task.steps = 1 + draw(40);
    if (task.prompt == 0 || draw(4) == 0) task.step_rows = 1 + draw(2 * options.budget);
    task.priority = static_cast<std::uint8_t>(draw(3));
    if (draw(4) == 0) task.period = cost(options.budget) + 5000 * static_cast<int>(draw(20));
    task.wants.most = draw(pages_all / 3);
    if (draw(20) == 0) task.wants.most = pages_all + draw(50);
    task.wants.least = draw(3) == 0 ? task.wants.most : task.wants.most / 4;
    task.keeps = draw(10) == 0 ? draw(3) : 0;
    const TaskId id = next_id++;
    planner->begin(id, task.wants);
    waiting.push_back(id);
    offer(id, tasks[id] = task);
  }
  void offer(TaskId id, Drawn& task) {
    if (task.prompt == 0 && task.period != 0) task.deadline = now + task.period;
    task.waits = 0;
    planner->offer(id, task.need());
  }
  void end(TaskId id) {
    Drawn& task = tasks.at(id);
    pages_free += task.taken - std::min(task.taken, task.keeps);
    planner->end(id);
    std::erase(waiting, id);
    tasks.erase(id);
  }

  void fault(const std::string& name) { faults.insert(name); }

  void check(const Batch& batch) {
    std::uint32_t rows = 0;
    std::set<TaskId> seen;
    for (const BatchItem& item : batch.items) {
      rows += item.rows;
      if (!seen.insert(item.task).second) fault("a task twice");
      const auto it = tasks.find(item.task);
      if (it == tasks.end() || !it->second.admitted) {
        fault("who is not admitted");
        continue;
      }
      const Need need = it->second.need();
      if (item.rows == 0 || item.rows > need.rows || (!need.divisible && item.rows != need.rows))
        fault("rows that nobody offered");
      if (item.rows != need.rows && item.rows % need.least != 0) fault("half a piece");
    }
    if (rows != batch.rows) fault("a wrong sum");
    if (rows > options.budget && batch.items.size() > 1) fault("over the budget");
    if (batch.items.size() > options.tasks_most) fault("too many tasks");
    std::uint64_t reserved = 0;
    std::uint32_t offering = 0;
    for (const auto& [id, task] : tasks) {
      if (!task.admitted) continue;
      reserved += task.granted - task.taken;
      ++offering;
    }
    if (reserved > pages_free) fault("pages promised twice");
    if (reserved != planner->promised()) fault("a lost reservation");
    if (batch.items.empty() && offering != 0) fault("idle though somebody wants");
    if (options.policy == Policy::isolated && offering > 1) fault("not alone");
    check_order(batch, seen);
  }

  /// The most urgent step is in, unless who waited too long filled the forward.
  void check_order(const Batch& batch, const std::set<TaskId>& seen) {
    bool overdue = false;
    Nanoseconds latest = 0;
    for (const TaskId id : seen)
      if (const auto it = tasks.find(id); it != tasks.end()) {
        overdue = overdue || it->second.waits + 1 >= options.wait_most;
        if (it->second.prompt == 0) latest = std::max(latest, it->second.deadline);
      }
    std::uint32_t bound = options.wait_most + 2;
    for (const auto& [id, task] : tasks)
      if (task.admitted)  // a piece may go alone
        bound += 1 + task.need().rows / (task.least > 1 ? task.least : options.budget);
    std::uint32_t steps = 0;
    Nanoseconds first = no_deadline;
    for (const BatchItem& item : batch.items)
      if (const auto it = tasks.find(item.task); it != tasks.end() && it->second.prompt == 0) {
        steps += item.rows;
        first = std::min(first, it->second.deadline);
      }
    for (auto& [id, task] : tasks) {
      if (!task.admitted) continue;
      if (seen.contains(id)) continue;
      if (++task.waits > bound) fault("starved");
      if (task.prompt == 0 && task.deadline < latest && !overdue &&
          task.step_rows + batch.rows <= options.budget && batch.items.size() < options.tasks_most)
        fault("a later deadline first");
    }
    // Once costs are known, prompts do not make a step late that would have been in time.
    if (planner->costs().known() && first != no_deadline && !overdue && steps != batch.rows &&
        now + cost(steps) <= first - slack && now + cost(batch.rows) > first + slack)
      fault("late for a prompt");
  }

  bool runs() const {
    return std::ranges::any_of(tasks, [](const auto& one) { return one.second.admitted; });
  }
  /// Nobody ran, none that came before it could begin, and behind it nobody does.
  bool may_overtake(const Batch& batch, TaskId id, bool ran) const {
    const auto at = std::ranges::find(waiting, id);
    const auto lacks = [&](TaskId one) { return tasks.at(one).wants.least > pages_free; };
    return !ran && id == batch.admitted.back().task && std::all_of(waiting.begin(), at, lacks);
  }

  void admit(const Batch& batch) {
    const bool ran = runs();
    for (const auto& [id, least, tenant] : batch.refused) {
      const Drawn& task = tasks.at(id);
      if (task.wants.least <= pages_free) fault("refused what fits");
      if (least <= pages_all && task.overtaken < Planner::overtaken_most &&
          (ran || !batch.admitted.empty()))
        fault("refused beside others");
      std::erase(waiting, id);
      tasks.erase(id);
      ++refused;
    }
    for (const PagesGranted& granted : batch.admitted) {
      Drawn& task = tasks.at(granted.task);
      const bool is_turn = (task.wants.most == 0 && options.policy == Policy::continuous) ||
                           (!waiting.empty() && waiting.front() == granted.task);
      if (!is_turn && !may_overtake(batch, granted.task, ran)) fault("out of turn");
      for (auto one = waiting.begin(); !is_turn && *one != granted.task; ++one) {
        ++overtook;
        if (++tasks.at(*one).overtaken > Planner::overtaken_most) fault("overtaken for ever");
      }
      std::erase(waiting, granted.task);
      task.admitted = true;
      task.waits = 0;
      task.granted = granted.pages;
      if (granted.pages < task.wants.least || granted.pages > task.wants.most)
        fault("pages that nobody wanted");
    }
  }

  void step(const Tamper& tamper) {
    Batch batch;
    planner->admit(pages_free, pages_all, batch);
    planner->plan(now, batch);
    if (tamper) tamper(batch, tasks);
    admit(batch);
    check(batch);
    if (tamper && stops && !faults.empty()) return;
    now += cost(batch.rows);
    planner->ran(batch, cost(batch.rows));
    ++forwards;
    const std::vector<BatchItem> items = batch.items;
    for (const BatchItem& item : items) {
      const auto it = tasks.find(item.task);
      if (it == tasks.end() || !it->second.admitted) continue;
      Drawn& task = it->second;
      if (task.prompt > 0)
        task.prompt -= std::min(item.rows, task.prompt);
      else
        --task.steps;
      const std::uint32_t takes = std::min({draw(3), task.granted - task.taken, pages_free});
      task.taken += takes;
      pages_free -= takes;
      if (task.prompt == 0 && task.steps == 0) {
        end(item.task);
        continue;
      }
      planner->took(item.task, task.taken);
      offer(item.task, task);
    }
  }

  /// Until all have ended, or it is clear that they will not.
  void run(std::uint32_t count, const Tamper& tamper = {}) {
    std::uint32_t begun = 0;
    for (std::uint32_t i = 0; i < 40'000; ++i) {
      if (begun < count && (draw(3) == 0 || tasks.empty())) {
        begin();
        ++begun;
      }
      if (!tasks.empty() && draw(60) == 0) {  // somebody is cancelled
        auto it = tasks.begin();
        std::advance(it, draw(static_cast<std::uint32_t>(tasks.size())));
        end(it->first);
      }
      if (tasks.empty() && begun == count) break;
      step(tamper);
      if (tamper && stops && !faults.empty()) return;
    }
    if (!tasks.empty()) fault("never ends");
    if (planner->promised() != 0) fault("a lost reservation");
  }

  static constexpr Nanoseconds slack = forward_row;  // what rounding may cost

  SplitMix64 random;
  PlannerOptions options;
  std::uint32_t pages_all = 0, pages_free = 0;
  std::optional<Planner> planner;
  std::map<TaskId, Drawn> tasks;
  std::vector<TaskId> waiting;
  Nanoseconds now = 0;
  TaskId next_id = 1;
  std::uint32_t refused = 0, overtook = 0, forwards = 0;
  std::set<std::string> faults;
  bool stops = true;  // at the first fault of one that is tampered with
};

}  // namespace

TEST_CASE("whatever is offered, a plan keeps its bounds, and every task ends") {
  std::uint32_t refused = 0, overtook = 0, forwards = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    World world(seed, seed % 7 == 0 ? Policy::isolated : Policy::continuous);
    world.run(60);
    INFO("seed " << seed);
    CHECK(world.faults == std::set<std::string>{});
    refused += world.refused;
    overtook += world.overtook;
    forwards += world.forwards;
  }
  CHECK(refused > 100);
  CHECK(overtook > 20);
  CHECK(forwards > 100'000);
}

TEST_CASE("each check fires on the mistake that it names") {
  const auto found = [](const World::Tamper& tamper, bool stops = true) {
    std::set<std::string> names;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      World world(seed, Policy::continuous);
      world.stops = stops;
      world.run(40, tamper);
      names.merge(world.faults);
    }
    return names;
  };
  const auto never_first = [](Batch& batch, const std::map<TaskId, Drawn>& tasks) {
    if (tasks.empty()) return;
    const TaskId first = tasks.begin()->first;
    std::erase_if(batch.items, [&](const BatchItem& item) { return item.task == first; });
    batch.rows = 0;
    for (const BatchItem& item : batch.items) batch.rows += item.rows;
  };
  CHECK(found([](Batch& batch, const auto&) {
          if (batch.items.empty()) return;
          batch.rows += batch.items[0].rows;
          batch.items.push_back(batch.items[0]);
        }).contains("a task twice"));
  CHECK(found([](Batch& batch, const auto&) {
          if (batch.items.empty()) return;
          batch.items[0].rows += 1000;
          batch.rows += 1000;
        }).contains("rows that nobody offered"));
  CHECK(found([](Batch& batch, const auto& tasks) {
          for (BatchItem& item : batch.items)
            if (tasks.at(item.task).least > 2 && item.rows > 1) item.rows -= 1;
        }).contains("half a piece"));
  CHECK(found([](Batch& batch, const auto& tasks) {
          for (const auto& [id, task] : tasks) {
            if (!task.admitted) continue;
            batch.items.push_back({id, task.need().rows});
            batch.rows += task.need().rows;
          }
        }).contains("over the budget"));
  CHECK(found([](Batch& batch, const auto&) {
          for (PagesGranted& granted : batch.admitted) granted.pages += 500;
        }).contains("pages promised twice"));
  CHECK(found([](Batch& batch, const auto&) {
          batch.items.clear();
          batch.rows = 0;
        }).contains("idle though somebody wants"));
  CHECK(found([](Batch& batch, const auto&) {
          std::ranges::reverse(batch.admitted);
        }).contains("out of turn"));
  CHECK(found([](Batch& batch, const auto& tasks) {
          if (batch.admitted.size() != 1 || !batch.refused.empty()) return;
          for (const auto& [id, task] : tasks)
            if (!task.admitted && id != batch.admitted[0].task && batch.refused.empty())
              batch.refused.push_back({id, task.wants.least});
        }).contains("refused beside others"));
  CHECK(found(never_first, false).contains("starved"));
}

TEST_CASE("steps go before prompts, the earliest deadline first, and prompts fill the rest") {
  Planner planner({.budget = 10, .tasks_most = 8});
  for (TaskId id = 1; id <= 4; ++id) planner.begin(id, {});
  planner.offer(1, {Need::Kind::prompt, 30, true});
  planner.offer(2, {Need::Kind::step, 4});
  planner.offer(3, {Need::Kind::step, 3, false, 0, 500});
  planner.offer(4, {Need::Kind::step, 2, false, 0, 400});
  Batch batch;
  planner.admit(0, 10, batch);
  planner.plan(0, batch);
  const auto shown = [&] {
    std::string text;
    for (const BatchItem& item : batch.items)
      text += std::to_string(item.task) + ":" + std::to_string(item.rows) + " ";
    return text;
  };
  CHECK(shown() == "4:2 3:3 2:4 1:1 ");
  planner.admit(0, 10, batch);
  planner.plan(0, batch);  // nobody has offered anew but the prompt, which has
  CHECK(shown().empty());
  planner.offer(1, {Need::Kind::prompt, 29, true});
  planner.admit(0, 10, batch);
  planner.plan(0, batch);
  CHECK(shown() == "1:10 ");
}

TEST_CASE("prompts leave a step its time, also beside one that is late already") {
  Planner planner({.budget = 100, .tasks_most = 8});
  Batch batch;
  for (std::uint32_t i = 0; i < 50; ++i) {  // 1000 and 10 for each row
    batch.rows = 1 + i;
    planner.ran(batch, 1000 + 10 * (1 + i));
  }
  for (TaskId id = 1; id <= 3; ++id) planner.begin(id, {});
  planner.admit(0, 0, batch);
  planner.offer(1, {Need::Kind::prompt, 90, true});
  planner.offer(2, {Need::Kind::step, 1, false, 0, 10});    // late
  planner.offer(3, {Need::Kind::step, 1, false, 0, 1200});  // 20 rows from now
  planner.plan(0, batch);
  REQUIRE(batch.items.size() == 3);
  CHECK(batch.items[2].task == 1);
  CHECK(batch.rows >= 19);
  CHECK(batch.rows <= 20);
}

TEST_CASE("who wants more pages than are free waits for who runs, and the next do not overtake") {
  Planner planner({});
  planner.begin(1, {6, 6});
  planner.begin(2, {6, 6});
  planner.begin(3, {1, 1});
  Batch batch;
  planner.admit(10, 10, batch);
  CHECK(batch.admitted.size() == 1);
  CHECK(planner.waiting() == 2);
  planner.took(1, 2);
  planner.admit(8, 10, batch);
  CHECK(batch.admitted.empty());
  planner.end(1);
  planner.admit(10, 10, batch);
  REQUIRE(batch.admitted.size() == 2);
  CHECK(batch.admitted[0].task == 2);
  CHECK(planner.promised() == 7);
}

TEST_CASE("who wants no pages does not wait behind those that do, nor hold them up") {
  Planner planner({});
  planner.begin(1, {6, 6});
  planner.begin(2, {6, 6});
  planner.begin(3, {0, 0, false});
  planner.begin(4, {0, 0, false});
  Batch batch;
  planner.admit(10, 10, batch);
  CHECK(planner.is_admitted(1));
  CHECK_FALSE(planner.is_admitted(2));
  CHECK(planner.is_admitted(3));
  CHECK(planner.is_admitted(4));
  planner.end(1);
  planner.end(2);
  planner.begin(5, {4, 20});
  planner.admit(10, 10, batch);  // 3 and 4 run, and give nothing back that it could wait for
  REQUIRE(batch.admitted.size() == 1);
  CHECK(batch.admitted[0].pages == 10);
  Planner one_by_one({.policy = Policy::isolated});
  one_by_one.begin(1, {6, 6});
  one_by_one.begin(2, {0, 0, false});
  one_by_one.admit(10, 10, batch);
  CHECK_FALSE(one_by_one.is_admitted(2));
}

TEST_CASE("who wants more pages than there are is refused at once, and holds nobody up") {
  Planner planner({});
  planner.begin(1, {6, 6});
  planner.begin(2, {11, 11});
  planner.begin(3, {4, 4});
  Batch batch;
  planner.admit(10, 10, batch);
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 2);
  CHECK(batch.refused[0].least == 11);
  CHECK(batch.admitted.size() == 2);
}

TEST_CASE("alone, a task gets what there is, and is refused when its least is more") {
  Planner planner({});
  planner.begin(1, {3, 20});
  planner.begin(2, {9, 20});
  planner.begin(3, {1, 1});
  Batch batch;
  planner.admit(10, 10, batch);
  REQUIRE(batch.admitted.size() == 1);
  CHECK(batch.admitted[0].pages == 10);
  CHECK(batch.refused.empty());
  planner.end(1);
  planner.begin(4, {1, 1});
  planner.admit(8, 10, batch);  // two are kept by somebody who does not run
  CHECK(batch.refused.empty());
  CHECK(planner.is_admitted(3));        // which may have what the other lacks
  CHECK_FALSE(planner.is_admitted(4));  // one is enough
  planner.admit(8, 10, batch);
  CHECK(batch.refused.empty());
  CHECK(batch.admitted.empty());
  planner.end(3);
  planner.end(4);
  planner.admit(8, 10, batch);
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 2);
  CHECK(batch.refused[0].least == 9);
}

TEST_CASE(
    "where more pages may come from elsewhere, a task waits instead of getting what there is") {
  Planner planner({});
  planner.begin(1, {3, 20});
  planner.begin(2, {9, 20});
  planner.begin(3, {1, 1});
  planner.begin(4, {11, 20});
  Batch batch;
  planner.admit(8, 10, batch, [](TaskId, bool may_begin) { return may_begin; });
  CHECK(batch.admitted.empty());  // nor does a small one overtake
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 4);  // there are not so many
  CHECK_FALSE(planner.runs());
  planner.admit(8, 10, batch);
  REQUIRE(batch.admitted.size() == 1);
  CHECK(batch.admitted[0].pages == 8);
  CHECK(planner.runs());
}

TEST_CASE("each waits as long for pages from elsewhere, whoever before it has waited in vain") {
  Planner planner({});
  planner.begin(1, {9, 20});
  planner.begin(2, {9, 20});
  Batch batch;
  planner.admit(8, 10, batch, [](TaskId task, bool) { return task == 2; });
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 1);
  CHECK(planner.who_waits().size() == 1);
  planner.admit(8, 10, batch);
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 2);
}

TEST_CASE("who has given its pages away is waited for, and reserves none") {
  Planner planner({});
  planner.begin(1, {2, 6});
  Batch batch;
  planner.admit(10, 10, batch);
  planner.took(1, 2);
  planner.gave_away(1);
  CHECK(planner.promised() == 0);
  planner.begin(2, {2, 5});
  planner.admit(4, 10, batch);  // the others are where they were given
  CHECK(batch.admitted.empty());
  CHECK(batch.refused.empty());
  planner.end(1);
  CHECK(planner.promised() == 0);
  planner.admit(10, 10, batch);
  REQUIRE(batch.admitted.size() == 1);
  CHECK(batch.admitted[0].pages == 5);
}

TEST_CASE("what a task was granted and has not taken goes to the one that goes on, before others") {
  Planner planner({});
  Batch batch;
  const auto admitted = [&](std::uint32_t free) {
    planner.admit(free, 10, batch);
    return batch.admitted.size();
  };
  planner.begin(1, {2, 6});
  CHECK(admitted(10) == 1);
  planner.took(1, 2);  // its prompt; it is done, and nobody has removed it
  planner.begin(2, {2, 5});
  CHECK(admitted(8) == 0);
  CHECK(batch.refused.empty());  // pages of the first are about to be free
  planner.hand_on(1, 3);
  CHECK(planner.is_admitted(3));
  CHECK_FALSE(planner.is_admitted(1));
  CHECK(planner.promised() == 4);
  CHECK(admitted(8) == 0);  // the second waits on
  planner.offer(3, {});
  planner.plan(0, batch);
  CHECK(batch.items.size() == 1);
  planner.took(3, 4);
  CHECK(planner.promised() == 0);
  planner.end(3);
  CHECK(admitted(10) == 1);
  CHECK(batch.admitted[0].task == 2);
}

TEST_CASE("costs are learned from forwards, and forgotten when the machine changes") {
  Costs costs;
  CHECK(!costs.known());
  for (std::uint32_t i = 0; i < 10; ++i) costs.learn(8, 1000);
  CHECK(!costs.known());  // of one size only
  for (std::uint32_t i = 0; i < 200; ++i) costs.learn(1 + i % 32, 500 + 20 * (1 + i % 32));
  REQUIRE(costs.known());
  CHECK(std::abs(costs.of(10) - 700) < 10);
  CHECK(costs.rows_within(1100) >= 29);
  CHECK(costs.rows_within(1100) <= 30);
  CHECK(costs.rows_within(400) == 0);
  for (std::uint32_t i = 0; i < 400; ++i) costs.learn(1 + i % 32, 1000 + 40 * (1 + i % 32));
  CHECK(std::abs(costs.of(10) - 1400) < 20);
}
