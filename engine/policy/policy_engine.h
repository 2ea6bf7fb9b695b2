// A robot's policy together with the pages it writes, wherever both are: what a control loop
// drives.
//
// An observation becomes a prefix in an empty sequence; an action request denoises over it and
// leaves it as it was, so one prefix serves many. Shape: hidden [rows, width], f32 on the host.
// Thread: one caller at a time. Errors: as `Decoder`, `ActionHead`; a device's failures.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "engine/policy/action_head.h"

namespace sluice {

class PolicyEngine {
 public:
  virtual ~PolicyEngine() = default;
  virtual const ActionHead& head() const = 0;
  virtual KvPages& pages() = 0;

  /// Appends an observation's prefix. `hidden`: its normed rows behind the trunk, if they are
  /// wanted: only then is the trunk's last layer finished. Null: they are not.
  virtual Result<void> prefill(KvSequence& sequence, const Observation& observation,
                               std::vector<float>* hidden) = 0;

  using Watch = std::function<void(std::size_t step, std::span<const float> velocities)>;
  /// Denoises all requests together, each over its own prefix; prefixes end as they were. `watch`
  /// may be empty.
  virtual Result<void> act(std::span<ActionRequest> requests, const FlowSchedule& schedule,
                           const Watch& watch) = 0;
};

}  // namespace sluice
