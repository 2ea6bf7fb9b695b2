// One activation as a role sees it: its inputs, where its frames go, and what it promised.
//
// Thread: filled and taken back by whoever drives the engines, used by its lane in between;
// `cancel` from any thread. Owns: its inputs, until it ends. Errors: what the role does against its
// declaration is an error of the activation when it ends.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/effect.h"
#include "graph/plan.h"
#include "roles/role.h"
#include "runtime/inproc/call_state.h"
#include "runtime/inproc/event.h"
#include "runtime/inproc/node_place.h"
#include "runtime/inproc/steady_now.h"
#include "runtime/trace.h"

namespace sluice {

/// When an activation ran, where somebody records it.
struct ActivationTimes {
  std::size_t span = Span::nobody;        // in the trace
  std::atomic<Instant> begin{Instant{}};  // read by who asks for the trace, while it runs
  Instant end{};
};

/// Who hears from roles.
class RoleListener {
 public:
  virtual void yielded(LaneActivation& activation, YieldedFields& fields, bool last) = 0;
  /// `released`: the role has let go of it too. Null: it ended well.
  virtual void ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) = 0;
  /// For one that had ended before its role let go of it.
  virtual void released(LaneActivation& activation) = 0;
  /// False while a role should not yield for it. Whoever changes that wakes the lane.
  virtual bool may_yield(const LaneActivation&) const { return true; }
  /// Memory that this machine shares with one of these, holding anything. Null: there is none.
  virtual Ref<Buffer> make_shared(std::size_t, std::span<const std::uint32_t>) { return {}; }

 protected:
  ~RoleListener() = default;
};

class LaneActivation final : public Activation {
 public:
  LaneActivation* next = nullptr;  // in a queue
  // Its lane's: of a stepped role, which waits before a step and not at a yield; and its role has
  // made a step since it was cancelled.
  bool stepped = false, passed = false;
  bool in_hand = false;  // whoever drives: what it has taken was not given back yet

  LaneActivation() = default;
  ~LaneActivation();
  void begin(RoleListener& listener, const NodePlace& place, const StartActivation& start,
             const Ref<CallState>& call);

  std::string_view node() const override { return place_->node->name; }
  std::string_view interface() const override { return place_->node->interface; }
  std::string_view session() const override { return call_->session_name; }
  std::uint64_t call() const override { return call_->number; }
  std::size_t group() const override { return group_; }
  std::span<const PayloadRef> inputs(std::string_view field) const override;
  void yield(std::span<const FieldValue> fields) override;
  Result<Tensor> make_output(std::string_view field, Dtype dtype,
                             std::vector<std::int64_t> shape) override;
  void warn(std::string warning) override { call_->warn(place_->node->name + ": " + warning); }
  bool cancelled() const override { return cancelled_.load(std::memory_order_relaxed); }

  void cancel() {
    cancelled_.store(true, std::memory_order_relaxed);
    wake_lane();
  }
  bool may_yield() const { return listener_->may_yield(*this); }
  /// On its lane, until `done`, which is asked again when the lane is woken.
  void wait(const std::function<bool()>& done) const;
  void wake_lane() const;
  ActivationId id() const { return id_; }
  std::size_t instance() const { return instance_; }
  const NodePlace& place() const { return *place_; }
  const CallState& call_state() const { return *call_; }
  std::uint32_t replica() const { return replica_; }
  /// Reports the end; a breach of contract is an error even when the role says all went well.
  void end(Result<void> result, bool released = true);
  /// The role has let go of an activation that has ended.
  void release();
  /// Forgets everything but its memory.
  void clear();

  /// Its role takes it now.
  void role_begins() {
    if (times_) times_->begin.store(steady_now(), std::memory_order_relaxed);
  }
  /// From now on it notes when it runs, as this span of the trace.
  const ActivationTimes& keep_times(std::size_t span) {
    times_ = std::make_unique<ActivationTimes>();
    times_->span = span;
    return *times_;
  }
  /// Null: nobody records.
  const ActivationTimes* times() const { return times_.get(); }

  /// An event to fill, on the role's side; it comes back by `give_back` when it is handled.
  Event& new_event(Event::Kind kind);
  void give_back(Event& event);
  /// The role has ended well: true when its last frame still waits, and says so.
  bool ends_with_frame() { return newest_frame_ != nullptr && newest_frame_->last_too(); }

 private:
  const Payload* absent(std::string_view field) const override;
  void breach(std::string what) const;
  /// What is wrong with it; else it is a field of the frame being made.
  std::optional<std::string> check_and_add(const FieldValue& field);
  void drop_inputs();
  void delete_events();

  RoleListener* listener_ = nullptr;
  const NodePlace* place_ = nullptr;
  Ref<CallState> call_;
  ActivationId id_;
  std::uint16_t group_ = 0;
  std::uint32_t replica_ = 0;
  std::size_t instance_ = 0;
  std::vector<PayloadRef> values_;     // of all fields, one field after the other
  std::vector<std::uint32_t> begins_;  // of each field in `values_`, and the end
  YieldedFields fields_;               // of the frame being made
  YieldedFields held_;                 // a frame that leaves with the end or the next
  bool holds_ = false;
  std::uint64_t yields_ = 0;
  mutable std::string breach_;     // the first
  Event* newest_frame_ = nullptr;  // that did not go to the engines at once
  Event* spare_events_ = nullptr;  // the role's side
  std::atomic<Event*> returned_events_{nullptr};
  int events_made_ = 0;
  std::unique_ptr<ActivationTimes> times_;
  std::atomic<bool> cancelled_{false};
};

}  // namespace sluice
