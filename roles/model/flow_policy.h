// pi0 and pi0.5: a prefix of pictures and words, and an action expert that denoises over its keys.
//
// Only what is there is computed: a camera that is masked and padding never enter the tower or the
// trunk. The expert's rows stand behind the prefix in the same sequence while a step runs and are
// taken back after it: the prefix is never copied. The adaptive norms' values depend on the time
// only, so a table per schedule is computed once and its weights are not kept.
// Shape: noise and actions [horizon, dims] per request. Thread: one caller at a time per pool.
// Source: openpi (pi0_pytorch); pi0.5, section IV; OxyGen for the causal language mask; lerobot
// (smolvla), whose prefix ends with the state.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "roles/model/model.h"

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
};

class FlowPolicy {
 public:
  /// Borrows the model. Errors: as `Model`.
  static Result<FlowPolicy> load(const Model& model);

  const ActionShape& shape() const { return *model_->architecture().action; }
  KvShape kv_shape(std::size_t page_tokens) const { return model_->text().kv_shape(page_tokens); }
  /// The rows of a prefix, before the trunk.
  Result<std::vector<float>> embed(const Observation& observation) const;
  /// How many of the rows stand for pictures.
  std::size_t picture_rows(const Observation& observation) const;
  /// Appends a prefix of `embed`'s rows to an empty sequence; `hidden`: its normed rows.
  Result<void> prefill(KvPool& pool, KvSequence& sequence, std::span<const float> rows,
                       std::size_t pictures, std::vector<float>& hidden) const;

  using Watch = std::function<void(std::size_t step, std::span<const float> velocities)>;
  /// Denoises all requests together, each over its own prefix; prefixes end as they were.
  Result<void> act(KvPool& pool, std::span<ActionRequest> requests, const FlowSchedule& schedule,
                   const Watch& watch = {}) const;

  /// sin and cos of the time's place on waves of 4e-3 to 4; in double precision.
  static std::vector<float> time_embedding(double t, std::size_t width);

 private:
  /// The adaptive norms' values for a schedule: made once, kept for the schedules last used.
  Result<std::shared_ptr<const Conditions>> conditions(const FlowSchedule& schedule,
                                                       std::span<const float> times) const;
  Result<Conditions> make_conditions(std::span<const float> times) const;
  Result<std::vector<float>> velocities(KvPool& pool, std::span<ActionRequest> requests,
                                        std::span<const CrossKeys> across, const Conditions* table,
                                        std::uint32_t step, double time) const;
  void suffix_rows(const ActionRequest& request, double time, std::vector<float>& rows) const;

  struct Tables;
  const Model* model_ = nullptr;
  std::shared_ptr<Tables> tables_;
  std::string prefix_;  // of the expert's tensors: what stands before "gemma_expert"
  std::string root_;    // what stands before "action_in_proj"
  Decoder expert_;
  Family family() const { return model_->architecture().family; }

  Linear action_in_, action_out_, time_in_, time_out_, state_;
};

}  // namespace sluice
