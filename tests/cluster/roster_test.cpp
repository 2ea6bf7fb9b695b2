// What a machine can say to people of who is there.
#include "runtime/node/roster.h"

#include <catch2/catch.hpp>

namespace sluice {

namespace {

using State = Roster::State;
Roster::Time at(int seconds) { return Roster::Time(std::chrono::seconds(seconds)); }

}  // namespace

TEST_CASE("a roster says since when, and news that is old or known changes nothing") {
  Roster roster(2, at(0));
  const auto& row = roster.rows()[1];
  CHECK(row.state == State::not_seen);
  CHECK(row.since == at(0));

  roster.joined({1, 7}, at(1));
  roster.joined({1, 7}, at(2));  // of another workflow
  CHECK(row.state == State::there);
  CHECK(row.incarnation == 7);
  CHECK(row.since == at(1));

  roster.lost({1, 6}, "an earlier life", at(3));
  CHECK(row.state == State::there);
  roster.lost({1, 7}, "nothing was heard", at(4));
  roster.lost({1, 7}, "said again", at(5));
  roster.joined({1, 7}, at(6));  // a life that is over does not come back
  CHECK(row.state == State::lost);
  CHECK(row.why == "nothing was heard");
  CHECK(row.since == at(4));

  roster.joined({1, 8}, at(7));
  CHECK(row.state == State::there);
  CHECK(row.why.empty());
  CHECK(row.since == at(7));
  CHECK(roster.rows()[0].state == State::not_seen);
}

}  // namespace sluice
