#include "runtime/inproc/driver.h"

#include <algorithm>
#include <utility>

#include "base/make_thread.h"
#include "runtime/inproc/lane.h"

namespace sluice {

namespace {

/// Other threads' events that one thread handles before it hands over.
constexpr std::size_t events_max = 256;

/// Fills in which other machines read each output, perhaps in some calls only.
std::vector<NodePlace> with_readers(std::vector<NodePlace> places, const Plan& plan,
                                    const Residence& where) {
  for (NodePlace& place : places) {
    if (place.node == nullptr || where.is_alone() || !where.is_here(place.node->id)) continue;
    place.readers.resize(place.node->outputs.size());
    for (const EdgeId id : place.node->edges) {
      const Edge& edge = plan.edges[id];
      for (std::uint32_t machine = 0; machine < where.machines; ++machine) {
        if (machine == where.self.machine || !where.leads(edge, where.self.machine, machine))
          continue;
        for (std::size_t output = 0; output < place.readers.size(); ++output) {
          std::vector<std::uint32_t>& readers = place.readers[output];
          if ((edge.mask >> output & 1U) != 0 &&
              std::ranges::find(readers, machine) == readers.end())
            readers.push_back(machine);
        }
      }
    }
  }
  return places;
}

}  // namespace

Driver::Driver(std::shared_ptr<const Plan> plan, std::shared_ptr<Sessions> sessions,
               std::vector<NodePlace> places, const RunnerOptions& options,
               std::unique_ptr<Peers> peers)
    : plan_(std::move(plan)),
      sessions_(std::move(sessions)),
      places_(with_readers(std::move(places), *plan_, peers ? peers->where() : Residence{})),
      grace_(options.grace),
      recorder_(options.trace == 0 ? nullptr : std::make_unique<Recorder>(options.trace)),
      peers_(std::move(peers)),
      loop_(*plan_, *this, peers_ ? peers_->where() : Residence{}, this),
      running_(plan_->nodes.size()),
      watch_(std::chrono::duration_cast<Instant>(grace_)) {
  for (const NodePlace& place : places_)
    for (std::size_t i = 0; i < place.lanes.size(); ++i) {
      if (outgoing_.size() <= place.lanes[i]) outgoing_.resize(place.lanes[i] + 1U);
      outgoing_[place.lanes[i]].lane = place.replicas[i].lane;
    }
  if (recorder_) loop_.watch();
  if (!peers_) return;
  loop_.wait_for_starts();
  if (peers_->where().is_home())  // nobody is there yet
    for (std::uint32_t machine = 0; machine < peers_->where().machines; ++machine)
      if (machine != peers_->where().self.machine) loop_.machine_lost(machine);
}

Driver::~Driver() = default;

Result<void> Driver::run() {
  Result<std::thread> made = make_thread("a workflow's clock", [this] { tick(); });
  if (!made.ok()) return made.error();
  clock_ = std::move(made).value();
  return {};
}

// ---- news

void Driver::announce(std::unique_ptr<Event> event) {
  if (!begin_to_drive()) return events_.push(event.release());
  handle(*event);
  drive(1);
}

void Driver::announce(Event::Kind kind, const Ref<CallState>& call) {
  auto event = std::make_unique<Event>();
  event->kind = kind;
  event->call = call;
  announce(std::move(event));
}

void Driver::drive(std::size_t done) {
  std::shared_ptr<Driver> alive;  // what ends with the last activation ends after the last step
  for (std::size_t handled = 0;;) {
    if (!closing_) run_engines();
    flush();  // when it closes too: lanes end what was started and cancelled
    if (!closing_ && loop_.timed()) set_clock();
    if (in_hand_ == 0) {
      if (closing_) release_sessions();
      if (alive_) alive = std::move(alive_);
    }
    if (handled > events_max && announced_.load() > done && hand_over(done)) return;
    if (announced_.fetch_sub(done) == done) return;
    done = 0;
    Event* next = nullptr;
    // It is announced before it is pushed.
    while ((next = events_.take()) == nullptr) std::this_thread::yield();
    while (next != nullptr) {
      Event& event = *next;
      next = event.next;
      handle(event);
      if (recorder_ && !closing_) run_engines();
      give_back(event);
      ++done;
      if (++handled % events_max == 0) look_between();
    }
  }
}

void Driver::run_engines() {
  loop_.run();
  if (!peers_) return;
  do {
    if (!peers_->broken.empty()) end_broken();
  } while (pass_windows());
}

bool Driver::hand_over(std::size_t done) {
  if (closing_ || std::this_thread::get_id() == clock_.get_id()) return false;
  // One stays announced, so that nobody else begins.
  announced_.fetch_sub(done - 1);
  const std::lock_guard lock(clock_mutex_);
  take_over_ = true;
  clock_changed_.notify_one();
  return true;
}

void Driver::give_back(Event& event) {
  if (event.activation != nullptr)
    event.activation->give_back(event);
  else
    delete &event;
}

void Driver::advance() {
  if (loop_.timed()) loop_.advance(steady_now());
}

void Driver::handle(Event& event) {
  advance();
  if (recorder_ && event.activation != nullptr) recorder_->follows(*event.activation, event.sent);
  if (recorder_ && event.activation == nullptr) recorder_->follows_nobody();
  switch (event.kind) {
    case Event::Kind::call:
      return handle_call(event);
    case Event::Kind::cancel:
      if (!closing_) loop_.cancel(event.call->id);
      return;
    case Event::Kind::give_up:
      return handle_give_up(event);
    case Event::Kind::yielded:
      if (peers_) peers_->came.push_back(event.activation->place().node->id);
      return handle_yielded(*event.activation, event.fields, event.handled_is_last());
    case Event::Kind::ended:
      return handle_ended(*event.activation, std::move(event.error), event.released);
    case Event::Kind::released:
      return recycle(*event.activation);
    case Event::Kind::time:
      if (!closing_) loop_.tick(steady_now());
      return;
    case Event::Kind::close:
      return handle_close();
    case Event::Kind::peer:
      if (!closing_) handle_peer(std::move(event.peer));
      return;
    case Event::Kind::session_ended:
      if (!closing_) handle_session_ended(event.session);
      return;
  }
}

void Driver::handle_call(Event& event) {
  const auto refuse_call = [&](Error why) {
    sessions_->call_ended(*event.call->record);
    forget(*event.call);
    event.call->end({false, std::move(why), "", {}});
  };
  if (closing_ || event.call->ended())
    return refuse_call({ErrorCode::unavailable, "no call begins here any more"});
  if (peers_ && !peers_->names.has_room({event.call->record->number, peers_->where().self}))
    return refuse_call({ErrorCode::exhausted,
                        "this home has " + std::to_string(peers_->place.sessions_max) +
                            " sessions that have not ended, as many as may be: no call begins in "
                            "another one until one of them is ended"});
  // Nothing of the call runs before `Loop::run`, so its caller is known in time.
  std::uint64_t given = 0;
  for (std::size_t i = 0; recorder_ && i < event.inputs.size(); ++i)
    given |= event.inputs[i] ? std::uint64_t{1} << i : 0;
  const CallId id = loop_.call(event.call->record->number, event.inputs, steady_now());
  event.call->id = id;
  if (peers_) event.call->number = number_of(id);
  if (recorder_)
    recorder_->call_begins(id, event.call->given_number, event.call->session_name, given);
  calls_[id].call = event.call;
  // Of a call that was refused no other machine hears, nor of its session.
  if (peers_ && loop_.knows(id)) {
    const std::uint64_t session = event.call->record->number;
    peers_->names.set({session, peers_->where().self}, event.call->session_name);
    peers_->sessions = std::max(peers_->sessions, session + 1);
    for (const SessionMove& move : loop_.take_moves()) session_moved(move, *event.call);
    tell_lost_there(*event.call);
  }
  calls_open_.store(calls_.size());
  if (event.call->stopped) loop_.cancel(id);
}

void Driver::handle_yielded(LaneActivation& activation, YieldedFields& fields, bool last) {
  if (activation.call_state().ended()) dropped_.fetch_add(1, std::memory_order_relaxed);
  if (!closing_) {
    const NodeId node = activation.place().node->id;
    if (peers_) pass_warnings(activation);
    if (last) tell_histories(activation);
    Frame* frame = loop_.new_frame(node);
    for (auto& [field, value] : fields) {
      frame->values[field] = std::move(value);
      frame->mask |= std::uint64_t{1} << field;
    }
    if (recorder_) recorder_->yielded(activation, frame->mask);
    loop_.yielded(node, activation.id(), frame, last);
  }
  fields.clear();
  if (last) recycle(activation);
}

void Driver::let_go(LaneActivation& activation) {
  if (std::exchange(activation.in_hand, false))
    peers_->ended.push_back(activation.place().node->id);
}

void Driver::handle_ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) {
  let_go(activation);
  if (!closing_) {
    const NodeId node = activation.place().node->id;
    std::unique_ptr<Failure> failure;
    if (peers_) pass_warnings(activation);
    tell_histories(activation);
    if (error && recorder_) recorder_->failed(activation);
    if (error) failure = std::make_unique<Failure>(Failure{node, std::move(*error)});
    loop_.ended(node, activation.id(), std::move(failure));
  }
  if (released) recycle(activation);
}

