#include "runtime/replicas/desk.h"

#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "runtime/inproc/lane.h"

namespace sluice {

// ---- the node's life

void ReplicaDesk::begin(Origin self, NodePort& port) {
  const std::lock_guard lock(mutex_);
  life_ = self;
  port_ = &port;
}

void ReplicaDesk::end(Origin self, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (port_ == nullptr || life_ != self) return;
  port_ = nullptr;
  wake(asked_.all_lost(why));
  served_.all_over([](LaneActivation* one) { one->cancel(); });
}

void ReplicaDesk::joined(Origin life) {
  const std::lock_guard lock(mutex_);
  if (life.incarnation > 0) over({life.machine, life.incarnation - 1}, "it has begun anew");
  wake(asked_.joined(life));
}

void ReplicaDesk::lost(Origin life, const std::string& why) {
  const std::lock_guard lock(mutex_);
  over(life, why);
}

void ReplicaDesk::over(Origin life, const std::string& why) {
  wake(asked_.lost(life, why));
  served_.over(life, [](LaneActivation* one) { one->cancel(); });
}

void ReplicaDesk::wake(std::span<const std::uint64_t> ended) {
  for (const std::uint64_t number : ended) ears_.at(number)->said.notify_all();
}

std::size_t ReplicaDesk::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_.size();
}

std::size_t ReplicaDesk::served() const {
  const std::lock_guard lock(mutex_);
  return works_.size();
}

// ---- what roles that stand for replicas elsewhere want

std::uint32_t ReplicaDesk::workflow_of(const PlanNode& node) const {
  return workflows_.at(&node - node.id);  // nodes stand in the order of their ids
}

ReplicaBegin ReplicaDesk::begin_of(const LaneActivation& activation) const {
  const PlanNode& node = *activation.place().node;
  ReplicaBegin begin{.node = node.id,
                     .replica = activation.replica(),
                     .group = static_cast<std::uint16_t>(activation.group()),
                     .call = activation.call(),
                     .session = std::string(activation.session())};
  const std::vector<std::string>& fields = node.groups[begin.group].fields;
  for (std::uint16_t field = 0; field < fields.size(); ++field)
    for (const PayloadRef& value : activation.inputs(fields[field]))
      begin.inputs.emplace_back(field, value);
  return begin;
}

Result<ReplicaAsked> ReplicaDesk::ask(std::uint32_t machine, const LaneActivation& activation,
                                      std::optional<std::size_t> room,
                                      std::shared_ptr<ReplicaEar> ear) {
  ReplicaBegin begin = begin_of(activation);
  const PlanNode& node = *activation.place().node;
  const std::string what =
      "replica " + std::to_string(begin.replica) + " of node '" + node.name + "'";
  const std::lock_guard lock(mutex_);
  const Result<Origin> life = asked_.life_of(machine, what);
  if (!life.ok()) return life.error();
  SLUICE_CHECK(port_ != nullptr, "a replica elsewhere is asked for between two lives");
  const std::uint32_t workflow = workflow_of(node);
  const ReplicaPlace place{workflow, node.id, begin.replica};
  wire::Lending lending{port_->lender(), *life};
  Result<wire::Bytes> parcel =
      encode_replica({workflow, asked_.next_number(), std::move(begin)}, lending);
  if (!parcel.ok())
    return Error{parcel.error().code, "the inputs of " + what + " cannot be sent to machine '" +
                                          names_[machine] + "': " + parcel.error().message};
  const std::size_t weight = weight_of(parcel->size(), lending);
  if (room && weight > *room) {
    lending.take_back();
    return ReplicaAsked{0, weight};
  }
  port_->send(*life, Channel::control, std::move(parcel).value());
  failpoint("replica_asked");
  const std::uint64_t number = asked_.add({*life, place, what});
  ears_.emplace(number, std::move(ear));
  return ReplicaAsked{number, weight};
}

