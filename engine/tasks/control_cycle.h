// A robot's next actions: a prefix of what it sees and is told, then one work per denoising step.
//
// The prefix goes through the trunk, in the same forwards as answers do; each step's rows stand
// behind it for one forward of the action expert and are forgotten, so the prefix stays as it was.
// Either part may be left out: a prefix that is there already is read where it lies, and with no
// steps the prefix is all there is to do.
// Shape: rows [prefix, width], noise and actions [horizon, dims]. Thread: one. Units: nanoseconds
// of the engine's clock. Source: openpi (pi0_pytorch); OxyGen, section 4.2.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/policy/flow_policy.h"
#include "engine/tasks/task.h"

namespace sluice {

struct ControlOptions {
  FlowSchedule schedule;  // no steps: the prefix only
  std::uint8_t priority = 0;
  /// When the last step must have ended; each step gets an equal part of the time from `began` on.
  Nanoseconds began = 0;
  Nanoseconds deadline = no_deadline;
};

class ControlCycle final : public Task {
 public:
  /// `prefix`: of its own (a fork); `rows`, not yet written, come behind it, the first `pictures`
  /// of them of pictures. `x`: noise. Borrows the policy. Errors: invalid_argument (noise or state
  /// of another size).
  static Result<std::unique_ptr<ControlCycle>> make(const FlowPolicy& policy, KvSequence prefix,
                                                    std::vector<float> rows, std::size_t pictures,
                                                    std::vector<float> x, std::vector<float> state,
                                                    const ControlOptions& options);

  /// Requires: it is in no engine. The task is not used any more.
  KvSequence release_prefix() { return std::move(prefix_); }
  /// What the trunk made of the prefix' last row, normed: words begin with it. Only of a cycle
  /// without steps.
  std::vector<float> take_last_row() { return std::move(last_row_); }
  std::vector<float> take_actions() { return std::move(request_.x); }
  const std::optional<Error>& error() const { return error_; }

  bool done() const override {
    return error_.has_value() || (rows_.empty() && step_ == times_.size());
  }
  PagesWanted pages_wanted(TextEngine& engine) const override;
  std::size_t pages_taken() const override { return prefix_.pages().size() - pages_before_; }
  Need need(const TextEngine& engine) const override;
  void lay_out(const TextEngine& engine, std::size_t rows, Work& work) override;
  void take(TextEngine& engine, const StepResult& result) override;
  void fail(const Error& error) override { error_ = error; }

 private:
  explicit ControlCycle(const FlowPolicy& policy) : policy_(policy) {}
  std::size_t prefix_rows() const;

  const FlowPolicy& policy_;
  KvSequence prefix_;
  std::vector<float> rows_;  // of the prefix, not yet written
  std::size_t pictures_ = 0;
  std::vector<float> last_row_;
  ActionRequest request_;
  std::vector<float> state_;
  ControlOptions options_;
  std::vector<float> times_;  // of the steps
  std::size_t step_ = 0;
  std::size_t pages_before_ = 0;
  std::shared_ptr<const Conditions> conditions_;
  std::optional<CrossKeys> across_;  // of an expert that attends across, once the prefix is there
  // Of the forward under way.
  std::vector<float> suffix_;
  std::vector<std::uint32_t> sees_;
  std::vector<float> velocities_;
  std::optional<Error> error_;
};

}  // namespace sluice
