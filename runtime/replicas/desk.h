// Where this machine and others meet over replicas of a role that are on several machines
// (`balance: broadcast`): it asks for activations for its own engines, and runs those that other
// machines' engines ask for.
//
// On the owner, the machine of a node's engine, a replica elsewhere is a role like any other
// (`make_replica_elsewhere`), which asks here. On the other machine the activation runs on the
// replica's lane as if its engine were here, and this is who hears what it yields. What may be said
// when is decided by `AskedActivations` and `ServedActivations`; here are the lock, the bytes and
// the checks against the plan. It outlives the lives of its machine, as roles do.
// Thread: `add` before anything runs; the rest from any. Never calls the port's `refuse` itself, so
// that whoever does holds no lock. Errors: of a parcel, in words: its sender is to blame.
// Source: docs/CLUSTER.md, "Each replica, over machines"; docs/WIRE.md, "Replicas elsewhere".
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/plan.h"
#include "runtime/inproc/activation.h"
#include "runtime/node/control.h"
#include "runtime/node/port.h"
#include "runtime/replicas/asked.h"
#include "runtime/replicas/served.h"
#include "runtime/wire/contract.h"

namespace sluice {

/// A workflow as the desk knows it, by node; empty rows: not of a role on several machines.
struct ReplicaGraph {
  std::shared_ptr<const Plan> plan;
  const wire::Contract* contract = nullptr;  // outlives the desk
  /// Of each replica the machine; the first is the owner.
  std::vector<std::vector<std::uint32_t>> machines;
  /// Where the replicas of this machine run; those elsewhere have no lane.
  std::vector<NodePlace> places;
  std::vector<std::vector<Port>> inputs;  // that the role declares
};

/// Where a role waits for what is said of what it has asked for; nobody else is woken then.
struct ReplicaEar {
  std::condition_variable said;
};

/// What a role that stands for a replica elsewhere is told.
struct ReplicaAsked {
  std::uint64_t number = 0;
  std::size_t weight = 0;  // of its inputs; with number 0: they do not fit beside the others yet
};

class ReplicaDesk final : public std::enable_shared_from_this<ReplicaDesk>, private RoleListener {
 public:
  ReplicaDesk(std::vector<std::string> machines, std::uint32_t self)
      : names_(std::move(machines)), self_(self), asked_(names_), served_(names_.size()) {}

  /// The next workflow.
  void add(ReplicaGraph graph) {
    workflows_[graph.plan->nodes.data()] = static_cast<std::uint32_t>(graphs_.size());
    graphs_.push_back(std::move(graph));
  }

  // The node's life.
  /// The port is borrowed until `end` has returned.
  void begin(Origin self, NodePort& port);
  /// That life is over: what was asked for ends with this error, and what runs for others is
  /// cancelled. Another life may have begun: then nothing is done.
  void end(Origin self, const std::string& why);
  /// Before the drivers hear of it.
  void joined(Origin life);
  void lost(Origin life, const std::string& why);
  /// A parcel of the kind `replica`. Empty, or what is wrong with it.
  std::string heard(Origin from, const Control& control, std::span<const std::byte> parcel);

  // Roles that stand for replicas elsewhere.
  /// `room`: how much of inputs may go beside what its replica has; none: anything, for it has
  /// nothing. Errors: unavailable (the machine is away), exhausted (it cannot be sent).
  Result<ReplicaAsked> ask(std::uint32_t machine, const LaneActivation& activation,
                           std::optional<std::size_t> room, std::shared_ptr<ReplicaEar> ear);
  void cancel(std::uint64_t number);
  /// The next that was said of it; behind its end nothing may be asked of it.
  std::optional<ReplicaSaid> take(std::uint64_t number);
  void gone_on(std::uint64_t number, std::size_t weight);
  /// Until something can be taken of one of these, which the ear asked for, for at most so long.
  /// False: nothing can.
  bool wait(ReplicaEar& ear, std::span<const std::uint64_t> numbers,
            std::chrono::milliseconds most);

  /// Asked for, and run for others, that have not ended.
  std::size_t asked() const;
  std::size_t served() const;

 private:
  /// What runs here for another machine, until its role lets go of it.
  struct Work {
    LaneActivation activation;
    Origin owner;
    std::uint64_t number = 0;
    std::uint32_t workflow = 0;
  };

  void yielded(LaneActivation& activation, YieldedFields& fields, bool last) override;
  void ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) override;
  void released(LaneActivation& activation) override;
  bool may_yield(const LaneActivation& activation) const override;
  Ref<Buffer> make_shared(std::size_t size, std::span<const std::uint32_t> readers) override;

  // Under the lock.
  std::uint32_t workflow_of(const PlanNode& node) const;
  ReplicaBegin begin_of(const LaneActivation& activation) const;
  void send(Origin to, const ReplicaParcel& parcel);
  void over(Origin life, const std::string& why);
  /// Whoever waits for these, which were asked for.
  void wake(std::span<const std::uint64_t> ended);
  std::string hear(Origin from, ReplicaParcel parcel, std::size_t weight);
  std::string hear_begin(Origin from, std::uint32_t workflow, std::uint64_t number,
                         ReplicaBegin begin, std::size_t weight);
  std::string begin_problem(Origin from, std::uint32_t workflow, const ReplicaBegin& begin) const;
  std::string hear_order(Origin from, const ReplicaParcel& parcel);
  std::string hear_said(Origin from, ReplicaParcel parcel, std::size_t weight);
  std::string values_problem(const ReplicaPlace& place, const ReplicaValues& values) const;
  void run(Origin owner, std::uint32_t workflow, std::uint64_t number, ReplicaBegin begin,
           std::size_t weight);
  std::size_t replica_here(const RolePlace& place);
  Work& work_of(const LaneActivation& activation);
  void end_work(Work& work, std::optional<Error> error);
  void release(LaneActivation& activation);

  const std::vector<std::string> names_;  // of machines
  const std::uint32_t self_;
  std::vector<ReplicaGraph> graphs_;
  std::map<const PlanNode*, std::uint32_t> workflows_;  // by the first node of their plans

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<ReplicaEar>> ears_;  // by activation asked for
  NodePort* port_ = nullptr;                                   // null: between two lives
  Origin life_;
  AskedActivations asked_;
  ServedActivations<LaneActivation*> served_;
  std::map<const LaneActivation*, std::unique_ptr<Work>> works_;
  /// Of this machine that others have asked for: a number each.
  std::map<std::pair<const Lane*, std::size_t>, std::size_t> replicas_;
  std::shared_ptr<ReplicaDesk> alive_;  // while a role has something of it
};

}  // namespace sluice
