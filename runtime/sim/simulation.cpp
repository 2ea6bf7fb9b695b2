#include "runtime/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>

#include "runtime/sim/cluster.h"
#include "runtime/sim/hostile.h"
#include "runtime/sim/running.h"
#include "runtime/sim/spans.h"
#include "runtime/sim/spread_check.h"
#include "runtime/sim/troubles.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds cancel_notice = 1ms;  // a cancelled role looks up after at most this

class Simulation final : public TroubleHost {
 public:
  Simulation(const Plan& plan, const Script& script, const Options& options)
      : plan_(plan),
        script_(script),
        options_(settled(options)),
        random_(options.seed * 0x9e3779b97f4a7c15ULL + 1),
        oracle_(plan, script),
        cluster_(plan, options_, homes_of(options_), agenda_, random_, oracle_, report_.faults),
        troubles_(options_, cluster_, agenda_, random_, report_.faults, effects_, *this),
        hostile_(plan, options_, cluster_, agenda_, random_, report_.faults, effects_),
        slots_(plan.nodes.size(), options_.machines),
        ids_(script.calls.size()),
        replicas_(plan, options_.machines),
        spread_(cluster_, oracle_),
        spans_(options.trace) {
    effects_.from_wire = effects_.is_watched = true;
    report_.calls.resize(script.calls.size());
    report_.queue_peaks.assign(plan.nodes.size(), 0);
    for (CallReport& call : report_.calls) call.outputs.assign(plan.outputs.size(), 0);
  }

  Report run() {
    plan_calls();
    troubles_.plan();
    hostile_.plan();
    while (!agenda_.empty()) {
      const Event event = agenda_.next();
      if (defer(event)) continue;
      now_ = event.at;
      cluster_.advance(now_);
      handle(event);
      pass_windows();
      ++report_.events;
      report_.hash = mixed(
          report_.hash ^ static_cast<std::uint64_t>(now_.count()),
          (static_cast<std::uint64_t>(event.kind) << 56U) ^ event.index ^ (event.number << 20U));
      oracle_.check_alive(touched_, &report_.queue_peaks);
      touched_.clear();
      check_progress();
      want_tick();
      if (report_.events >= options_.events_max)
        oracle_.violated("C7: no end after " + std::to_string(report_.events) +
                         " events: its limits (loop_iterations, frames) allow more than that, or "
                         "the engine goes in a circle");
      if (!oracle_.violations().empty()) break;
    }
    finish();
    return std::move(report_);
  }

 private:
  void plan_calls() {
    Instant at{};
    std::size_t first = script_.calls.size();
    if (options_.at_once > 0) first = std::min<std::size_t>(first, options_.at_once);
    while (sent_calls_ < first) {
      send_next_call(at);
      if (options_.between_calls.count() > 0)
        at += nanoseconds(static_cast<std::int64_t>(
            -std::log(random_.uniform()) * static_cast<double>(options_.between_calls.count())));
    }
    const Faults& faults = options_.faults;
    for (std::uint32_t i = 0; i < script_.calls.size(); ++i)
      if (faults.caller_cancel > 0 && random_.uniform() < faults.caller_cancel)
        agenda_.add(cluster_.draw({0ns, faults.until}), Event::Kind::give_up, i);
  }

  /// Also when a call has ended: there is one left only in a closed loop.
  void send_next_call(Instant at) {
    if (sent_calls_ < script_.calls.size()) agenda_.add(at, Event::Kind::call, sent_calls_++);
  }

  std::uint32_t home_of(std::size_t call) const {
    return static_cast<std::uint32_t>(script_.calls[call].session % cluster_.homes());
  }
  /// True when the call runs, or waits for its turn.
  bool is_open(std::size_t call) {
    const Machine& machine = cluster_.machine(home_of(call));
    return machine.home && machine.home->knows(ids_[call]);
  }

  std::uint32_t machine_of(const StartActivation& start) const {
    return cluster_.machine_of(start.node, start.call);
  }
  /// Where it happens; `options_.machines` when that is nowhere in particular.
  std::uint32_t machine_of(const Event& event) {
    switch (event.kind) {
      case Event::Kind::message:
      case Event::Kind::notice:
        return event.index;
      case Event::Kind::parcel:
      case Event::Kind::hello:
        return cluster_.network().to_of(event.index);
      case Event::Kind::applied:
      case Event::Kind::welcome:
        return cluster_.network().from_of(event.index);
      case Event::Kind::step:
        return machine_of(running_[event.index].start);
      case Event::Kind::call:
      case Event::Kind::give_up:
        return home_of(event.index);
      case Event::Kind::stranger:
        return hostile_.machine_of(event);
      default:
        return options_.machines;
    }
  }