void ReplicaDesk::send(Origin to, const ReplicaParcel& parcel) {
  wire::Lending nothing;
  Result<wire::Bytes> bytes = encode_replica(parcel, nothing);
  SLUICE_CHECK(bytes.ok(), "a parcel without values always fits");
  if (port_ != nullptr) port_->send(to, Channel::control, std::move(bytes).value());
}

void ReplicaDesk::cancel(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  const AskedActivations::Asked* const asked = asked_.find(number);
  if (asked != nullptr && port_ != nullptr && !asked_.is_late(asked->at))
    send(asked->at, {asked->place.workflow, number, ReplicaCancel{}});
}

std::optional<ReplicaSaid> ReplicaDesk::take(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  std::optional<ReplicaSaid> said = asked_.take(number);
  if (said && said->end) ears_.erase(number);
  return said;
}

void ReplicaDesk::gone_on(std::uint64_t number, std::size_t weight) {
  const std::lock_guard lock(mutex_);
  const std::size_t back = asked_.gone_on(number, weight);
  if (back == 0) return;
  const AskedActivations::Asked& asked = *asked_.find(number);
  send(asked.at, {asked.place.workflow, number, ReplicaTaken{back}});
}

bool ReplicaDesk::wait(ReplicaEar& ear, std::span<const std::uint64_t> numbers,
                       std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return ear.said.wait_for(lock, most, [&] {
    return std::ranges::any_of(numbers, [&](std::uint64_t one) { return asked_.has_news(one); });
  });
}

// ---- what other machines say

std::string ReplicaDesk::heard(Origin from, const Control& control,
                               std::span<const std::byte> parcel) {
  const std::lock_guard lock(mutex_);
  if (port_ == nullptr || asked_.is_late(from) || served_.is_late(from)) return {};
  wire::Lending lending{port_->lender(), from};
  Result<ReplicaParcel> read = decode_replica(parcel.subspan(control.body), lending);
  if (!read.ok()) return read.error().message;
  read->workflow = control.workflow;
  return hear(from, std::move(read).value(), weight_of(parcel.size(), lending));
}

std::string ReplicaDesk::hear(Origin from, ReplicaParcel parcel, std::size_t weight) {
  if (auto* const begin = std::get_if<ReplicaBegin>(&parcel.what))
    return hear_begin(from, parcel.workflow, parcel.activation, std::move(*begin), weight);
  if (std::holds_alternative<ReplicaYielded>(parcel.what) ||
      std::holds_alternative<ReplicaEnded>(parcel.what))
    return hear_said(from, std::move(parcel), weight);
  return hear_order(from, parcel);
}

std::string ReplicaDesk::hear_order(Origin from, const ReplicaParcel& parcel) {
  const std::uint64_t number = parcel.activation;
  if (const auto problem = served_.order_problem(from, number); !problem.empty())
    return std::string(problem);
  LaneActivation* const one = served_.find(from, number);
  if (const auto* const taken = std::get_if<ReplicaTaken>(&parcel.what)) {
    if (!served_.taken(from, number, taken->bytes))
      return "it gives back more bytes of an activation than it was sent";
    if (one != nullptr) one->wake_lane();
  } else if (one != nullptr) {
    one->cancel();
  }
  return {};
}

std::string ReplicaDesk::hear_said(Origin from, ReplicaParcel parcel, std::size_t weight) {
  const std::uint64_t number = parcel.activation;
  if (std::string problem = asked_.problem(from, number); !problem.empty()) return problem;
  const ReplicaPlace place = asked_.find(number)->place;
  if (place.workflow != parcel.workflow)
    return "it speaks of an activation of another workflow than it was asked for";
  if (auto* const yielded = std::get_if<ReplicaYielded>(&parcel.what)) {
    if (std::string problem = values_problem(place, yielded->values); !problem.empty())
      return problem;
    asked_.said(number, {.values = std::move(yielded->values),
                         .warnings = std::move(yielded->warnings),
                         .weight = weight});
  } else {
    asked_.said(number, {.end = std::get<ReplicaEnded>(std::move(parcel.what))});
  }
  ears_.at(number)->said.notify_all();
  failpoint("replica_said");
  return {};
}

