// When a host is started again, in a time that the test makes.
#include "runtime/hosts/host_supervision.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace std::chrono_literals;
using sluice::hosts::HostSupervision;
using sluice::hosts::SupervisionRules;
using State = HostSupervision::State;

namespace {

struct Host {
  HostSupervision it;
  HostSupervision::Time now{};

  explicit Host(const SupervisionRules& rules = {}) : it(rules) {}
  /// Lives for so long; how long until it is started again.
  std::chrono::milliseconds lives(std::chrono::milliseconds time) {
    it.started(now);
    it.serves();
    now += time;
    it.died(now);
    const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(it.next() - now);
    now = it.next();
    return wait;
  }
};

}  // namespace

TEST_CASE("a host is started at once, then later and later, up to a bound") {
  SupervisionRules rules;
  rules.deaths_max = 100;
  Host host(rules);
  CHECK(host.it.state() == State::down);
  CHECK(host.it.is_due(host.now));
  std::vector<long> waits;
  for (int i = 0; i < 9; ++i) waits.push_back(host.lives(1ms).count());
  CHECK(waits == std::vector<long>{0, 100, 200, 400, 800, 1600, 3200, 5000, 5000});
}

TEST_CASE("a host that has lived for ten seconds is started at once again") {
  Host host;
  for (int i = 0; i < 2; ++i) host.lives(1ms);
  CHECK(host.lives(9999ms) == 200ms);
  CHECK(host.lives(10'000ms) == 0ms);
  CHECK(host.lives(1ms) == 100ms);
}

TEST_CASE("a host is due when its time has come and no process is there") {
  Host host;
  host.it.started(host.now);
  CHECK(host.it.state() == State::begins);
  CHECK_FALSE(host.it.is_due(host.now));
  host.it.serves();
  CHECK_FALSE(host.it.is_due(host.now));
  host.it.died(host.now);
  CHECK(host.it.is_due(host.now));
  host.it.started(host.now);
  host.it.died(host.now);
  CHECK_FALSE(host.it.is_due(host.now + 99ms));
  CHECK(host.it.is_due(host.now + 100ms));
}

TEST_CASE("after five deaths in a minute the next refuses it, and then each until they are old") {
  Host host;
  for (int i = 0; i < 5; ++i) {
    host.lives(1ms);
    CHECK(host.it.state() == State::down);
  }
  CHECK(host.lives(1ms) == 30'000ms);
  CHECK(host.it.state() == State::refused);
  CHECK(host.it.is_due(host.now));
  CHECK_FALSE(host.it.is_due(host.now - 1ms));
  CHECK(host.lives(1ms) == 30'000ms);  // one trial
  CHECK(host.it.state() == State::refused);
  CHECK(host.lives(61'000ms) == 0ms);  // the window is empty
  CHECK(host.it.state() == State::down);
  CHECK(host.it.deaths() == 1);
}

TEST_CASE("deaths that are further apart than the window allows never refuse a host") {
  Host host;
  for (int i = 0; i < 50; ++i) {
    host.lives(13'000ms);
    CHECK(host.it.state() == State::down);
  }
}
