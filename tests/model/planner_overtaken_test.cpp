// Who cannot begin while nobody runs, and who begins behind it.
#include <catch2/catch.hpp>
#include <optional>
#include <string>

#include "engine/plan/planner.h"

using namespace sluice;

TEST_CASE("who lacks what a later one has begins behind it") {
  Planner planner({});
  planner.begin(1, {8, 20});
  planner.begin(2, {2, 3});  // goes on with a session that has four of ten pages
  Batch batch;
  const auto more_may_come = [](TaskId, bool may_begin) { return !may_begin; };
  planner.admit(6, 10, batch, more_may_come);  // more come, but not what the session has
  CHECK(batch.refused.empty());
  REQUIRE(planner.is_admitted(2));
  planner.took(2, 1);
  planner.end(2);
  planner.admit(10, 10, batch, more_may_come);  // it was given up
  CHECK(planner.is_admitted(1));
  CHECK(planner.promised() == 10);
}

TEST_CASE("who cannot begin is not overtaken for ever, nor where more may come") {
  const bool more = GENERATE(false, true);
  const std::string tenant = GENERATE("", "one");
  const auto more_may_come = [&](TaskId, bool) { return more; };
  const auto room_of = [](const std::string&) { return std::optional(TenantRoom{10, 2}); };
  Planner planner({});
  planner.begin(1, {9, 9, true, tenant});
  Batch batch;
  for (TaskId id = 2; id < 2 + Planner::overtaken_most; ++id) {
    planner.begin(id, {1, 1, true, tenant});
    planner.admit(8, 10, batch, more_may_come,
                  room_of);  // two are kept by somebody who does not run
    CHECK(batch.refused.empty());
    REQUIRE(planner.is_admitted(id));
    planner.end(id);
  }
  planner.begin(100, {1, 1, true, tenant});
  planner.admit(8, 10, batch, more_may_come, room_of);
  REQUIRE(batch.refused.size() == 1);
  CHECK(batch.refused[0].task == 1);
  CHECK(planner.is_admitted(100));
}

TEST_CASE("who cannot begin is not refused while one behind it waits for more than it needs") {
  Planner planner({});
  planner.begin(1, {9, 9});
  planner.begin(2, {1, 9});
  Batch batch;
  planner.admit(8, 10, batch, [](TaskId task, bool) { return task == 2; });
  CHECK(batch.refused.empty());
  CHECK(batch.admitted.empty());
  planner.admit(8, 10, batch);  // it has waited long enough
  CHECK(batch.refused.empty());
  CHECK(planner.is_admitted(2));
}
