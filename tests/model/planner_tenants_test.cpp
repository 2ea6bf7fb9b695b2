// Who is admitted where tenants may have so many pages: random tasks beside what each tenant holds.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/plan/planner.h"

using namespace sluice;

namespace planner_tenants {

namespace {

struct World {
  static constexpr std::uint32_t pages_all = 40, quota = 12;

  struct Drawn {
    PagesWanted wants;
    std::uint32_t granted = 0, taken = 0;
    bool admitted = false;
  };

  explicit World(std::uint64_t seed) : random(seed) {}

  SplitMix64 random;
  Planner planner{{}};
  std::map<TaskId, Drawn> tasks;
  std::vector<TaskId> waiting;
  std::map<std::string, std::uint32_t> kept;  // pages of a tenant that no task has
  TaskId next = 1;
  int overtook = 0, refused = 0, cut = 0;
  RoomOfTenant room_of = [this](const std::string& tenant) {
    return std::optional(TenantRoom{quota, held(tenant)});
  };

  std::uint32_t draw(std::uint32_t most) {
    return static_cast<std::uint32_t>(random.next() % most);
  }
  std::uint32_t held(const std::string& tenant) {
    std::uint32_t all = kept[tenant];
    for (const auto& [id, task] : tasks) all += task.wants.tenant == tenant ? task.taken : 0;
    return all;
  }
  std::uint32_t reserved(const std::string& tenant) const {
    std::uint32_t all = 0;
    for (const auto& [id, task] : tasks)
      all += task.wants.tenant == tenant ? task.granted - task.taken : 0;
    return all;
  }
  std::uint32_t free() {
    std::uint32_t used = 0;
    for (const char* tenant : {"", "one", "two", "three"}) used += held(tenant);
    return pages_all - used;
  }

  void begin() {
    constexpr const char* names[] = {"", "one", "two", "three"};
    Drawn task;
    task.wants.tenant = names[draw(4)];
    task.wants.most = draw(quota + 2);
    task.wants.least = draw(3) == 0 ? task.wants.most : task.wants.most / 3;
    planner.begin(next, task.wants);
    waiting.push_back(next);
    tasks[next++] = task;
  }

  void end(TaskId id) {
    Drawn& task = tasks.at(id);
    if (draw(8) == 0 && kept[task.wants.tenant] == 0)
      kept[task.wants.tenant] = std::min(task.taken, 1U);
    planner.end(id);
    std::erase(waiting, id);
    tasks.erase(id);
  }

  bool runs(const std::string& tenant) const {
    return std::ranges::any_of(tasks, [&](const auto& one) {
      return one.second.admitted && one.second.wants.tenant == tenant;
    });
  }

  void admit() {
    Batch batch;
    planner.admit(free(), pages_all, batch, {}, room_of);
    for (const PagesGranted& one : batch.admitted) {
      Drawn& task = tasks.at(one.task);
      // One that came before it, and waits on, is of its tenant's quota, and not this one's.
      const auto at = std::ranges::find(waiting, one.task);
      overtook += at != waiting.begin() && one.pages > 0 ? 1 : 0;
      cut += one.pages < task.wants.most ? 1 : 0;
      task.admitted = true;
      task.granted = one.pages;
      CHECK(one.pages >= task.wants.least);
      std::erase(waiting, one.task);
    }
    for (const PagesRefused& one : batch.refused) {
      ++refused;
      const PagesWanted wants = tasks.at(one.task).wants;
      CHECK(one.least == wants.least);
      if (!one.tenant.empty())
        CHECK((one.tenant == wants.tenant && wants.least + held(wants.tenant) > quota));
      end(one.task);
    }
    check();
  }

  /// No tenant may come to have more than its quota; who waits does so for its own tenant's, or
  /// for the pool, behind which all wait.
  void check() {
    for (const char* tenant : {"one", "two", "three"})
      CHECK(held(tenant) + reserved(tenant) <= quota);
    std::map<std::string, bool> blocked;
    std::uint32_t all = 0;
    for (const auto& [id, task] : tasks) all += task.granted - task.taken;
    CHECK(all <= free());
    CHECK(all == planner.promised());
    for (const TaskId id : waiting) {
      const PagesWanted& wants = tasks.at(id).wants;
      const bool is_own =
          !wants.tenant.empty() && reserved(wants.tenant) + held(wants.tenant) + wants.most > quota;
      if (blocked[wants.tenant] && !wants.tenant.empty()) continue;
      if (is_own) {
        CHECK(runs(wants.tenant));
        blocked[wants.tenant] = true;
        continue;
      }
      CHECK(all + wants.most > free());
      break;
    }
    CHECK(std::ranges::equal(planner.who_waits(), waiting));
  }

  void step() {
    if (draw(3) == 0 && tasks.size() < 12) begin();
    admit();
    std::vector<TaskId> admitted;
    for (const auto& [id, task] : tasks)
      if (task.admitted) admitted.push_back(id);
    for (const TaskId id : admitted) {
      Drawn& task = tasks.at(id);
      if (draw(4) == 0) {
        end(id);
      } else {
        task.taken += draw(task.granted - task.taken + 1);
        planner.took(id, task.taken);
      }
    }
    for (auto& [tenant, pages] : kept)
      if (draw(6) == 0) pages = 0;
  }
};

}  // namespace

TEST_CASE("with quotas each waits for its own tenant's tasks, or for the pool behind all others") {
  int overtook = 0, refused = 0, cut = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    World world(seed);
    for (int i = 0; i < 300; ++i) world.step();
    while (!world.tasks.empty()) {
      world.admit();
      bool any = false;
      for (auto it = world.tasks.begin(); it != world.tasks.end();) {
        const TaskId id = it->first;
        const bool is_admitted = it->second.admitted;
        ++it;
        any = any || is_admitted;
        if (is_admitted) world.end(id);
      }
      REQUIRE((any || world.tasks.empty()));  // somebody always goes on
    }
    CHECK(world.planner.empty());
    CHECK(world.planner.wanted_by("one") == 0);
    overtook += world.overtook;
    refused += world.refused;
    cut += world.cut;
  }
  CHECK(overtook > 100);
  CHECK(refused > 100);
  CHECK(cut > 50);
}

TEST_CASE("a tenant at its quota makes nobody else's idle pages go") {
  Planner planner({});
  planner.begin(1, {6, 6, true, "one"});
  planner.begin(2, {6, 6, true, "one"});
  const RoomOfTenant room_of = [](const std::string&) { return std::optional(TenantRoom{8, 0}); };
  Batch batch;
  planner.admit(10, 20, batch, {}, room_of);
  REQUIRE(batch.admitted.size() == 1);
  CHECK(planner.wanted_by("one") == 12);
  CHECK_FALSE(planner.fits(8));
  CHECK(planner.fits(8, room_of));  // 6 of the first, and 2 that the second could have
  CHECK_FALSE(planner.fits(7, room_of));
  planner.begin(3, {6, 6});
  planner.admit(10, 20, batch, {}, room_of);
  CHECK_FALSE(planner.fits(13, room_of));
  CHECK(planner.fits(14, room_of));
}

}  // namespace planner_tenants
