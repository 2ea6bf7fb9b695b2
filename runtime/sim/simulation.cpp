#include "runtime/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>

#include "runtime/sim/cluster.h"

namespace sluice::sim {

namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr nanoseconds lease = 50ms;         // silence after which a machine counts as lost
constexpr nanoseconds cancel_notice = 1ms;  // a cancelled role looks up after at most this

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return SplitMix64(a ^ (b * 0x9e3779b97f4a7c15ULL)).next();
}

/// An activation that has started and not ended.
struct Running {
  bool used = false;
  bool serving = false;  // its replica works on it
  bool hangs = false;
  bool told = false;      // cancelled
  bool disowned = false;  // and over for its engine
  std::uint32_t generation = 0;
  StartActivation start;
  ActivationNumber fact = 0;
  std::string identity;
  const std::vector<std::uint64_t>* yields = nullptr;
  std::size_t next_yield = 0;
  nanoseconds pace{};
  std::size_t span = 0;
};

/// One replica of a role, which may serve one activation at a time.
struct Replica {
  bool busy = false;
  std::deque<std::uint32_t> waiting;
};

class Simulation {
 public:
  Simulation(const Plan& plan, const Script& script, const Options& options)
      : plan_(plan),
        script_(script),
        options_(options),
        random_(options.seed * 0x9e3779b97f4a7c15ULL + 1),
        oracle_(plan, script),
        coordinator_(plan, pools_),
        cluster_(plan, options_, pools_, agenda_, random_, oracle_, report_.faults),
        slots_(plan.nodes.size()) {
    report_.calls.resize(script.calls.size());
    report_.queue_peaks.assign(plan.nodes.size(), 0);
    for (CallReport& call : report_.calls) call.outputs.assign(plan.outputs.size(), 0);
  }

  Report run() {
    plan_calls();
    plan_faults();
    while (!agenda_.empty()) {
      const Event event = agenda_.next();
      if (defer(event)) continue;
      now_ = event.at;
      for (const NodeId node : cluster_.timed()) cluster_.advance(node, now_);
      handle(event);
      ++report_.events;
      report_.hash = mixed(
          report_.hash ^ static_cast<std::uint64_t>(now_.count()),
          (static_cast<std::uint64_t>(event.kind) << 56U) ^ event.index ^ (event.number << 20U));
      oracle_.check_alive(touched_);
      touched_.clear();
      want_tick();
      if (report_.events >= options_.events_max)
        oracle_.violated("C7: no end after " + std::to_string(report_.events) + " events");
      if (!oracle_.violations().empty()) break;
    }
    finish();
    return std::move(report_);
  }

 private:
  void plan_calls() {
    Instant at{};
    for (std::uint32_t i = 0; i < script_.calls.size(); ++i) {
      agenda_.add({at, cluster_.next_tie(), Event::Kind::call, i, 0, 0, nullptr});
      if (options_.between_calls.count() > 0)
        at += nanoseconds(static_cast<std::int64_t>(
            -std::log(random_.uniform()) * static_cast<double>(options_.between_calls.count())));
    }
  }

  /// Each machine and link draws the moments of its faults beforehand, about one in 20 ms each.
  void plan_faults() {
    const Faults& faults = options_.faults;
    const auto sprinkle = [&](double share, Event::Kind kind, std::uint32_t first,
                              std::size_t count) {
      if (share <= 0) return;
      for (auto i = first; i < count; ++i)
        for (Instant at{}; at < faults.until; at += 20ms)
          if (random_.uniform() < share)
            agenda_.add(
                {at + cluster_.draw({0ns, 20ms}), cluster_.next_tie(), kind, i, 0, 0, nullptr});
    };
    if (options_.machines > 1) {
      sprinkle(faults.link_break, Event::Kind::break_link, 0, cluster_.links());
      sprinkle(faults.pause, Event::Kind::pause, 1, options_.machines);
      sprinkle(faults.kill, Event::Kind::kill, 1, options_.machines);
    }
    for (std::uint32_t i = 0; i < script_.calls.size(); ++i)
      if (faults.caller_cancel > 0 && random_.uniform() < faults.caller_cancel)
        agenda_.add({cluster_.draw({0ns, faults.until}), cluster_.next_tie(), Event::Kind::give_up,
                     i, 0, 0, nullptr});
  }

