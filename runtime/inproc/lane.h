// One thread that runs role instances: a replica, or several roles that share a place (`colocate`).
//
// A lane takes activations first in, first out; a stepped role's admitted activations advance
// together, and other work of the lane runs between its steps.
// Thread: `push` from the loop; roles are called on the lane's own thread. Owns: the instances.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "graph/effect.h"
#include "graph/plan.h"
#include "roles/role.h"
#include "runtime/mailbox.h"

namespace sluice {

/// What a lane reports to the loop.
struct LaneEvent {
  NodeId node = 0;
  ActivationId activation;
  bool ended = false;
  std::vector<std::pair<std::uint16_t, PayloadRef>> fields;  // of a yield: output index, value
  std::unique_ptr<Error> error;                              // of an end; null: well
};

/// One activation as a role sees it.
class LaneActivation final : public Activation {
 public:
  /// `plan_node` keeps the plan, for the runner may end before the role does.
  LaneActivation(std::shared_ptr<const PlanNode> plan_node, const StartActivation& start,
                 std::string session, std::function<void(LaneEvent)> report);

  std::string_view node() const override { return node_->name; }
  std::string_view interface() const override { return node_->interface; }
  std::string_view session() const override { return session_; }
  std::uint64_t call() const override { return call_; }
  std::size_t group() const override { return group_; }
  std::span<const PayloadRef> inputs(std::string_view field) const override;
  void yield(std::span<const FieldValue> fields) override;
  bool cancelled() const override { return cancelled_.load(std::memory_order_relaxed); }

  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  ActivationId id() const { return id_; }
  std::size_t instance() const { return instance_; }
  void set_instance(std::size_t instance) { instance_ = instance; }
  /// Reports the end; a wrong yield is an error even when the role says all went well.
  void end(Result<void> result);

 private:
  std::shared_ptr<const PlanNode> node_;
  ActivationId id_;
  std::string session_;
  CallId call_;
  std::uint16_t group_;
  std::size_t instance_ = 0;
  std::vector<std::vector<PayloadRef>> inputs_;   // index = the group's fields
  std::function<void(LaneEvent)> report_;
  std::string contract_error_;
  std::atomic<bool> cancelled_{false};
};

class Lane {
 public:
  Lane() = default;
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Before `run`. Returns the instance's index in this lane.
  std::size_t add(RoleInstance instance);
  void run();
  /// The activation stays alive until it has reported its end.
  void push(std::shared_ptr<LaneActivation> activation);

 private:
  void work();
  void run_one(std::shared_ptr<LaneActivation> activation);
  bool step_all();

  std::vector<RoleInstance> instances_;
  std::vector<std::shared_ptr<LaneActivation>> admitted_;   // in stepped roles
  std::vector<StepOutcome> outcomes_;
  Mailbox<std::shared_ptr<LaneActivation>> mailbox_;        // null: stop
  std::thread thread_;
};

}  // namespace sluice
