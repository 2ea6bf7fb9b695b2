// What a driver knows of a node beyond its plan: what its role declared, and where replicas run.
//
// Thread: immutable once the runner is made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/session_history.h"
#include "graph/declaration.h"
#include "graph/plan.h"

namespace sluice {

class Lane;

/// Where a replica of a role runs.
struct RolePlace {
  Lane* lane = nullptr;
  std::size_t instance = 0;
  bool stepped = false;
};

struct NodePlace {
  const PlanNode* node = nullptr;
  std::string role;
  std::vector<RolePlace> replicas;
  std::vector<std::uint16_t> lanes;  // of each replica, among the driver's lanes
  std::vector<Port> outputs;         // as the plan orders them; `any` where nothing is declared
  std::vector<std::string> inputs;   // all that the role may read
  SessionKeeper* keeper = nullptr;   // of its sessions' histories; null: they cannot be kept
  /// By output: the other machines that read it.
  std::vector<std::vector<std::uint32_t>> readers;
  /// Everything that reads its frames runs on its own lane, so the last frame of an activation may
  /// leave with its end: nobody could begin sooner.
  bool hold_last = false;

  bool reads(std::string_view field) const;
  /// What its roles wait for may have changed.
  void wake_lanes() const;
};

}  // namespace sluice
