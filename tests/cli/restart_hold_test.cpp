// For which machines new calls wait.
#include "cli/restart_hold.h"

#include <catch2/catch.hpp>

namespace sluice::cli {

using namespace std::chrono_literals;

TEST_CASE("calls wait from a process's death to the machine's next life, while it is restarted") {
  RestartHold hold(2, 1000ms);
  const RestartHold::Time begin{};
  CHECK_FALSE(hold.waits(1, true, begin));  // it was never there
  hold.lives(1);
  CHECK_FALSE(hold.waits(1, true, begin));
  hold.died(1, begin);
  CHECK(hold.is_dead(1));
  CHECK(hold.waits(1, true, begin + 999ms));
  CHECK_FALSE(hold.waits(1, false, begin + 1ms));  // nobody starts it
  CHECK_FALSE(hold.waits(0, true, begin));
  hold.died(1, begin + 500ms);  // no news
  CHECK_FALSE(hold.waits(1, true, begin + 1000ms));
  hold.lives(1);
  CHECK_FALSE(hold.is_dead(1));
  CHECK_FALSE(hold.waits(1, true, begin + 1001ms));
  hold.died(1, begin + 2000ms);  // with a patience of its own
  CHECK(hold.waits(1, true, begin + 2999ms));
}

}  // namespace sluice::cli