void Driver::recycle(LaneActivation& activation) {
  LaneActivation*& slot = running_[activation.place().node->id][activation.id().index];
  if (slot == &activation) slot = nullptr;
  if (recorder_) recorder_->ended(activation);
  if (peers_) guest_left(activation);
  let_go(activation);
  activation.clear();
  activations_.give(&activation);
  activations_open_.store(--in_hand_, std::memory_order_relaxed);
}

void Driver::handle_give_up(Event& event) {
  if (closing_) return;
  const CallId id = event.call->id;
  OpenCall* open = calls_.find(id);
  if (open == nullptr) return;
  NodeId still_running = entry_node;
  for (const auto& of_node : running_)
    for (const LaneActivation* activation : of_node)
      if (still_running == entry_node && activation != nullptr &&
          &activation->call_state() == event.call.get())
        still_running = activation->place().node->id;
  end_early(*open, overdue(*event.call, still_running));
  loop_.give_up(id);
}

void Driver::end_early(OpenCall& open, CallOutcome outcome) {
  if (std::exchange(open.given_up, true)) return;
  given_up_.fetch_add(1);
  if (recorder_) recorder_->call_ends(open.call->id, false, outcome.node, outcome.error.message);
  open.call->end(std::move(outcome));
}

void Driver::handle_close() {
  closing_ = true;
  if (peers_) peers_->gates.end();
  for (const NodePlace& place : places_) place.wake_lanes();
  for (const auto& of_node : running_)
    for (LaneActivation* activation : of_node)
      if (activation != nullptr) activation->cancel();
  if (peers_) release_waiting([](const SessionId&) { return true; });
  flush();  // lanes may be gone when whoever closes goes on
  closed_.store(true);
  closed_.notify_all();
}

