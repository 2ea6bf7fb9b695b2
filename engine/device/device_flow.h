// Flow steps on the device: noise to actions over prefixes that are there.
//
// Shape: noise and actions [requests, horizon, dims], f32. Thread and errors: as `DeviceWork`.
// Source: openpi (pi0_pytorch), lerobot (smolvla).
#pragma once

#include <span>
#include <vector>

#include "engine/device/device_layers.h"
#include "engine/policy/policy_engine.h"

namespace sluice {

struct DeviceFlowRows {
  device::Memory x, x_typed, velocity;   // of actions: [requests * horizon, dims]
  device::Memory inner, stacked, out;    // the same in the expert's width
  device::Memory into, from;             // pi0: expert rows of [states; actions], and back
  device::Memory biases, dt, condition;  // of steps: [steps, width], [dims], [steps, rows]
};

template <typename T>
class DeviceFlow {
 public:
  /// Borrows both.
  DeviceFlow(const ActionHead& head, DeviceWork& work);
  void load(WeightLoader& load, Uploader& up);

  Result<DeviceKv> make_kv(std::size_t page_tokens, std::size_t pages) const {
    return expert_.make_kv(page_tokens, pages);
  }
  /// As `PolicyEngine::act`: all requests together, each over its own prefix, which ends as it was.
  Result<void> act(DeviceKv& kv, std::span<ActionRequest> requests, const FlowSchedule& schedule,
                   const PolicyEngine::Watch& watch);

 private:
  void fold(Uploader& up);
  bool is_pi0() const { return head_.family == Family::pi0; }
  Result<void> make_room(std::size_t steps, std::size_t requests);
  void upload(std::span<const ActionRequest> requests, const FlowSchedule& schedule);
  std::vector<float> step_biases(const FlowSchedule& schedule) const;
  Result<void> bring_conditions(const FlowSchedule& schedule);
  Result<void> embed_actions(std::size_t step, std::size_t requests);
  Result<void> run_step(DeviceKv& kv, std::size_t step, std::size_t requests);
  Result<void> run_steps(DeviceKv& kv, std::size_t steps, std::size_t requests,
                         const PolicyEngine::Watch& watch);

  const ActionHead& head_;
  DeviceWork& work_;
  DeviceLayers<T> expert_;
  DeviceLinear in_, time_out_, out_;  // in_: pi0, SmolVLA: folded, and its bias is the step's
  DeviceFlowRows b_;
  std::shared_ptr<const Conditions> brought_;
  Recordings recordings_;
  std::size_t moves_ = 0;
};

}  // namespace sluice
