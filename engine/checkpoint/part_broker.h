// Of parts of checkpoints that processes of a machine share: who has which, who makes one, and who
// waits for whom. Pure: what is to be said and dropped is handed back.
//
// The first process that asks for a part makes it; who asks meanwhile waits, and has it then. When
// its maker ends before that, the next who waits makes it. A part is kept as long as somebody who
// asked for it has not ended. How long to wait is up to who waits: ending is giving up.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "engine/checkpoint/weight_table.h"

namespace sluice {

class PartBroker {
 public:
  /// One process' wish for one part, from its question to its end. None is used twice.
  using Ask = std::uint64_t;
  struct Effect {
    enum class Kind : std::uint8_t {
      make,  // tell `ask` to make it
      have,  // give `ask` the part
      wait,  // tell `ask` that `maker` makes it
      drop,  // nobody has the part any more
    };
    Kind kind = Kind::make;
    Ask ask = 0;    // not of `drop`
    Ask maker = 0;  // of `wait`
    PartKey part{};
    friend bool operator==(const Effect&, const Effect&) = default;
  };
  using Effects = std::vector<Effect>;

  void asks(Ask ask, const PartKey& part, Effects& effects);
  /// It has made its part. False: it was not to, or has before; nothing changes.
  bool made(Ask ask, Effects& effects);
  /// It gave up, failed, let go of the part, or its process is gone.
  void ends(Ask ask, Effects& effects);

  struct Part {
    bool there = false;
    Ask maker = 0;  // while it is not there
    std::set<Ask> holders;
    std::deque<Ask> waiting;
  };
  const std::map<PartKey, Part>& parts() const { return parts_; }
  /// Requires: it has asked and not ended.
  const PartKey& part_of(Ask ask) const { return asks_.at(ask); }

 private:
  std::map<PartKey, Part> parts_;
  std::map<Ask, PartKey> asks_;
};

}  // namespace sluice
