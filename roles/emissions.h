// What a role yields behind its turn of a shared engine.
//
// A yield may run, on the role's own thread, whatever it causes: engines of other nodes, a caller's
// observer, the end of a session. Any of these may wait for a turn, so nothing is yielded in one.
// Thread: the role's.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "roles/role.h"

namespace sluice {

class Emissions {
 public:
  /// `field`: of a text that stays. Requires: the activation has not ended before `send`.
  void add(Activation& activation, std::string_view field, PayloadRef value) {
    kept_.push_back({&activation, field, std::move(value)});
  }
  /// In the order in which they came. Requires: no turn is held.
  void send() {
    for (Kept& one : kept_) one.activation->yield(one.field, std::move(one.value));
    kept_.clear();
  }

 private:
  struct Kept {
    Activation* activation = nullptr;
    std::string_view field;
    PayloadRef value;
  };
  std::vector<Kept> kept_;
};

}  // namespace sluice
