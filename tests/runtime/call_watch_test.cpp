// When calls are told to stop and given up, with time as a number.
#include "runtime/inproc/call_watch.h"

#include <catch2/catch.hpp>

using namespace sluice;

namespace {

using What = CallWatch::What;

std::vector<std::pair<std::uint64_t, What>> due(CallWatch& watch, int at) {
  std::vector<CallWatch::Decision> decisions;
  watch.due(Instant{at}, decisions);
  std::vector<std::pair<std::uint64_t, What>> shown;
  for (const auto& decision : decisions) shown.emplace_back(decision.call, decision.what);
  return shown;
}

}  // namespace

TEST_CASE("a call is told to stop at its deadline and given up after the grace, each once") {
  CallWatch watch(Instant{10});
  watch.opened(1, Instant{100});
  watch.opened(2, Instant{50});
  CHECK(watch.next() == Instant{50});
  CHECK(due(watch, 49).empty());
  CHECK(due(watch, 50) == std::vector{std::pair{std::uint64_t{2}, What::stop}});
  CHECK(due(watch, 50).empty());
  CHECK(watch.next() == Instant{60});
  CHECK(due(watch, 60) == std::vector{std::pair{std::uint64_t{2}, What::give_up}});
  CHECK(watch.size() == 1);
  CHECK(watch.next() == Instant{100});
  CHECK(due(watch, 1000) == std::vector{std::pair{std::uint64_t{1}, What::stop}});
  CHECK(due(watch, 1009).empty());  // the grace begins when it was told
  CHECK(due(watch, 1010) == std::vector{std::pair{std::uint64_t{1}, What::give_up}});
  CHECK(watch.next() == Instant::max());
}

TEST_CASE("a cancellation is given up after the grace; a second one does not begin it anew") {
  CallWatch watch(Instant{10});
  watch.opened(1, Instant{1000});
  watch.cancelled(1, Instant{5});
  watch.cancelled(1, Instant{12});
  CHECK(watch.next() == Instant{15});
  CHECK(due(watch, 15) == std::vector{std::pair{std::uint64_t{1}, What::give_up}});
  watch.cancelled(1, Instant{16});  // it is over
  CHECK(watch.size() == 0);
}

TEST_CASE("a call that has ended is never due") {
  CallWatch watch(Instant{10});
  for (std::uint64_t call = 1; call <= 3; ++call) watch.opened(call, Instant{20});
  watch.ended(2);
  watch.ended(2);
  watch.cancelled(3, Instant{1});
  watch.ended(3);
  CHECK(due(watch, 100) == std::vector{std::pair{std::uint64_t{1}, What::stop}});
  watch.ended(1);
  CHECK(due(watch, 200).empty());
  CHECK(watch.next() == Instant::max());
}
