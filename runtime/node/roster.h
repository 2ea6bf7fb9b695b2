// Who of a cluster is there, since when, and why not: what one machine can say of it to people.
//
// Nothing is decided by it. Pure: the time is an argument. Thread: one at a time.
// Source: docs/CLUSTER.md, "Status".
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/ids.h"

namespace sluice {

class Roster {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : std::uint8_t { not_seen, there, lost };
  struct Row {
    State state = State::not_seen;
    std::uint32_t incarnation = 0;  // the latest; 0: none yet
    Time since{};                   // of the state
    std::string why;                // lost: the reason
  };

  Roster(std::size_t machines, Time now) : rows_(machines, Row{State::not_seen, 0, now, {}}) {}

  /// This life is there. No news of one that is known, or that a later one has followed.
  void joined(Origin life, Time now) {
    Row& row = rows_[life.machine];
    if (life.incarnation > row.incarnation) row = {State::there, life.incarnation, now, {}};
  }
  /// This life is over. No news of one that is known to be, or that a later one has followed.
  void lost(Origin life, std::string why, Time now) {
    Row& row = rows_[life.machine];
    const bool known = life.incarnation == row.incarnation && row.state == State::lost;
    if (life.incarnation < row.incarnation || known) return;
    row = {State::lost, life.incarnation, now, std::move(why)};
  }
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::vector<Row> rows_;  // by machine
};

}  // namespace sluice