  std::uint32_t machine_of(const Event& event) const {
    switch (event.kind) {
      case Event::Kind::message:
        return event.index;
      case Event::Kind::parcel:
        return event.index % options_.machines;
      case Event::Kind::step:
        return cluster_.machine_of(running_[event.index].start.node);
      default:
        return 0;
    }
  }

  /// Keeps what happens to a paused machine for later.
  bool defer(const Event& event) {
    Machine& machine = cluster_.machine(machine_of(event));
    if (!machine.paused) return false;
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
        return cluster_.applied(event);
      case Event::Kind::step:
        if (running_[event.index].generation == event.number) step(event.index);
        return;
      case Event::Kind::give_up:
        return give_up(event.index);
      case Event::Kind::tick:
        tick_at_ = Instant::max();
        coordinator_.tick(now_, effects_);
        perform(0);
        return tick_engines();
      case Event::Kind::break_link:
        return cluster_.break_link(event.index, now_);
      case Event::Kind::pause:
        return pause(event.index);
      case Event::Kind::resume:
        return resume(event.index);
      case Event::Kind::kill:
        return kill(event.index);
      case Event::Kind::lost:
        return lost(event.index, event.number);
      case Event::Kind::back:
        return back(event.index);
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
    note_frame(frame, Span::nobody);
    report_.calls[index].arrived = now_;
    coordinator_.call(call.session, inputs, now_, effects_);
    perform(0);
  }

  void apply(const Event& event) {
    Message* message = cluster_.receive(event, now_);
    if (message == nullptr) return;
    const NodeId to = message->to;
    touched_.push_back(message->call.number - 1);
    // What is applied is no longer on its way, whatever it sets off.
    oracle_.arrived(*message);
    if (to == entry_node)
      coordinator_.receive(*message, effects_);
    else
      cluster_.engine(to).receive(*message, effects_);
    pools_.give(message);
    perform(cluster_.machine_of(to));
  }

  void perform(std::uint32_t machine) {
    // Nothing below steps an engine, so the effects stand still meanwhile.
    for (DeliverOutput& output : effects_.deliveries) {
      CallReport& call = report_.calls[output.call.number - 1];
      oracle_.delivered(output);
      if (call.first_output == Instant{}) call.first_output = now_;
      ++call.outputs[output.output];
    }
    for (const StartActivation& start : effects_.starts) begin(start);
    for (Message* message : effects_.messages) cluster_.send(message, machine, now_);
    for (EndCall& end : effects_.ends) end_call(end);
    for (const CancelActivation& cancel : effects_.cancels) tell(cancel);
    effects_.clear();
  }

  void begin(const StartActivation& start) {
    const std::uint32_t index = new_running();
    Running& running = running_[index];
    running.start = start;
    Firing firing = firing_of(plan_, start, start.call.number - 1);
    running.identity = identity_of(plan_, firing);
    const Token identity = token_of_identity(running.identity);
    running.fact = oracle_.started(start, firing, identity);
    report_.calls[firing.call].firings_hash += mixed(identity, 1);
    if (options_.trace) open_span(start, firing.call, identity, running);
    if (options_.keep_firings) report_.firings.push_back(std::move(firing));
    const NodeScript& script = script_.nodes[start.node];
    running.yields = &script.yields(start.iteration);
    const nanoseconds latency = cluster_.draw({script.latency_least, script.latency_most});
    running.pace =
        latency / static_cast<std::int64_t>(std::max<std::size_t>(1, running.yields->size()));
    const bool faulty = now_ < options_.faults.until;
    running.hangs =
        faulty && options_.faults.role_hang > 0 && random_.uniform() < options_.faults.role_hang;
    report_.faults.role_hangs += running.hangs ? 1 : 0;
    slot_of(start) = index;
    queue(index);
  }

