// The planner under wishes made by chance: who is admitted and who goes into each forward, beside
// who it was before.
#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>

#include "base/random.h"
#include "engine/plan/planner.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;

namespace {

struct World {
  explicit World(std::uint64_t seed) : chance(seed), planner(options()) {}

  std::uint32_t pick(std::uint32_t most) {
    return static_cast<std::uint32_t>(chance.next() % (std::uint64_t{most} + 1));
  }
  PlannerOptions options() {
    PlannerOptions made;
    made.budget = 1 + pick(30);
    made.tasks_most = 1 + pick(5);
    made.wait_most = 1 + pick(6);
    if (pick(3) == 0) made.policy = Policy::isolated;
    return made;
  }
  Need need() {
    Need made;
    made.kind = pick(1) == 0 ? Need::Kind::step : Need::Kind::prompt;
    made.rows = 1 + pick(pick(2) == 0 ? 50 : 3);
    made.divisible = pick(1) == 0;
    made.priority = static_cast<std::uint8_t>(pick(2));
    made.least = pick(1) == 0 ? 1 : 1 + pick(5);
    if (pick(2) == 0) made.deadline = now + 100 * static_cast<Nanoseconds>(pick(40));
    return made;
  }
  std::string begin() {
    PagesWanted wanted;
    wanted.most = pick(3) == 0 ? 0 : pick(14);
    wanted.least = pick(wanted.most);
    wanted.gives_back = pick(4) != 0;
    const TaskId task = next++;
    planner.begin(task, wanted);
    pages[task] = {};
    if (pick(5) != 0) planner.offer(task, need());
    return std::to_string(task) + " begins, wants " + std::to_string(wanted.least) + " to " +
           std::to_string(wanted.most);
  }
  std::string admit() {
    Batch batch;
    const std::uint32_t all = 4 + pick(12);
    planner.admit(
        std::min<std::uint32_t>(all, static_cast<std::uint32_t>(planner.promised()) + pick(8)), all,
        batch);
    std::string text = "of " + std::to_string(all);
    for (const PagesGranted& one : batch.admitted) {
      text += ", " + std::to_string(one.task) + " has " + std::to_string(one.pages);
      pages.at(one.task) = one.pages;
    }
    for (const PagesRefused& one : batch.refused) {
      text += ", " + std::to_string(one.task) + " is refused " + std::to_string(one.least);
      pages.erase(one.task);
    }
    return text;
  }
  std::string plan() {
    Batch batch;
    planner.plan(now, batch);
    std::string text = std::to_string(batch.rows) + " rows";
    for (const BatchItem& item : batch.items)
      text += ", " + std::to_string(item.task) + ": " + std::to_string(item.rows);
    planner.ran(batch, 50 + 10 * static_cast<Nanoseconds>(batch.rows) + pick(9));
    for (const BatchItem& item : batch.items)
      if (pick(4) != 0) planner.offer(item.task, need());
    return text;
  }
  std::string step() {
    now += pick(3) == 0 ? 100 : 0;
    const std::uint32_t what = pick(13);
    if (pages.empty() || what < 3) return begin();
    auto it = pages.begin();
    std::advance(it, pick(static_cast<std::uint32_t>(pages.size()) - 1));
    const TaskId task = it->first;
    const std::string name = std::to_string(task);
    switch (what) {
      case 3:
        planner.end(task);
        planner.end(task);  // one that there is not
        pages.erase(it);
        return name + " ends";
      case 4:
        planner.offer(task, need());
        return name + " offers";
      case 5: {
        if (!planner.is_admitted(task)) return "";
        const std::uint32_t taken = pick(it->second);
        planner.took(task, taken);
        return name + " took " + std::to_string(taken);
      }
      case 6: {
        if (!planner.is_admitted(task)) return "";
        const std::uint64_t before = planner.promised();
        planner.hand_on(task, next);
        // What is left of it is the new one's.
        pages.erase(it);
        planner.took(next, 0);
        pages[next] = 0;
        return name + " hands on to " + std::to_string(next++) + " of " + std::to_string(before);
      }
      case 7:
      case 8:
      case 9:
        return admit();
      default:
        return plan();
    }
  }

  SplitMix64 chance;
  Planner planner;
  std::map<TaskId, std::uint32_t> pages;  // granted
  TaskId next = 1;
  Nanoseconds now = 1000;
};

std::vector<std::string> play(std::uint64_t seed, int steps) {
  World world(seed);
  std::vector<std::string> journal;
  for (int i = 0; i < steps; ++i) {
    std::string line = world.step();
    if (line.empty()) continue;
    line += "; " + std::to_string(world.planner.promised()) + " reserved, " +
            std::to_string(world.planner.waiting()) + " wait" +
            (world.planner.empty() ? ", empty" : "") + ", fits";
    for (const std::uint32_t pages : {0U, 4U, 8U, 16U, 32U})
      line += world.planner.fits(pages) ? '+' : '-';
    if (world.planner.costs().known())
      line += ", costs " + std::to_string(world.planner.costs().of(10)) + " and " +
              std::to_string(world.planner.costs().rows_within(300));
    journal.push_back(std::move(line));
  }
  return journal;
}

}  // namespace

TEST_CASE("the planner gives the rows and pages that it gave before") {
  test::Outcomes outcomes("planner");
  for (std::uint64_t seed = 1; seed <= 2; ++seed)  // to be read
    for (const std::string& line : play(seed, 60))
      outcomes.add("chance " + std::to_string(seed), line);
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    outcomes.add("digests", test::digest_of(play(seed, 400)));
  outcomes.require_as_kept();
}
