// What stands around an action expert: its projections, and the rules of masks, times and norms.
//
// The same for every device that runs the expert. The adaptive norms' values depend on the time
// only, so a table per schedule is computed once and its weights are not kept.
// Shape: noise and actions [horizon, dims] per request. Thread: any after `load`; tables are
// guarded. Source: openpi (pi0_pytorch); pi0.5, section IV; OxyGen for the causal language mask;
// lerobot (smolvla), whose prefix ends with the state.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "engine/family/architecture.h"

namespace sluice {

/// One observation: pictures that are there, and tokens without padding.
struct Observation {
  std::span<const float> pictures;  // [cameras that are there, 3, side, side]
  std::span<const std::int32_t> tokens;
  std::span<const float> state{};  // SmolVLA only
};

/// One robot's request for actions.
struct ActionRequest {
  KvSequence* prefix = nullptr;
  std::vector<float> x;            // noise; the actions afterwards
  std::span<const float> state{};  // pi0 only
};

struct FlowSchedule {
  std::size_t steps = 10;
  float start = 1;  // noise; below 1: a warm start

  float dt() const { return -start / static_cast<float>(steps); }
  /// Added up in f32, as openpi does: the last bits of t are part of the numerics.
  std::vector<float> times() const;
};

struct ActionHead {
  Family family = Family::pi05;
  ActionShape shape;
  DecoderNames expert;  // where its layers stand
  Linear action_in, action_out;
  Linear time_in, time_out;  // pi0, SmolVLA: of an action beside the time
  Linear state;              // pi0: a row before the actions; SmolVLA: the prefix' last row

  /// Borrows the file. Errors: invalid_argument (no action expert); as `WeightLoader`.
  static Result<ActionHead> load(const Architecture& architecture, const SafetensorsFile& file,
                                 kernels::WeightFormat format);

  std::size_t width() const { return shape.expert.block.width; }
  /// Rows of one request that the expert takes.
  std::size_t suffix_rows() const { return shape.horizon + (family == Family::pi0 ? 1 : 0); }
  /// Errors: invalid_argument (noise or a state of another size).
  Result<void> check(std::span<const ActionRequest> requests) const;
  Result<void> check(const Observation& observation) const;

  /// How many rows each of `count` of a prefix sees; the first `pictures` stand for pictures.
  std::vector<std::uint32_t> prefix_sees(std::size_t count, std::size_t pictures) const;
  /// And each row of a suffix behind `before` rows.
  std::vector<std::uint32_t> suffix_sees(std::size_t before) const;

  /// sin and cos of the time's place on waves of 4e-3 to 4; in double precision.
  static std::vector<float> time_embedding(double t, std::size_t width);
  /// pi0.5: the norms' values for a schedule, a condition for each step. Kept for the schedules
  /// last used.
  Result<std::shared_ptr<const Conditions>> conditions(const FlowSchedule& schedule) const;

 private:
  struct Tables;
  Result<Conditions> make_conditions(std::span<const float> times) const;

  const SafetensorsFile* file_ = nullptr;
  kernels::WeightFormat format_ = kernels::WeightFormat::exact;
  std::string at_;  // of the expert's tensors
  std::shared_ptr<Tables> tables_;
};

}  // namespace sluice