  /// The span of an activation, and the one that brought what it had waited for.
  void open_span(const StartActivation& start, std::size_t call, Token identity, Running& running) {
    running.span = report_.spans.size();
    Span span{call, start.node, start.group, identity, now_, now_, now_, Span::nobody, now_};
    Instant latest{-1};
    for (const InputValue& input : start.inputs) {
      const FrameTime& made = frame_times_[frame_of(*input.value)];
      if (made.at <= latest) continue;
      latest = made.at;
      span.after = made.span;
      span.sent = made.at;
    }
    report_.spans.push_back(span);
  }

  void note_frame(FrameNumber number, std::size_t span) {
    if (!options_.trace) return;
    frame_times_.resize(std::max<std::size_t>(frame_times_.size(), number + 1));
    frame_times_[number] = {now_, span};
  }

  static Token token_of_identity(const std::string& identity) { return yield_token(identity, ~0U); }

  std::uint32_t& slot_of(const StartActivation& start) {
    std::vector<std::uint32_t>& slots = slots_[start.node];
    if (slots.size() <= start.activation.index) slots.resize(start.activation.index + 1);
    return slots[start.activation.index];
  }

  std::uint32_t new_running() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(running_.size()));
      running_.emplace_back();
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Running& running = running_[index];
    const std::uint32_t generation = running.generation + 1;
    running = Running();
    running.generation = generation;
    running.used = true;
    return index;
  }

  Replica& replica_of(const Running& running) {
    const std::size_t executor = plan_.nodes[running.start.node].executor;
    const std::size_t key = executor * 256 + running.start.replica % 256;
    if (replicas_.size() <= key) replicas_.resize(key + 1);
    return replicas_[key];
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
    if (options_.trace) report_.spans[running.span].begin = now_;
    if (running.hangs && !running.told) return;
    const bool at_end = running.yields->empty() || fails(running);
    schedule(index, at_end ? running.pace * static_cast<std::int64_t>(
                                                std::max<std::size_t>(1, running.yields->size()))
                           : running.pace);
  }

  bool fails(const Running& running) const {
    return script_.nodes[running.start.node].fails(running.start.iteration);
  }

  void schedule(std::uint32_t index, nanoseconds after) {
    agenda_.add({now_ + after, cluster_.next_tie(), Event::Kind::step, index,
                 running_[index].generation, 0, nullptr});
  }

  void step(std::uint32_t index) {
    Running& running = running_[index];
    touched_.push_back(running.start.call.number - 1);
    const NodeId node = running.start.node;
    if (running.told)
      return end(index, Failure{node, {ErrorCode::cancelled, "cancelled"}, FailureKind::cancelled});
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

  void yield(std::uint32_t index) {
    Running& running = running_[index];
    const NodeId node = running.start.node;
    const std::uint64_t mask = (*running.yields)[running.next_yield];
    const Token token = yield_token(running.identity, running.next_yield);
    const FrameNumber number = oracle_.yielded(running.fact);
    note_frame(number, running.span);
    ++running.next_yield;
    Frame* frame = pools_.new_frame(node, plan_.nodes[node].outputs.size());
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
    cluster_.engine(node).yielded(activation, frame, last, effects_);
    perform(cluster_.machine_of(node));
  }

  void end(std::uint32_t index, std::optional<Failure> failure) {
    const NodeId node = running_[index].start.node;
    const ActivationId activation = running_[index].start.activation;
    forget(index);
    cluster_.engine(node).ended(
        activation, failure ? std::make_unique<Failure>(std::move(*failure)) : nullptr, effects_);
    perform(cluster_.machine_of(node));
  }

  /// The activation is over; its replica takes the next.
  void forget(std::uint32_t index) {
    Running& running = running_[index];
    if (!running.disowned) oracle_.ended(running.fact);
    if (options_.trace) report_.spans[running.span].end = now_;
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

  void tell(const CancelActivation& cancel) {
    const std::vector<std::uint32_t>& slots = slots_[cancel.node];
    if (slots.size() <= cancel.activation.index) return;
    Running& running = running_[slots[cancel.activation.index]];
    if (!running.used || running.start.activation != cancel.activation) return;
    // Past its deadline an activation is over for its engine; the role is still to notice.
    if (!running.disowned && !cluster_.engine(cancel.node).knows(cancel.activation)) {
      running.disowned = true;
      oracle_.ended(running.fact);
    }
    if (running.told) return;
    running.told = true;
    if (running.serving && running.hangs) schedule(slots[cancel.activation.index], cancel_notice);
  }

  void end_call(EndCall& end) {
    oracle_.call_ended(end);
    CallReport& call = report_.calls[end.call.number - 1];
    call.ended = true;
    call.done = now_;
    call.failure = std::move(end.failure);
    call.warnings = std::move(end.warnings);
    std::ranges::sort(call.warnings);
  }

  void give_up(std::uint32_t index) {
    if (!report_.calls[index].ended && report_.calls[index].arrived <= now_ &&
        coordinator_.knows({index + 1, {}})) {
      ++report_.faults.cancels;
      oracle_.cancelled(index);
      coordinator_.cancel({index + 1, {}}, effects_);
      perform(0);
    }
  }

  void pause(std::uint32_t index) {
    Machine& machine = cluster_.machine(index);
    if (machine.paused || machine.away) return;
    machine.paused = true;
    ++report_.faults.pauses;
    const nanoseconds length = cluster_.draw({0ns, 3 * lease});
    agenda_.add({now_ + length, cluster_.next_tie(), Event::Kind::resume, index, 0, 0, nullptr});
    if (length > lease)
      agenda_.add({now_ + lease, cluster_.next_tie(), Event::Kind::lost, index, machine.incarnation,
                   0, nullptr});
  }

  void resume(std::uint32_t index) {
    Machine& machine = cluster_.machine(index);
    machine.paused = false;
    if (machine.away) {  // it was given up in the meantime: fenced, it must forget
      wipe(index);
      return back(index);
    }
    std::vector<Event> deferred;
    std::swap(deferred, machine.deferred);
    for (std::size_t i = 0; i < deferred.size(); ++i) {
      // Before anything else that happens now, in the order in which they came.
      deferred[i].at = now_;
      deferred[i].tie = i;
      agenda_.add(deferred[i]);
    }
  }

  void kill(std::uint32_t index) {
    Machine& machine = cluster_.machine(index);
    if (machine.paused || machine.away) return;
    ++report_.faults.kills;
    for (std::size_t call = 0; call < report_.calls.size(); ++call)
      if (!report_.calls[call].ended && coordinator_.knows({call + 1, {}})) oracle_.gave_up(call);
    wipe(index);
    machine.paused = true;  // nobody is there
    agenda_.add({now_ + lease, cluster_.next_tie(), Event::Kind::lost, index, machine.incarnation,
                 0, nullptr});
    agenda_.add({now_ + lease + cluster_.draw({1ms, lease}), cluster_.next_tie(),
                 Event::Kind::resume, index, 0, 0, nullptr});
  }

  void wipe(std::uint32_t index) {
    for (std::uint32_t i = 0; i < running_.size(); ++i)
      if (running_[i].used && cluster_.machine_of(running_[i].start.node) == index) {
        if (!running_[i].disowned) oracle_.ended(running_[i].fact);
        running_[i].used = false;
        ++running_[i].generation;
        free_.push_back(i);
      }
    for (const NodeId node : cluster_.nodes_of(index))
      for (std::size_t replica = 0; replica < 256; ++replica) {
        const std::size_t key = std::size_t{plan_.nodes[node].executor} * 256 + replica;
        if (key < replicas_.size()) replicas_[key] = Replica();
      }
    cluster_.wipe(index);
  }

  void lost(std::uint32_t index, std::uint64_t incarnation) {
    Machine& machine = cluster_.machine(index);
    if (machine.incarnation != incarnation || !machine.paused) return;
    machine.away = true;
    for (std::size_t call = 0; call < report_.calls.size(); ++call)
      if (!report_.calls[call].ended && coordinator_.knows({call + 1, {}})) oracle_.gave_up(call);
    coordinator_.nodes_lost(cluster_.nodes_of(index), effects_);
    perform(0);
  }

  void back(std::uint32_t index) {
    cluster_.machine(index).away = false;
    cluster_.restart(index, coordinator_.nodes_back(cluster_.nodes_of(index)));
  }

  void tick_engines() {
    for (const NodeId node : cluster_.timed()) {
      if (cluster_.machine(cluster_.machine_of(node)).paused) continue;
      cluster_.engine(node).tick(effects_);
      perform(cluster_.machine_of(node));
    }
  }

  void want_tick() {
    // What a paused machine has missed is due now, not then.
    const Instant next =
        std::max(now_, std::min(coordinator_.next_deadline(), cluster_.next_deadline()));
    if (next >= tick_at_) return;
    tick_at_ = next;
    agenda_.add({next, cluster_.next_tie(), Event::Kind::tick, 0, 0, 0, nullptr});
  }

  void finish() {
    for (const CallReport& call : report_.calls)
      report_.finished = std::max(report_.finished, call.done);
    if (oracle_.violations().empty()) {
      for (std::size_t i = 0; i < report_.calls.size(); ++i)
        if (!report_.calls[i].ended)
          oracle_.violated("C7: call " + std::to_string(i) + " never ended" + oracle_.remains(i));
      const EngineCounts counts = cluster_.engine_counts();
      if (counts.activations + counts.buckets + counts.calls != 0)
        oracle_.violated("C10: " + std::to_string(counts.activations) + " activations, " +
                         std::to_string(counts.buckets) + " buckets and " +
                         std::to_string(counts.calls) + " call records are left over");
    }
    report_.violations = oracle_.violations();
  }

  const Plan& plan_;
  const Script& script_;
  const Options options_;
  SplitMix64 random_;
  Report report_;
  Pools pools_;
  Agenda agenda_;
  Oracle oracle_;
  Effects effects_;
  Coordinator coordinator_;
  Cluster cluster_;
  std::vector<Running> running_;
  std::vector<std::uint32_t> free_;
  std::vector<std::vector<std::uint32_t>> slots_;  // node, activation index -> running
  std::vector<Replica> replicas_;                  // executor * 256 + replica
  std::vector<std::size_t> touched_;
  struct FrameTime {
    Instant at{};
    std::size_t span = Span::nobody;
  };
  std::vector<FrameTime> frame_times_;  // by frame number, when tracing
  Instant now_{};
  Instant tick_at_ = Instant::max();
};

}  // namespace

std::uint64_t CallReport::hash() const {
  std::uint64_t hash = firings_hash;
  for (const std::uint64_t count : outputs) hash = mixed(hash, count);
  for (const std::string& warning : warnings)
    for (const char c : warning) hash = mixed(hash, static_cast<unsigned char>(c));
  if (failure)
    hash = mixed(
        hash, (std::uint64_t{failure->node} << 8U) + static_cast<std::uint64_t>(failure->kind) + 1);
  return hash;
}

Report simulate(const Plan& plan, const Script& script, const Options& options) {
  return Simulation(plan, script, options).run();
}

}  // namespace sluice::sim