void Driver::release_sessions() {
  calls_.for_each(
      [this](const CallId&, const OpenCall& open) { sessions_->call_ended(*open.call->record); });
  calls_.clear();
}

void Driver::flush() {
  for (const std::uint16_t lane : filled_) {
    Outgoing& out = outgoing_[lane];
    out.lane->push(out.newest, out.oldest);
    out.newest = out.oldest = nullptr;
  }
  filled_.clear();
}

// ---- what the engines ask for

void Driver::start(const StartActivation& start) {
  const NodePlace& place = places_[start.node];
  LaneActivation* const activation = activations_.take();
  activation->begin(*this, place, start, peers_ ? call_of(start) : calls_.find(start.call)->call);
  std::vector<LaneActivation*>& running = running_[start.node];
  if (running.size() <= start.activation.index) running.resize(start.activation.index + 1U);
  running[start.activation.index] = activation;
  if (recorder_) recorder_->started(*activation, start.call, start.node, start.group);
  activation->in_hand = peers_ != nullptr;
  if (peers_) peers_->windows.started(start.node);
  if (in_hand_++ == 0) alive_ = shared_from_this();
  activations_open_.store(in_hand_, std::memory_order_relaxed);
  if (!waits_for_history(*activation, start)) give_to_lane(*activation);
}