std::string ReplicaDesk::values_problem(const ReplicaPlace& place,
                                        const ReplicaValues& values) const {
  const ReplicaGraph& graph = graphs_[place.workflow];
  const PlanNode& node = graph.plan->nodes[place.node];
  std::uint64_t seen = 0;
  for (const auto& [output, value] : values) {
    if (output >= node.outputs.size())
      return "it yields an output that node '" + node.name + "' does not have";
    if ((seen >> output & 1U) != 0)
      return "it yields '" + node.outputs[output] + "' of node '" + node.name +
             "' twice in one frame";
    seen |= std::uint64_t{1} << output;
    if (const auto wrong = graph.contract->value_problem(place.node, output, *value))
      return "a replica of node '" + node.name + "' yielded " + *wrong;
  }
  return {};
}

std::string ReplicaDesk::begin_problem(Origin from, std::uint32_t workflow,
                                       const ReplicaBegin& begin) const {
  const ReplicaGraph& graph = graphs_[workflow];
  if (begin.node >= graph.machines.size() || graph.machines[begin.node].empty())
    return "it asks for an activation of a node whose replicas are not on several machines";
  const std::vector<std::uint32_t>& machines = graph.machines[begin.node];
  const PlanNode& node = graph.plan->nodes[begin.node];
  const auto of_node = [&] { return " of node '" + node.name + "'"; };
  if (machines.front() != from.machine)
    return "it asks for an activation" + of_node() + ", whose engine it does not have";
  if (begin.replica >= machines.size() || machines[begin.replica] != self_)
    return "it asks for an activation on replica " + std::to_string(begin.replica) + of_node() +
           ", which is not here";
  if (begin.group >= node.groups.size())
    return "it asks for an activation of a group that is not there" + of_node();
  const PlanGroup& group = node.groups[begin.group];
  std::uint64_t came = 0, again = 0;
  std::uint16_t before = 0;
  for (const auto& [field, value] : begin.inputs) {
    if (field >= group.fields.size() || field < before)
      return "it gives inputs" + of_node() + " that have no such place in their group";
    before = field;
    again |= came & std::uint64_t{1} << field;
    came |= std::uint64_t{1} << field;
    const Port* const port = find_port(graph.inputs[begin.node], group.fields[field]);
    const auto wrong = port == nullptr ? std::nullopt : breach_of(*port, *value);
    if (wrong) return "as an input" + of_node() + " it gives " + *wrong;
  }
  if (group.single != 0 && ((again & group.single) != 0 || (group.needed & ~came) != 0))
    return "it gives none or two values of an input" + of_node() + " that takes one";
  return {};
}

std::string ReplicaDesk::hear_begin(Origin from, std::uint32_t workflow, std::uint64_t number,
                                    ReplicaBegin begin, std::size_t weight) {
  if (std::string problem = begin_problem(from, workflow, begin); !problem.empty()) return problem;
  // Whoever speaks in a life has no earlier one.
  if (from.incarnation > 0) over({from.machine, from.incarnation - 1}, "it has begun anew");
  const NodePlace& place = graphs_[workflow].places[begin.node];
  const std::size_t replica = replica_here(place.replicas[begin.replica]);
  if (const auto problem = served_.begin_problem(from, number, replica, weight); !problem.empty())
    return std::string(problem);
  run(from, workflow, number, std::move(begin), weight);
  return {};
}

std::size_t ReplicaDesk::replica_here(const RolePlace& place) {
  return replicas_.try_emplace({place.lane, place.instance}, replicas_.size()).first->second;
}

// ---- what runs here for others

