// When a process that died is started again.
#include "cli/respawn.h"

#include <catch2/catch.hpp>

namespace sluice::cli {

using namespace std::chrono_literals;

TEST_CASE("a process that dies at each start is tried at once, later and later, then rarely") {
  Respawn respawn;
  Respawn::Time now{};
  for (const auto wait : {0ms, 100ms, 200ms, 400ms}) {
    respawn.started(now);
    now += 9999ms;
    CHECK(respawn.failing(now, true) == 0);
    CHECK(respawn.died(now) == now + wait);
    CHECK(respawn.failing(now, false) == 0);
  }
  for (unsigned deaths = 5; deaths < 8; ++deaths) {
    respawn.started(now);
    CHECK(respawn.died(now) == now + 60s);
    CHECK(respawn.failing(now, false) == deaths);
    now += 60s;
    CHECK(respawn.failing(now, false) == deaths);  // it does not run: nothing shows that it works
  }
}

TEST_CASE("a process that stays is not failing any more, and its next death is the first") {
  Respawn respawn;
  Respawn::Time now{};
  for (int i = 0; i < 5; ++i) {
    respawn.started(now);
    (void)respawn.died(now);
  }
  respawn.started(now);
  CHECK(respawn.failing(now + 9999ms, true) == 5);
  CHECK(respawn.failing(now + 10s, true) == 0);
  CHECK(respawn.died(now + 10s) == now + 10s);
  CHECK(respawn.failing(now + 10s, false) == 0);
}

}  // namespace sluice::cli