void Driver::cancel(const CancelActivation& cancel) {
  const std::vector<LaneActivation*>& running = running_[cancel.node];
  if (cancel.activation.index >= running.size()) return;
  LaneActivation* const activation = running[cancel.activation.index];
  if (activation == nullptr || !(activation->id() == cancel.activation)) return;
  if (cancel.is_late && recorder_) recorder_->failed(*activation);
  activation->cancel();
  let_go(*activation);
  release_waiting(*activation);
}

void Driver::deliver(const DeliverOutput& output) {
  calls_.find(output.call)->call->tell(plan_->outputs[output.output].name, output.value);
}

void Driver::end(EndCall& end) {
  OpenCall open = std::move(*calls_.find(end.call));
  calls_.erase(end.call);
  if (open.given_up) given_up_.fetch_sub(1);
  const std::uint64_t session = open.call->record->number;
  sessions_->call_ended(*open.call->record);
  // The last of all: who sees none open sees none given up, and may end its session.
  calls_open_.store(calls_.size());
  forget(*open.call);
  CallOutcome outcome;
  outcome.ok = end.failure == nullptr;
  if (end.failure && end.failure->kind == FailureKind::refused) refused_.fetch_add(1);
  outcome.warnings = std::move(end.warnings);
  if (end.failure) {
    // Without a node: messages contradict each other, and the failure says how.
    const bool is_lost =
        end.failure->kind == FailureKind::node_lost && end.failure->node != entry_node;
    if (is_lost) roll_back_histories(*open.call, session);
    if (is_lost) outcome.lost = end.started ? CallOutcome::Lost::amid : CallOutcome::Lost::before;
    outcome.error = end.failure->kind == FailureKind::cancelled ? stopped(*open.call)
                    : is_lost                                   ? away(end.failure->node, end.call)
                                                                : std::move(end.failure->error);
    if (end.failure->node != entry_node) outcome.node = plan_->nodes[end.failure->node].name;
  }
  if (recorder_) {
    recorder_->call_ends(end.call, outcome.ok, outcome.node, outcome.error.message);
    recorder_->forget(end.call);
  }
  open.call->end(std::move(outcome));
}

// ---- what roles say, on their lanes

void Driver::yielded(LaneActivation& activation, YieldedFields& fields, bool last) {
  if (!activation.stepped && !may_yield(activation))
    activation.wait([&] { return activation.cancelled() || may_yield(activation); });
  if (begin_to_drive()) {
    advance();
    if (recorder_) recorder_->follows(activation, steady_now());
    handle_yielded(activation, fields, last);
    return drive(1);
  }
  if (peers_) peers_->gates.comes(activation.place().node->id);
  Event& event = activation.new_event(Event::Kind::yielded);
  event.fields.swap(fields);
  event.last = last;
  events_.push(&event);
}

void Driver::ended(LaneActivation& activation, std::unique_ptr<Error> error, bool released) {
  if (!error && released && activation.ends_with_frame()) return;
  if (begin_to_drive()) {
    advance();
    if (recorder_) recorder_->follows(activation, steady_now());
    handle_ended(activation, std::move(error), released);
    return drive(1);
  }
  Event& event = activation.new_event(Event::Kind::ended);
  event.error = std::move(error);
  event.released = released;
  events_.push(&event);
}

void Driver::released(LaneActivation& activation) {
  if (begin_to_drive()) {
    recycle(activation);
    return drive(1);
  }
  events_.push(&activation.new_event(Event::Kind::released));
}

}  // namespace sluice