  /// Keeps what happens to a paused machine for later, and calls until there is a home for them.
  bool defer(const Event& event) {
    const std::uint32_t index = machine_of(event);
    if (index == options_.machines) return false;
    Machine& machine = cluster_.machine(index);
    if (!machine.paused && !(machine.empty && event.kind == Event::Kind::call)) return false;
    machine.deferred.push_back(event);
    return true;
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::call:
        return arrive(event.index);
      case Event::Kind::message:
      case Event::Kind::parcel:
        return apply(event);
      case Event::Kind::applied:
        return cluster_.network().applied(event);
      case Event::Kind::hello:
        return cluster_.network().hello(event, now_);
      case Event::Kind::welcome:
        return cluster_.network().welcome(event, now_);
      case Event::Kind::step:
        if (running_[event.index].generation == event.number) step(event.index);
        return;
      case Event::Kind::give_up:
        return give_up(event.index);
      case Event::Kind::tick:
        --ticks_;
        tick_at_ = Instant::max();
        return tick();
      case Event::Kind::forge:
        return hostile_.speak(now_);
      case Event::Kind::stranger:
        hostile_.end(event);
        return perform(hostile_.machine_of(event));
      case Event::Kind::expel:
        hostile_.expel(event.index);
        return perform(event.index);
      default:
        return troubles_.handle(event, now_);
    }
  }

  void arrive(std::uint32_t index) {
    const ScriptCall& call = script_.calls[index];
    oracle_.call_arrived(index, call.session);
    const FrameNumber frame = oracle_.yielded(oracle_.entry_of(index));
    std::vector<PayloadRef> inputs(plan_.inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if ((call.inputs >> i & 1U) != 0)
        inputs[i] = token_payload(input_token(plan_.inputs[i], index), frame, call.number(i));
    spans_.makes(frame, Span::nobody, call.inputs, now_);
    report_.calls[index].arrived = now_;
    const std::uint32_t at = home_of(index);
    Instant allowed = Instant::max();
    if (options_.faults.hurry > 0 && random_.uniform() < options_.faults.hurry) {
      allowed = cluster_.draw({1ms, 300ms});
      ++report_.faults.hurried;
    }
    ids_[index] = cluster_.machine(at).home->call(call.session, inputs, cluster_.local(at, now_),
                                                  effects_, allowed);
    oracle_.call_named(index, ids_[index], now_, allowed);
    spread_.named(ids_[index]);
    report_.faults.moved += cluster_.machine(at).home->take_moves().size();
    // Machines that know this home to be lost drop what there is of the call; the home is still to
    // hear of it.
    if (cluster_.machine(at).away) oracle_.gave_up(index);
    if (!cluster_.may_yield(entry_node, at)) ++report_.faults.held;
    perform(at);
    oracle_.check_admitted(index);
  }

  void apply(const Event& event) {
    Message* message = cluster_.receive(event, now_);
    if (message == nullptr) return;
    const NodeId to = message->to;
    if (!cluster_.is_stranger(message->call)) touched_.push_back(oracle_.call_of(message->call));
    const std::uint32_t at =
        event.kind == Event::Kind::message ? event.index : cluster_.network().to_of(event.index);
    Machine& here = cluster_.machine(at);
    if (to == entry_node)
      here.home->receive(*message, effects_);
    else
      cluster_.engine(to, at).receive(*message, effects_);
    here.pools.give(message);
    perform(at);
  }

  void perform(std::uint32_t machine) override {
    // Nothing below steps an engine. Cancels first, as in `Loop`: a start may have one's index.
    for (const CancelActivation& cancel : effects_.cancels) tell(cancel, machine);
    for (DeliverOutput& output : effects_.deliveries) {
      if (frame_of(*output.value) == Hostile::frame) {
        oracle_.violated("C22: call " + std::to_string(oracle_.call_of(output.call)) +
                         " was given a value of another's call");
        continue;
      }
      CallReport& call = report_.calls[oracle_.call_of(output.call)];
      oracle_.delivered(output);
      if (call.first_output == Instant{}) call.first_output = now_;
      ++call.outputs[output.output];
    }
    for (const StartActivation& start : effects_.starts) {
      cluster_.started(start.node, machine);
      if (cluster_.is_stranger(start.call))
        hostile_.begin(start, now_);
      else
        begin(start, machine);
    }
    cluster_.note_drops(effects_.not_started);
    for (Message* message : effects_.messages) cluster_.send(message, machine, now_);
    for (EndCall& end : effects_.ends) end_call(end);
    for (const Refusal& refusal : effects_.refusals)
      if (!cluster_.is_stranger(refusal.call))
        oracle_.violated("R: call " + std::to_string(oracle_.call_of(refusal.call)) + ", node " +
                         std::to_string(refusal.node) + " refuses: " + std::string(refusal.what));
    effects_.clear();
  }

  void begin(const StartActivation& start, std::uint32_t at) {
    for (const InputValue& input : start.inputs)
      if (frame_of(*input.value) == Hostile::frame)
        return oracle_.violated("C22: call " + std::to_string(oracle_.call_of(start.call)) +
                                " got a value of another's call");
    const std::uint32_t index = new_running();
    Running& running = running_[index];
    running.start = start;
    firing_ = firing_of(plan_, start, oracle_.call_of(start.call), std::move(firing_));
    running.identity = identity_of(plan_, firing_, std::move(running.identity));
    const Token identity = yield_token(running.identity, ~0U);
    const bool fenced = cluster_.machine(at).away;
    running.fact = oracle_.started(start, firing_, identity, fenced);
    if (!fenced) spread_.started(start, at);
    report_.calls[firing_.call].firings_hash += mixed(identity, order_token(start));
    running.span = spans_.open(start, firing_.call, identity, now_);
    if (options_.keep_firings) report_.firings.push_back(firing_);
    const NodeScript& script = script_.nodes[start.node];
    running.yields = &script.yields(start.iteration, start.replica);
    const nanoseconds latency = cluster_.draw({script.latency_least, script.latency_most});
    running.pace =
        latency / static_cast<std::int64_t>(std::max<std::size_t>(1, running.yields->size()));
    const bool faulty = now_ < options_.faults.until;
    if (faulty && options_.faults.slow > 0 && random_.uniform() < options_.faults.slow) {
      running.pace *= 50;
      ++report_.faults.slowed;
    }
    running.hangs =
        faulty && options_.faults.role_hang > 0 && random_.uniform() < options_.faults.role_hang;
    report_.faults.role_hangs += running.hangs ? 1 : 0;
    slots_.of(start, at) = index;
    queue(index);
  }

  std::uint32_t new_running() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(running_.size()));
      running_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Running& running = running_[index];
    Running fresh;
    fresh.used = true;
    fresh.generation = running.generation + 1;
    fresh.identity = std::move(running.identity);  // its memory
    running = std::move(fresh);
    return index;
  }

  Replica& replica_of(const Running& running) {
    return replicas_.of(plan_.nodes[running.start.node].executor, machine_of(running.start),
                        running.start.replica);
  }

  void queue(std::uint32_t index) {
    Running& running = running_[index];
    if (options_.queue_at_replicas) {
      Replica& replica = replica_of(running);
      if (replica.busy) {
        replica.waiting.push_back(index);
        std::size_t& peak = report_.queue_peaks[running.start.node];
        peak = std::max(peak, replica.waiting.size());
        return;
      }
      replica.busy = true;
    }
    serve(index);
  }

  void serve(std::uint32_t index) {
    Running& running = running_[index];
    running.serving = true;
    spans_.begins(running.span, now_);
    // Cancelled while it waited: a lane ends it without beginning it.
    if (running.told) return schedule(index, 0ns);
    if (running.hangs) return;
    const bool at_end = running.yields->empty() || fails(running);
    schedule(index, at_end ? running.pace * static_cast<std::int64_t>(
                                                std::max<std::size_t>(1, running.yields->size()))
                           : running.pace);
  }

  bool fails(const Running& running) const {
    return script_.nodes[running.start.node].fails(running.start.iteration, running.start.replica);
  }

  void schedule(std::uint32_t index, nanoseconds after) {
    agenda_.add(now_ + after, Event::Kind::step, index, running_[index].generation);
  }

  void step(std::uint32_t index) {
    Running& running = running_[index];
    touched_.push_back(oracle_.call_of(running.start.call));
    const NodeId node = running.start.node;
    if (running.told)
      return end(index, Failure{node, {ErrorCode::cancelled, "cancelled"}, FailureKind::cancelled});
    const bool at_end = running.next_yield == running.yields->size() || fails(running);
    if (!at_end && !cluster_.may_yield(node, machine_of(running.start))) return stop(index);
    const bool faulty = now_ < options_.faults.until && options_.faults.role_failure > 0;
    const bool fault = faulty && random_.uniform() < options_.faults.role_failure;
    if (fails(running) || fault) {
      report_.faults.role_failures += fault ? 1 : 0;
      oracle_.failed(running.fact);
      return end(index, Failure{node,
                                {ErrorCode::unavailable,
                                 "node '" + plan_.nodes[node].name + "' was told to fail"},
                                FailureKind::role_failed});
    }
    if (running.next_yield == running.yields->size()) return end(index, std::nullopt);
    yield(index);
  }

  void stop(std::uint32_t index) {
    running_[index].stopped = true;
    stopped_.push_back(index);
    ++report_.faults.stopped;
  }

  void go_on(std::uint32_t index) {
    running_[index].stopped = false;
    std::erase(stopped_, index);
    schedule(index, 0ns);
  }

  /// What was taken goes back; whoever waited for a window that is open now goes on.
  void pass_windows() {
    if (options_.window == 0) return;
    cluster_.settle_windows(now_);
    for (std::size_t i = stopped_.size(); i > 0; --i)
      if (const std::uint32_t index = stopped_[i - 1];
          cluster_.may_yield(running_[index].start.node, machine_of(running_[index].start)))
        go_on(index);
    for (std::uint32_t at = 0; at < cluster_.homes(); ++at) {
      const Machine& machine = cluster_.machine(at);
      while (machine.home && !machine.paused && cluster_.may_yield(entry_node, at) &&
             machine.home->start_next(effects_))
        perform(at);
    }
  }

  /// When only deadlines are left to come, nobody may wait for anything but a role that hangs.
  void check_progress() {
    if (options_.window == 0 || agenda_.size() != ticks_) return;
    for (const Running& one : running_)
      if (one.used && one.hangs && !one.told) return;
    for (const std::uint32_t index : stopped_)
      oracle_.violated("C23: node '" + plan_.nodes[running_[index].start.node].name +
                       "' waits for a window, and nothing happens any more");
    for (std::uint32_t at = 0; at < cluster_.homes(); ++at)
      if (!cluster_.may_yield(entry_node, at)) oracle_.violated("C23: no call may start any more");
  }

  void yield(std::uint32_t index) {
    Running& running = running_[index];
    const NodeId node = running.start.node;
    const std::uint64_t mask = (*running.yields)[running.next_yield];
    const Token token = yield_token(running.identity, running.next_yield);
    const FrameNumber number = oracle_.yielded(running.fact);
    spans_.makes(number, running.span, mask, now_);
    ++running.next_yield;
    const std::uint32_t at = machine_of(running.start);
    Frame* frame = cluster_.machine(at).pools.new_frame(node, plan_.nodes[node].outputs.size());
    frame->mask = mask;
    for (std::size_t i = 0; i < frame->values.size(); ++i)
      if ((mask >> i & 1U) != 0)
        frame->values[i] = token_payload(token, number, script_.nodes[node].values[i]);
    // The last frame and the end are one step, or two: both must come to the same.
    const bool last = running.next_yield == running.yields->size() && (random_.next() & 1U) != 0;
    const ActivationId activation = running.start.activation;
    if (last)
      forget(index);
    else
      schedule(index,
               running.next_yield == running.yields->size() ? running.pace / 4 : running.pace);
    cluster_.engine(node, at).yielded(activation, frame, last, effects_);
    perform(at);
  }

  void end(std::uint32_t index, std::optional<Failure> failure) {
    const NodeId node = running_[index].start.node;
    const ActivationId activation = running_[index].start.activation;
    const std::uint32_t at = machine_of(running_[index].start);
    if (failure) spans_.fails(running_[index].span);
    forget(index);
    cluster_.engine(node, at).ended(
        activation, failure ? std::make_unique<Failure>(std::move(*failure)) : nullptr, effects_);
    perform(at);
  }

  /// The activation is over; its replica takes the next.
  void forget(std::uint32_t index) {
    Running& running = running_[index];
    if (!running.disowned) oracle_.ended(running.fact);
    cluster_.ended(running.start.node, machine_of(running.start));
    spans_.ends(running.span, now_);
    running.used = false;
    ++running.generation;
    free_.push_back(index);
    if (!options_.queue_at_replicas) return;
    Replica& replica = replica_of(running);
    replica.busy = !replica.waiting.empty();
    if (replica.waiting.empty()) return;
    const std::uint32_t next = replica.waiting.front();
    replica.waiting.pop_front();
    serve(next);
  }

  void tell(const CancelActivation& cancel, std::uint32_t at) {
    const std::uint32_t* const slot = slots_.find(cancel, at);
    if (slot == nullptr) return;
    Running& running = running_[*slot];
    if (!running.used || running.start.activation != cancel.activation) return;
    // Past its deadline an activation is over for its engine; the role is still to notice.
    if (!running.disowned && !cluster_.engine(cancel.node, at).knows(cancel.activation)) {
      running.disowned = true;
      oracle_.ended(running.fact);
    }
    if (running.told) return;
    running.told = true;
    if (running.stopped) return go_on(*slot);
    if (running.serving && running.hangs) schedule(*slot, cancel_notice);
  }

  void end_call(EndCall& end) {
    oracle_.call_ended(end, now_);
    spread_.ended(end);
    CallReport& call = report_.calls[oracle_.call_of(end.call)];
    call.ended = true;
    call.done = now_;
    if (end.failure && end.failure->kind == FailureKind::refused) ++report_.faults.refused;
    call.failure = std::move(end.failure);
    call.warnings = std::move(end.warnings);
    std::ranges::sort(call.warnings);
    send_next_call(now_);
  }

  void give_up(std::uint32_t index) {
    if (!is_open(index)) return;
    ++report_.faults.cancels;
    oracle_.cancelled(index);
    cluster_.machine(home_of(index)).home->cancel(ids_[index], effects_);
    perform(home_of(index));
  }

  void credit_lost() override {
    for (std::size_t call = 0; call < report_.calls.size(); ++call)
      if (is_open(call)) oracle_.gave_up(call);
  }

  void forget_machine(std::uint32_t index) override {
    for (std::size_t call = 0; call < report_.calls.size(); ++call) {
      if (home_of(call) != index || !is_open(call)) continue;
      oracle_.orphaned(call);
      CallReport& report = report_.calls[call];
      report.ended = report.orphaned = true;
      report.done = now_;
      report.failure = std::make_unique<Failure>(
          Failure{entry_node,
                  {ErrorCode::unavailable, "the machine that had taken the call is gone"},
                  FailureKind::node_lost});
      send_next_call(now_);
    }
    for (std::uint32_t i = 0; i < running_.size(); ++i)
      if (running_[i].used && machine_of(running_[i].start) == index) {
        if (!running_[i].disowned) oracle_.ended(running_[i].fact);
        std::erase(stopped_, i);
        running_[i].used = false;
        ++running_[i].generation;
        free_.push_back(i);
      }
    replicas_.clear(index);
  }

  void tick() {
    for (std::uint32_t i = 0; i < cluster_.homes(); ++i) {
      Machine& machine = cluster_.machine(i);
      if (machine.paused || !machine.home) continue;
      machine.home->tick(cluster_.local(i, now_), effects_);
      perform(i);
    }
    for (const auto& [node, at] : cluster_.timed()) {
      const Machine& machine = cluster_.machine(at);
      if (machine.paused || machine.empty) continue;
      cluster_.engine(node, at).tick(effects_);
      perform(at);
    }
  }

  void want_tick() {
    // What a paused machine has missed is due now, not then.
    const Instant next = std::max(now_, cluster_.next_deadline());
    if (next >= tick_at_) return;
    tick_at_ = next;
    ++ticks_;
    agenda_.add(next, Event::Kind::tick, 0);
  }

  void finish() {
    for (const CallReport& call : report_.calls)
      report_.finished = std::max(report_.finished, call.done);
    if (oracle_.violations().empty()) {
      for (std::size_t i = 0; i < report_.calls.size(); ++i)
        if (!report_.calls[i].ended)
          oracle_.violated("C7: call " + std::to_string(i) + " never ended" + oracle_.remains(i));
      cluster_.check_left_over();
      oracle_.check_orphans();
    }
    report_.violations = oracle_.violations();
    report_.spans = spans_.take();
  }

  const Plan& plan_;
  const Script& script_;
  const Options options_;
  SplitMix64 random_;
  Report report_;
  Agenda agenda_;
  Oracle oracle_;
  Effects effects_;
  Firing firing_;  // what starts now
  Cluster cluster_;
  Troubles troubles_;
  Hostile hostile_;
  std::vector<Running> running_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> stopped_;  // running, by full windows
  ActivationSlots slots_;
  std::vector<CallId> ids_;       // by call of the script
  std::uint32_t sent_calls_ = 0;  // the first so many of the script
  ReplicaRows replicas_;
  std::vector<std::size_t> touched_;
  SpreadCheck spread_;
  Spans spans_;
  Instant now_{};
  Instant tick_at_ = Instant::max();
  std::size_t ticks_ = 0;  // on the agenda
};

}  // namespace

Report simulate(const Plan& plan, const Script& script, const Options& options) {
  return Simulation(plan, script, options).run();
}

}  // namespace sluice::sim
