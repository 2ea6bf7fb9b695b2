#include "runtime/sim/oracle.h"

#include <algorithm>
#include <span>

namespace sluice::sim {

namespace {

constexpr std::size_t violations_max = 20;
constexpr std::uint32_t no_call = 0xffffffff;

}  // namespace

Oracle::Oracle(const Plan& plan, const Script& script) : plan_(plan), script_(script) {
  frames_.push_back({0, 0});  // 0: no frame
  calls_.reserve(script.calls.size());
  upstream_.resize(plan.collectors.size());
  for (const Collector& collector : plan.collectors)
    if (collector.kind == CollectorKind::join) upstream_[collector.id] = upstream_of(collector);
}

bool Oracle::Identities::insert(Token token) {
  if (!table && list.size() == many)
    table = std::make_unique<std::unordered_set<Token>>(list.begin(), list.end());
  if (table) return table->insert(token).second;
  if (std::ranges::find(list, token) != list.end()) return false;
  list.push_back(token);
  return true;
}

void Oracle::violated(std::string what) {
  if (violations_.size() < violations_max) violations_.push_back(std::move(what));
}

std::string Oracle::where(const StartActivation& start) const {
  return "call " + std::to_string(call_of(start.call)) + ", node '" + plan_.nodes[start.node].name +
         "' group " + std::to_string(start.group);
}

/// The nodes that may still add a frame to a scope of the join.
std::vector<bool> Oracle::upstream_of(const Collector& join) const {
  std::vector<bool> found(plan_.nodes.size());
  std::vector<NodeId> open;
  const auto visit = [&](NodeId node) {
    if (found[node] || node == join.root) return;
    found[node] = true;
    open.push_back(node);
  };
  for (const EdgeId id : plan_.nodes[join.owner].groups[join.group].edges)
    visit(plan_.edges[id].from);
  while (!open.empty()) {
    const NodeId node = open.back();
    open.pop_back();
    // A count may have fired already: what still comes to it adds nothing.
    const std::vector<PlanGroup>& groups = plan_.nodes[node].groups;
    if (!groups.empty() && !groups[0].counts.empty()) continue;
    for (const Edge& edge : plan_.edges)
      if (!edge.is_output() && edge.to == node) visit(edge.from);
  }
  return found;
}

void Oracle::call_arrived(std::size_t call, std::uint64_t session) {
  calls_.resize(std::max(calls_.size(), call + 1));
  calls_[call].session = session;
  sessions_[session].push_back(call);
  calls_[call].entry = static_cast<ActivationNumber>(activations_.size());
  activations_.push_back({static_cast<std::uint32_t>(call), entry_node, calls_[call].entry, 0, 0});
}

void Oracle::call_named(std::size_t call, const CallId& id, Instant now, Instant allowed) {
  auto home = std::ranges::find(homes_, id.home, &Home::origin);
  if (home == homes_.end()) home = homes_.insert(home, {id.home, {}});
  home->calls.resize(std::max<std::size_t>(home->calls.size(), id.number + 1), no_call);
  home->calls[id.number] = static_cast<std::uint32_t>(call);
  calls_[call].home = static_cast<std::size_t>(home - homes_.begin());
  ++home->open;
  calls_[call].arrived = now;
  calls_[call].allowed = std::min<Instant>(allowed, plan_.limits.deadline);
}

void Oracle::check_admitted(std::size_t index) {
  const CallFacts& call = calls_[index];
  if (!call.ended && homes_[call.home].open > plan_.limits.calls)
    violated("C26: call " + std::to_string(index) + " was let in as number " +
             std::to_string(homes_[call.home].open) + " of " + std::to_string(plan_.limits.calls));
}

std::size_t Oracle::call_of(const CallId& id) const {
  const auto home = std::ranges::find(homes_, id.home, &Home::origin);
  const bool known =
      home != homes_.end() && id.number < home->calls.size() && home->calls[id.number] != no_call;
  SLUICE_CHECK(known, "a call that no home has made");
  return home->calls[id.number];
}

std::size_t Oracle::first_open(std::uint64_t session) {
  std::deque<std::size_t>& open = sessions_[session];
  while (!open.empty() && calls_[open.front()].ended) open.pop_front();
  return open.empty() ? calls_.size() : open.front();
}

Oracle::Pass Oracle::pass_of(FrameNumber number, NodeId root) const {
  FrameFact frame = frames_[number];
  for (;;) {
    const ActivationFact& activation = activations_[frame.activation];
    if (activation.node == root) return {frame.activation, frame.yield, true};
    if (activation.node == entry_node) return {};
    frame = {activation.parent, activation.parent_yield};
  }
}

int Oracle::compare(FrameFact a, FrameFact b) const {
  const auto chain = [&](FrameFact frame) {
    std::vector<FrameFact> all{frame};
    while (activations_[all.back().activation].node != entry_node) {
      const ActivationFact& activation = activations_[all.back().activation];
      all.push_back({activation.parent, activation.parent_yield});
    }
    std::ranges::reverse(all);
    return all;
  };
  const std::vector<FrameFact> one = chain(a);
  const std::vector<FrameFact> two = chain(b);
  for (std::size_t i = 0; i < std::min(one.size(), two.size()); ++i) {
    if (one[i].activation != two[i].activation)
      return compare_replicas(activations_[one[i].activation], activations_[two[i].activation]);
    // Across the turns of a loop only the order of releases counts.
    if (plan_.nodes[activations_[one[i].activation].node].loop_index != none &&
        one[i].yield != two[i].yield)
      return 0;
    if (one[i].yield != two[i].yield) return one[i].yield < two[i].yield ? -1 : 1;
  }
  return 0;
}

int Oracle::compare_replicas(const ActivationFact& a, const ActivationFact& b) const {
  const PlanNode& node = plan_.nodes[a.node];
  const bool same = a.node == b.node && a.group == b.group && node.loop_index == none;
  if (!same || a.replica == b.replica) return 0;
  return a.replica < b.replica ? -1 : 1;
}

void Oracle::check_join(const StartActivation& start, const PlanGroup& group, const CallFacts& call,
                        FrameFact& parent) {
  const Collector& join = plan_.collectors[group.collector];
  const Pass pass = pass_of(frame_of(*start.inputs.front().value), join.root);
  for (const InputValue& input : start.inputs)
    if (pass_of(frame_of(*input.value), join.root) != pass || !pass.found)
      violated("C3: inputs of different yields of the root in " + where(start));
  parent = {pass.activation, pass.yield};
  if (call.failed || call.cancelled) return;
  const std::vector<bool>& upstream = upstream_[join.id];
  for (const ActivationNumber number : call.running) {
    const ActivationFact& live = activations_[number];
    if (!upstream[live.node]) continue;
    const FrameNumber probe = static_cast<FrameNumber>(frames_.size());
    frames_.push_back({number, 0});
    if (pass_of(probe, join.root) == pass)
      violated("C2: " + where(start) + " fired while '" + plan_.nodes[live.node].name +
               "' could still add to it");
    frames_.pop_back();
  }
  for (const Flying& flying : call.flying) {
    if (flying.frame == 0) continue;
    const Edge& edge = plan_.edges[flying.edge];
    if (edge.is_output()) continue;
    const std::vector<PlanGroup>& groups = plan_.nodes[edge.to].groups;
    if (!groups[edge.group].counts.empty()) continue;
    const bool slot = edge.to == join.owner && edge.group == join.group;
    if ((slot || upstream[edge.to]) && pass_of(flying.frame, join.root) == pass)
      violated("C2: " + where(start) + " fired while a frame for it was on its way");
  }
}

void Oracle::check_count(const StartActivation& start, const PlanGroup& group) {
  for (const PlanCount& count : group.counts) {
    if (count.kind == PlanCount::Kind::all) continue;
    std::int64_t wanted = count.literal;
    if (count.kind == PlanCount::Kind::runtime) {
      const NodeId from = plan_.edges[count.source].from;
      wanted = from == entry_node ? script_.calls[call_of(start.call)].number(count.source_field)
                                  : script_.nodes[from].values[count.source_field];
    }
    const auto came = std::ranges::count(start.inputs, count.field, &InputValue::field);
    if (came != wanted)
      violated("C14: " + where(start) + " fired with " + std::to_string(came) + " of " +
               std::to_string(wanted) + " frames of " + group.fields[count.field]);
  }
}

void Oracle::check_release(const StartActivation& start, ActivationNumber self, CallFacts& call) {
  call.last_release.resize(plan_.nodes.size());
  ActivationNumber& last = call.last_release[start.node];
  if (last != 0 && plan_.nodes[start.node].loop_index == none) {
    const ActivationFact& before = activations_[last];
    const ActivationFact& now = activations_[self];
    if (compare({before.parent, before.parent_yield}, {now.parent, now.parent_yield}) > 0)
      violated("C5: " + where(start) + " was released out of order");
  }
  last = self;
}

ActivationNumber Oracle::started(const StartActivation& start, const Firing& firing, Token identity,
                                 bool fenced) {
  CallFacts& call = calls_[firing.call];
  const PlanNode& node = plan_.nodes[start.node];
  const PlanGroup& group = node.groups[start.group];
  if (call.ended && !fenced && !call.orphaned)
    violated("C7: " + where(start) + " started after the end of its call");
  if (!call.identities.insert(identity))
    violated("C1: " + where(start) + " fired twice for the same inputs");
  if (plan_.calls == CallMode::serial && !fenced && !call.orphaned) {
    const std::size_t turn = first_open(call.session);
    if (turn < firing.call)
      violated("C15: " + where(start) + " runs before call " + std::to_string(turn) +
               " of its session has ended");
  }
  if (node.loop_index != none && start.iteration >= plan_.limits.loop_iterations)
    violated("C13: " + where(start) + " is past the limit of loop iterations");
  FrameFact parent{call.entry, 0};
  if (!group.counts.empty())
    check_count(start, group);
  else if (group.collector != none)
    check_join(start, group, call, parent);
  else
    parent = frames_[frame_of(*start.inputs.front().value)];
  const auto self = static_cast<ActivationNumber>(activations_.size());
  activations_.push_back({static_cast<std::uint32_t>(firing.call), start.node, parent.activation,
                          parent.yield, 0, start.group, firing.replica});
  if (node.fan_out() > 1) check_replicas(start, call);
  if (node.order != none) check_release(start, self, call);
  if (drops_frames(start.node) && firing.replica == 0 && !call.queues.empty()) {
    // A frame may have come for two groups: one of them begins.
    std::vector<FrameNumber>& frames = call.queues[start.node].frames;
    const auto found = std::ranges::find(frames, frame_of(*start.inputs.front().value));
    if (found != frames.end()) frames.erase(found);
  }
  call.running.add(self);
  if (node.queue_max != 0) check_at_once(start, call);
  call.started = true;
  ++call.starts;
  return self;
}

void Oracle::check_replicas(const StartActivation& start, CallFacts& call) {
  HalfDone& set = call.half_done;
  if (set.node == entry_node) set = {start.node, start.group, 0, order_token(start)};
  const bool next = set.node == start.node && set.group == start.group &&
                    set.inputs == order_token(start) && set.replicas == start.replica;
  if (!next)
    violated("C28: " + where(start) + " begins on replica " + std::to_string(start.replica) +
             ", and one set of inputs for '" + plan_.nodes[set.node].name + "' has begun on " +
             std::to_string(set.replicas));
  if (++set.replicas == plan_.nodes[set.node].fan_out()) set = {};
}

void Oracle::check_half_done(std::size_t index) {
  const HalfDone& set = calls_[index].half_done;
  if (set.node != entry_node)
    violated("C28: call " + std::to_string(index) + ", one set of inputs for node '" +
             plan_.nodes[set.node].name + "' has begun on " + std::to_string(set.replicas) +
             " replicas of " + std::to_string(plan_.nodes[set.node].fan_out()));
}

FrameNumber Oracle::yielded(ActivationNumber activation) {
  frames_.push_back({activation, activations_[activation].yields++});
  return static_cast<FrameNumber>(frames_.size() - 1);
}

void Oracle::failed(ActivationNumber activation) {
  CallFacts& call = calls_[activations_[activation].call];
  call.failed = true;
  call.failures.push_back(activations_[activation].node);
}

void Oracle::ended(ActivationNumber activation) {
  Few<ActivationNumber, 4>& running = calls_[activations_[activation].call].running;
  if (const ActivationNumber* found = running.find(activation)) running.remove(found);
}

Flight Oracle::sent(const Message& message) {
  const std::size_t index = call_of(message.call);
  CallFacts& call = calls_[index];
  Flying flying{++call.sent, 0, message.target, message.kind};
  if (message.kind == Message::Kind::frame) {
    const auto& values = message.frame->values;
    const auto value = std::ranges::find_if(values, &PayloadRef::operator bool);
    if (value != values.end()) flying.frame = frame_of(**value);
  }
  call.flying.add(flying);
  const Flight flight = Flight{index} << 32U | flying.number;
  if (message.kind == Message::Kind::call_ended) return flight;
  ++call.messages;
  call.started = true;
  call.frames += message.kind == Message::Kind::frame ? 1 : 0;
  if (message.kind != Message::Kind::settled) return flight;
  // Each activation, started or dropped on arrival, and each dead bucket settles at most once for
  // each collector; every one of them came of a frame, but for the buckets of the call itself,
  // which die behind one another where it brings no frame.
  const std::uint64_t collectors = plan_.collectors.size();
  const std::uint64_t most = ((call.starts + call.frames + 1) * 2 + collectors) * collectors;
  if (++call.settled > most)
    violated("C12: " + std::to_string(call.settled) + " settling messages, more than " +
             std::to_string(most) + " that frames and activations allow");
  return flight;
}

const Oracle::Flying* Oracle::find(Flight flight) {
  return facts_of(flight).flying.find(static_cast<std::uint32_t>(flight));
}

bool Oracle::arrived(Flight flight) {
  if (flight == no_flight) return true;
  const Flying* flying = find(flight);
  if (flying == nullptr) return false;
  CallFacts& call = facts_of(flight);
  if (flying->kind != Message::Kind::call_ended) --call.messages;
  if (flying->frame != 0 && !plan_.edges[flying->edge].is_output())
    came(plan_.edges[flying->edge].to, flying->frame, call);
  call.flying.remove(flying);
  return true;
}

void Oracle::lost(Flight flight) {
  if (flight == no_flight) return;
  const Flying* flying = find(flight);
  if (flying != nullptr && flying->kind != Message::Kind::call_ended)
    facts_of(flight).given_up = true;
  arrived(flight);
}

void Oracle::orphaned(std::size_t index) {
  CallFacts& call = calls_[index];
  call.given_up = call.orphaned = call.ended = true;
}

void Oracle::check_orphans() {
  for (std::size_t i = 0; i < calls_.size(); ++i)
    if (calls_[i].orphaned && !calls_[i].running.empty())
      violated("C19: the home of call " + std::to_string(i) + " is lost, and '" +
               plan_.nodes[activations_[*calls_[i].running.begin()].node].name + "' still runs");
}

void Oracle::check_times(const EndCall& end, const CallFacts& call, Instant now) {
  // A clock may go wrong by a thousandth; a moment more for what is rounded.
  const Instant passed = (now - call.arrived) * 1002 / 1000 + std::chrono::microseconds(1);
  if (end.failure && end.failure->kind == FailureKind::deadline &&
      end.failure->node == entry_node && passed < call.allowed)
    violated("C21: call " + std::to_string(call_of(end.call)) + " ended by its deadline too soon");
  for (const PlanNode& node : plan_.nodes) {
    if (node.max_age == Instant{} || passed > node.max_age) continue;
    const std::string words = node.name + ": inputs older than max_age";
    for (const std::string& warning : end.warnings)
      if (warning.starts_with(words))
        violated("C21: call " + std::to_string(call_of(end.call)) + " lost inputs of '" +
                 node.name + "' as too old, and is not as old itself");
  }
}

void Oracle::delivered(const DeliverOutput& output) {
  CallFacts& call = calls_[call_of(output.call)];
  if (call.ended) violated("C7: an output came after the end of its call");
  const FrameNumber frame = frame_of(*output.value);
  call.last_delivery.resize(plan_.outputs.size());
  FrameNumber& last = call.last_delivery[output.output];
  if (last != 0 && compare(frames_[last], frames_[frame]) > 0)
    violated("C5: output '" + plan_.outputs[output.output].name + "' came out of order");
  last = frame;
}

void Oracle::call_ended(const EndCall& end, Instant now) {
  const std::size_t index = call_of(end.call);
  CallFacts& call = calls_[index];
  check_times(end, call, now);
  check_drops(end, call);
  if (call.ended) violated("C7: call " + std::to_string(index) + " ended twice");
  check_half_done(index);
  call.ended = true;
  const std::int64_t others = --homes_[call.home].open;
  if (end.failure && end.failure->kind == FailureKind::refused && others < plan_.limits.calls)
    violated("C26: call " + std::to_string(index) + " was refused beside " +
             std::to_string(others) + " others");
  if (!call.given_up && (call.messages != 0 || !call.running.empty()))
    violated("C9: call " + std::to_string(index) + " ended with " + std::to_string(call.messages) +
             " messages and " + std::to_string(call.running.size()) + " activations of it about");
  if (!end.failure) {
    const bool hidden = std::ranges::any_of(
        call.failures, [&](NodeId node) { return !plan_.nodes[node].skip_errors; });
    if (hidden) violated("C8: call " + std::to_string(index) + " hides a failure");
    return;
  }
  // A set of inputs with more or fewer frames than the role reads fails before the role sees it.
  const bool by_frames = end.failure->error.code == ErrorCode::invalid_argument &&
                         std::ranges::any_of(plan_.nodes[end.failure->node].groups,
                                             [](const PlanGroup& g) { return g.single != 0; });
  if (end.failure->kind == FailureKind::role_failed && !by_frames &&
      std::ranges::find(call.failures, end.failure->node) == call.failures.end())
    violated("C8: call " + std::to_string(index) + " names '" +
             plan_.nodes[end.failure->node].name + "', which did not fail");
}

std::string Oracle::remains(std::size_t index) const {
  const CallFacts& call = calls_[index];
  std::string text = ": " + std::to_string(call.messages) + " messages on their way";
  for (const ActivationNumber number : call.running)
    text += ", '" + plan_.nodes[activations_[number].node].name + "' runs";
  return text + (call.cancelled ? ", cancelled" : "") + (call.given_up ? ", given up" : "");
}

void Oracle::check_alive(const std::vector<std::size_t>& touched,
                         std::vector<std::size_t>* longest) {
  for (const std::size_t index : touched) {
    const CallFacts& call = calls_[index];
    if (!call.queues.empty()) check_waiting(index, longest);
    check_half_done(index);
    if (call.started && !call.ended && !call.given_up && call.messages == 0 && call.running.empty())
      violated("C9: nothing of call " + std::to_string(index) + " is left, and it has not ended");
  }
}

}  // namespace sluice::sim