void ReplicaDesk::run(Origin owner, std::uint32_t workflow, std::uint64_t number,
                      ReplicaBegin begin, std::size_t weight) {
  const NodePlace& place = graphs_[workflow].places[begin.node];
  auto* const call = new CallState({}, std::move(begin.session));
  const Ref<CallState> of_call(call);
  call->number = begin.call;
  std::vector<InputValue> inputs;
  for (auto& [field, value] : begin.inputs) inputs.push_back({field, std::move(value)});
  StartActivation start;
  start.node = begin.node;
  start.group = begin.group;
  start.replica = begin.replica;
  start.inputs = inputs;
  auto work = std::make_unique<Work>();
  work->owner = owner;
  work->number = number;
  work->workflow = workflow;
  LaneActivation* const activation = &work->activation;
  activation->begin(*this, place, start, of_call);
  if (works_.empty()) alive_ = shared_from_this();
  works_[activation] = std::move(work);
  served_.begin(owner, number, replica_here(place.replicas[begin.replica]), weight, activation);
  failpoint("replica_begun");
  place.replicas[begin.replica].lane->push(activation, activation);
}

ReplicaDesk::Work& ReplicaDesk::work_of(const LaneActivation& activation) {
  return *works_.at(&activation);
}

namespace {

/// Without the node's name before them, which the owner writes too.
std::vector<std::string> warnings_of(const LaneActivation& activation) {
  const std::string head = activation.place().node->name + ": ";
  std::vector<std::string> warnings = activation.call_state().new_warnings();
  for (std::string& warning : warnings)
    if (warning.starts_with(head)) warning.erase(0, head.size());
  return warnings;
}

}  // namespace

void ReplicaDesk::yielded(LaneActivation& activation, YieldedFields& fields, bool) {
  if (!activation.stepped && !may_yield(activation))
    activation.wait([&] { return activation.cancelled() || may_yield(activation); });
  ReplicaYielded frame{.values = std::exchange(fields, {}), .warnings = warnings_of(activation)};
  const std::lock_guard lock(mutex_);
  Work& work = work_of(activation);
  if (port_ == nullptr || served_.find(work.owner, work.number) == nullptr) return;
  wire::Lending lending{port_->lender(), work.owner};
  Result<wire::Bytes> parcel =
      encode_replica({work.workflow, work.number, std::move(frame)}, lending);
  if (!parcel.ok()) {
    activation.cancel();
    return end_work(work, Error{parcel.error().code, "what it made cannot be sent to machine '" +
                                                         names_[work.owner.machine] +
                                                         "': " + parcel.error().message});
  }
  served_.yielded(work.owner, work.number, weight_of(parcel->size(), lending));
  port_->send(work.owner, Channel::control, std::move(parcel).value());
  failpoint("replica_yielded");
}

void ReplicaDesk::end_work(Work& work, std::optional<Error> error) {
  if (!served_.ended(work.owner, work.number)) return;
  send(work.owner,
       {work.workflow, work.number, ReplicaEnded{std::move(error), warnings_of(work.activation)}});
  failpoint("replica_ended");
}

void ReplicaDesk::ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) {
  std::shared_ptr<ReplicaDesk> alive;  // lets go behind the lock
  const std::lock_guard lock(mutex_);
  end_work(work_of(activation), error ? std::optional(std::move(*error)) : std::nullopt);
  if (!released) return;
  works_.erase(&activation);
  if (works_.empty()) alive = std::move(alive_);
}

void ReplicaDesk::released(LaneActivation& activation) {
  std::shared_ptr<ReplicaDesk> alive;
  const std::lock_guard lock(mutex_);
  works_.erase(&activation);
  if (works_.empty()) alive = std::move(alive_);
}

bool ReplicaDesk::may_yield(const LaneActivation& activation) const {
  const std::lock_guard lock(mutex_);
  const Work& work = *works_.at(&activation);
  return served_.may_yield(work.owner, work.number);
}

Ref<Buffer> ReplicaDesk::make_shared(std::size_t size, std::span<const std::uint32_t> readers) {
  const std::lock_guard lock(mutex_);
  wire::Lender* const lender = port_ == nullptr ? nullptr : port_->lender();
  if (lender == nullptr) return {};
  const bool any =
      std::ranges::any_of(readers, [&](std::uint32_t one) { return lender->reaches(one); });
  return any ? lender->make(size) : Ref<Buffer>();
}

}  // namespace sluice
