// pi0, pi0.5 and SmolVLA: a prefix of pictures and words, and an action expert that denoises over
// its keys.
//
// Only what is there is computed: a camera that is masked and padding never enter the tower or the
// trunk. The expert's rows stand behind the prefix in the same sequence while a step runs and are
// taken back after it: the prefix is never copied.
// Shape: noise and actions [horizon, dims] per request. Thread: one caller at a time per pool.
// Source: openpi (pi0_pytorch); pi0.5, section IV; lerobot (smolvla).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/family/model.h"
#include "engine/policy/policy_engine.h"

namespace sluice {

class FlowPolicy {
 public:
  /// Borrows the model, and shares the expert where that shares its parts; the head, with what is
  /// kept for schedules, is the policy's own. Errors: as `Model`.
  static Result<FlowPolicy> load(const Model& model);

  const ActionHead& head() const { return head_; }
  const ActionShape& shape() const { return head_.shape; }
  KvShape kv_shape(std::size_t page_tokens, Dtype dtype = Dtype::f32) const {
    return model_->text().kv_shape(page_tokens, dtype);
  }
  /// The rows of a prefix, before the trunk.
  Result<std::vector<float>> embed(const Observation& observation) const;
  /// The same of pictures that the tower has seen: `features` [rows, width] as `Model::features`
  /// leaves them.
  Result<std::vector<float>> embed_seen(std::vector<float> features,
                                        std::span<const std::int32_t> tokens,
                                        std::span<const float> state) const;
  /// How many of the rows stand for pictures.
  std::size_t picture_rows(const Observation& observation) const;
  /// Appends a prefix of `embed`'s rows to an empty sequence; `hidden`: its normed rows, if wanted.
  Result<void> prefill(KvPool& pool, KvSequence& sequence, std::span<const float> rows,
                       std::size_t pictures, std::vector<float>* hidden) const;
  /// As `PolicyEngine::act`.
  Result<void> act(KvPool& pool, std::span<ActionRequest> requests, const FlowSchedule& schedule,
                   const PolicyEngine::Watch& watch = {}) const;

  const Model& model() const { return *model_; }
  const Decoder& expert() const { return *expert_; }
  /// The expert's rows of one step, and the velocities [horizon, dims] that its normed rows mean.
  void suffix_rows(const ActionRequest& request, double time, std::vector<float>& rows) const;
  void velocities_of(std::span<const float> hidden, std::vector<float>& velocities) const;

 private:
  Result<std::vector<float>> velocities(KvPool& pool, std::span<ActionRequest> requests,
                                        std::span<const CrossKeys> across, const Conditions* table,
                                        std::uint32_t step, double time) const;
  Family family() const { return head_.family; }

  const Model* model_ = nullptr;
  ActionHead head_;
  std::shared_ptr<const Decoder> expert_;
};

/// The CPU's. Borrows both.
class CpuPolicy final : public PolicyEngine {
 public:
  CpuPolicy(const FlowPolicy& policy, KvPool& pool) : policy_(policy), pool_(pool) {}

  const ActionHead& head() const override { return policy_.head(); }
  KvPages& pages() override { return pool_; }
  Result<void> prefill(KvSequence& sequence, const Observation& observation,
                       std::vector<float>* hidden) override {
    const Result<std::vector<float>> rows = policy_.embed(observation);
    if (!rows.ok()) return rows.error();
    return policy_.prefill(pool_, sequence, *rows, policy_.picture_rows(observation), hidden);
  }
  Result<void> act(std::span<ActionRequest> requests, const FlowSchedule& schedule,
                   const Watch& watch) override {
    return policy_.act(pool_, requests, schedule, watch);
  }

 private:
  const FlowPolicy& policy_;
  KvPool& pool_;
};

}  // namespace sluice
