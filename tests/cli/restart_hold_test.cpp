// For which machines new calls wait.
#include "cli/restart_hold.h"

#include <catch2/catch.hpp>

namespace sluice::cli {

using namespace std::chrono_literals;

TEST_CASE("calls wait from a process's death to the machine's next life, while it is restarted") {
  RestartHold hold(2, 1000ms, 300ms);
  const RestartHold::Time begin{};
  CHECK_FALSE(hold.waits(1, true, begin));  // it was never there
  CHECK(hold.may_live(1, 1));
  hold.lives(1, 7);
  CHECK(hold.may_live(1, 7));
  CHECK_FALSE(hold.waits(1, true, begin));
  hold.died(1, begin);
  CHECK(hold.is_dead(1));
  CHECK(hold.waits(1, true, begin + 999ms));
  CHECK_FALSE(hold.waits(1, false, begin + 1ms));  // nobody starts it
  CHECK_FALSE(hold.waits(0, true, begin));
  CHECK_FALSE(hold.may_live(1, 7));  // however soon another process was started
  CHECK(hold.may_live(1, 8));
  hold.died(1, begin + 500ms);  // no news
  CHECK_FALSE(hold.waits(1, true, begin + 1000ms));
  hold.lives(1, 8);
  CHECK_FALSE(hold.is_dead(1));
  CHECK_FALSE(hold.waits(1, true, begin + 1001ms));
  hold.died(1, begin + 2000ms);  // with a patience of its own
  CHECK(hold.waits(1, true, begin + 2999ms));
}

TEST_CASE("calls wait a lease for a machine that this life has not met, and no longer") {
  RestartHold hold(2, 1000ms, 300ms);
  const RestartHold::Time begin{};
  CHECK(hold.meets(1, 2, begin));
  CHECK(hold.meets(1, 2, begin + 299ms));
  CHECK_FALSE(hold.meets(1, 2, begin + 300ms));
  CHECK(hold.meets(0, 2, begin + 300ms));  // each has a lease of its own
  CHECK(hold.meets(1, 3, begin + 400ms));  // and each life
  CHECK_FALSE(hold.meets(1, 3, begin + 700ms));
  RestartHold hasty(1, 200ms, 300ms);
  CHECK(hasty.meets(0, 1, begin));
  CHECK_FALSE(hasty.meets(0, 1, begin + 200ms));
}

}  // namespace sluice::cli
