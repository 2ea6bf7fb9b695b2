// The driver's side of several machines: what goes to them, what comes, and who is there.
#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "runtime/inproc/driver.h"
#include "runtime/node/session_names.h"

namespace sluice {

namespace {

/// Of messages that came before the keeper told of their sender.
constexpr std::size_t early_bytes_max = std::size_t{64} << 20U;

std::size_t held_bytes(const PeerEvent& event) {
  return event.bytes.size() + sizeof(PeerEvent) + 64;  // and what the allocator and the row take
}

}  // namespace

void Driver::hear(std::unique_ptr<PeerEvent> news) {
  auto event = std::make_unique<Event>();
  event->kind = Event::Kind::peer;
  event->peer = std::move(news);
  announce(std::move(event));
}

void Driver::session_ended(std::uint64_t session) {
  if (!peers_) return;
  auto event = std::make_unique<Event>();
  event->kind = Event::Kind::session_ended;
  event->session = session;
  announce(std::move(event));
}

// ---- what goes out

void Driver::send(std::uint32_t machine, const Message& message) {
  // Whoever is away here was there for nobody who caused this: the call's end is under way.
  if (!peers_->lives.is_there(machine)) return;
  tell_session(machine, {message.session, message.call.home});
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  out.number(peers_->place.workflow);
  out.number(peers_->news);
  const wire::Limits limits{.machines = peers_->where().machines};
  const std::size_t begin = bytes.size();
  wire::Lending lending{lender(), peers_->lives.life_of(machine)};
  const Result<void> encoded = wire::encode(*plan_, message, steady_now(), limits, bytes, lending);
  if (encoded.ok() && message.kind == Message::Kind::frame)
    peers_->windows.sent(message.target, machine,
                         bytes.size() - begin + lending.bytes + frame_overhead);
  if (encoded.ok()) {
    peers_->place.port->send(peers_->lives.life_of(machine), Channel::message, std::move(bytes));
    const bool stops =
        message.kind == Message::Kind::abort || message.kind == Message::Kind::cancel;
    return failpoint(stops ? "abort_sent" : "message_sent");
  }
  const NodeId node = message.frame ? message.frame->from : entry_node;
  peers_->broken.push_back({message.call,
                            node,
                            {encoded.error().code, "what it made cannot be sent to machine '" +
                                                       peers_->place.machines[machine] +
                                                       "': " + encoded.error().message}});
}

// ---- memory that readers elsewhere see

Ref<Buffer> Driver::make_shared(std::size_t size, std::span<const std::uint32_t> readers) {
  const std::shared_lock lock(lends_mutex_);
  wire::Lender* const from = lends_ && peers_ ? lender() : nullptr;
  if (from == nullptr) return {};
  const bool any =
      std::ranges::any_of(readers, [&](std::uint32_t one) { return from->reaches(one); });
  return any ? from->make(size) : Ref<Buffer>();
}

// ---- windows

void Driver::took(Origin from, EdgeId edge, std::size_t bytes) {
  peers_->taken.push_back({from.machine, edge, bytes + frame_overhead});
}

bool Driver::pass_windows() {
  Windows& windows = peers_->windows;
  YieldGates& gates = peers_->gates;
  for (const NodeId node : peers_->ended) windows.ended(node);
  peers_->ended.clear();
  // By now the activations that they started have been told to the windows.
  for (const TakenFrame& frame : peers_->taken) windows.took(frame.edge, frame.from, frame.bytes);
  peers_->taken.clear();
  Control control{.kind = Control::Kind::taken, .workflow = peers_->place.workflow};
  for (const Return& back : windows.take_returns()) {
    control.edge = back.edge;
    control.number = back.bytes;
    tell(back.to, control);
    failpoint("bytes_returned");
  }
  for (const NodeId node : windows.take_changed()) {
    gates.set(node, !windows.may_yield(node));
    if (windows.may_yield(node)) places_[node].wake_lanes();
  }
  for (const NodeId node : peers_->came)
    if (gates.came(node)) places_[node].wake_lanes();
  peers_->came.clear();
  if (!windows.may_yield(entry_node) || !loop_.start_next()) return false;
  loop_.run();
  return true;
}

void Driver::take_back(Origin from, const Control& control) {
  if (!peers_->lives.accepts(from)) return;
  const bool is_edge = control.edge < plan_->edges.size();
  const Edge* const edge = is_edge ? &plan_->edges[control.edge] : nullptr;
  const Residence& where = peers_->where();
  if (edge == nullptr || !where.leads(*edge, where.self.machine, from.machine))
    return refuse(from, "it gives back bytes of an edge that does not lead from here to it");
  if (!peers_->windows.returned(edge->id, from.machine, control.number))
    refuse(from, "it gives back more bytes than it was sent");
}

/// Another life stands there now, or none.
void Driver::forget_windows(std::uint32_t machine) {
  std::erase_if(peers_->taken, [&](const TakenFrame& frame) { return frame.from == machine; });
  peers_->windows.forget(machine);
}

void Driver::refused(const Refusal& refusal) {
  const std::string node = plan_->nodes[refusal.node].name;
  peers_->broken.push_back({refusal.call,
                            refusal.node,
                            {ErrorCode::corrupt, "messages of the call contradict each other: " +
                                                     std::string(refusal.what)}});
}

wire::Lender* Driver::lender() { return peers_->place.port->lender(); }

void Driver::tell(std::uint32_t machine, const Control& control) {
  if (peers_->lives.is_there(machine))
    peers_->place.port->send(peers_->lives.life_of(machine), Channel::control,
                             encode_control(control));
}

void Driver::tell_all(const Control& control) {
  for (std::uint32_t machine = 0; machine < peers_->where().machines; ++machine)
    if (machine != peers_->where().self.machine) tell(machine, control);
}

void Driver::tell_session(std::uint32_t machine, const SessionId& session) {
  const std::string* const name = peers_->names.find(session);
  if (name == nullptr) return;  // it has ended, and nobody waits for what comes of it
  if (machine == session.home.machine || !peers_->told[machine].insert(session).second) return;
  Control control{.kind = Control::Kind::session, .workflow = peers_->place.workflow};
  control.number = session.number;
  control.life = session.home;
  control.text = *name;
  tell(machine, control);
  failpoint("session_named");
}

void Driver::end_broken() {
  while (!peers_->broken.empty()) {
    for (BrokenCall& broken : std::exchange(peers_->broken, {})) {
      const std::string node = broken.node == entry_node ? "" : plan_->nodes[broken.node].name;
      if (broken.call.home != peers_->where().self) {
        // One of a life of its home that is over goes with that life.
        if (!peers_->lives.accepts(broken.call.home)) continue;
        Control control{.kind = Control::Kind::give_up, .workflow = peers_->place.workflow};
        control.number = broken.call.number;
        control.text = broken.error.message;
        control.node = broken.node;
        tell(broken.call.home.machine, control);
      } else if (OpenCall* const open = calls_.find(broken.call)) {
        end_early(*open, {false, broken.error, node, {}});
        loop_.give_up(broken.call);
      }
    }
    loop_.run();
  }
}

void Driver::handle_session_ended(std::uint64_t session) {
  loop_.session_ended(session);
  end_histories(session);
  const SessionId id{session, peers_->where().self};
  const std::string* const name = peers_->names.find(id);
  if (name == nullptr) return;
  Control control{.kind = Control::Kind::session_ended, .workflow = peers_->place.workflow};
  control.number = session;
  control.text = *name;
  peers_->names.erase(id);
  for (std::set<std::uint64_t>& lost : peers_->lost_there) lost.erase(session);
  // Whoever was not told of it by the home may have heard of it from another.
  for (std::uint32_t machine = 0; machine < peers_->where().machines; ++machine) {
    peers_->told[machine].erase(id);
    if (machine != peers_->where().self.machine) tell(machine, control);
    if (!peers_->lives.is_there(machine) && session < peers_->sessions_at_loss[machine])
      peers_->place.port->session_void(machine, control.text);
  }
  failpoint("session_ended");
}

void Driver::session_moved(const SessionMove& move, const CallState& call) {
  const std::vector<std::string>& machines = peers_->place.machines;
  const std::string line = "session '" + call.session_name + "' was on machine '" +
                           machines[move.from] + "', which is lost: " + end_of_move(move);
  call.warn(line);
  peers_->place.port->notice(line);
  peers_->place.port->session_void(move.from, call.session_name);
  peers_->lost_there[move.to].erase(call.record->number);
}

bool Driver::keeps_session(std::uint32_t machine, const CallId& call) const {
  return std::ranges::any_of(plan_->nodes, [&](const PlanNode& node) {
    return node.id != entry_node && node.balance == Balance::session &&
           peers_->where().machine(node.id, call) == machine;
  });
}

void Driver::tell_lost_there(const CallState& call) {
  for (std::uint32_t machine = 0; machine < peers_->lost_there.size(); ++machine) {
    std::set<std::uint64_t>& sessions = peers_->lost_there[machine];
    const auto lost = sessions.find(call.record->number);
    if (lost == sessions.end() || !keeps_session(machine, call.id)) continue;
    sessions.erase(lost);
    if (has_history(call.record->number, machine)) continue;  // it says itself how it goes on
    const std::string line = "session '" + call.session_name + "' was on machine '" +
                             peers_->place.machines[machine] +
                             "', which was started again: it begins anew there";
    call.warn(line);
    peers_->place.port->notice(line);
  }
}

void Driver::note_process(std::uint32_t machine, std::uint32_t process) {
  const std::uint32_t before = std::exchange(peers_->processes[machine], process);
  if (!peers_->where().is_home() || before == 0 || before == process) return;
  peers_->lost_there[machine].merge(peers_->names.own_below(peers_->sessions_at_loss[machine]));
}

// ---- what comes in

void Driver::handle_peer(std::unique_ptr<PeerEvent> event) {
  switch (event->kind) {
    case PeerEvent::Kind::message:
      return handle_message(std::move(event));
    case PeerEvent::Kind::control:
      return handle_control(event->from, event->control);
    case PeerEvent::Kind::joined:
      return handle_joined(event->from, event->process);
    case PeerEvent::Kind::lost:
      return handle_lost(event->from, event->why);
  }
}

void Driver::handle_message(std::unique_ptr<PeerEvent> event) {
  if (event->from.incarnation <= peers_->wrong[event->from.machine]) return;
  const Origin known = peers_->lives.life_of(event->from.machine);
  const bool is_keeper = peers_->where().is_keeper();
  const bool accepted = peers_->lives.accepts(event->from);
  if (is_keeper && event->news > peers_->news)
    return refuse(event->from, "it knows more than the keeper has told");
  // What it causes may go to a machine of which only its sender has heard yet.
  const bool too_early = !is_keeper && (!peers_->let_in.is_in() || event->news > peers_->news);
  if (accepted && !too_early) return receive(*event);
  if (event->from.incarnation > known.incarnation || accepted) hold(std::move(event));
}

void Driver::receive(const PeerEvent& event) {
  const auto bytes = event.bytes.view().subspan(event.begin);
  // Whoever has heard of a life has heard the keeper's news of it, and so has this machine by now.
  const std::optional<Origin> home = wire::home_of(bytes);
  if (home && home->machine < peers_->where().machines &&
      home->incarnation > peers_->lives.life_of(home->machine).incarnation)
    return refuse(event.from, "it speaks of a call of a life of machine '" +
                                  peers_->place.machines[home->machine] + "' that has not begun");
  if (Result<void> taken = loop_.receive(event.from, bytes, steady_now()); !taken.ok())
    refuse(event.from, taken.error().message);
  failpoint("message_taken");
}

void Driver::hold(std::unique_ptr<PeerEvent> event) {
  const std::size_t size = held_bytes(*event);
  if (peers_->early_bytes + size > early_bytes_max)
    return refuse(event->from, "it sends too much before the keeper has told of it");
  peers_->early_bytes += size;
  peers_->early.push_back(std::move(event));
}

void Driver::receive_held() {
  peers_->early_bytes = 0;
  for (std::unique_ptr<PeerEvent>& event : std::exchange(peers_->early, {}))
    handle_message(std::move(event));
}

void Driver::refuse(Origin life, const std::string& why) {
  peers_->wrong[life.machine] = life.incarnation;
  peers_->place.port->refuse(life, why);
}

/// Requires: it speaks of a machine that is there, as the life has seen.
void Driver::handle_control(Origin from, const Control& control) {
  using Kind = Control::Kind;
  const Residence& where = peers_->where();
  switch (control.kind) {
    case Kind::session:  // it may come before the keeper has told of who says it
      return take_session(from, control);
    case Kind::taken:
      return take_back(from, control);
    case Kind::give_up:
      return take_give_up(from, control);
    case Kind::session_ended:
      return take_session_ended(from, control);
    case Kind::history_told:
    case Kind::history_asked:
    case Kind::history_kept:
    case Kind::history_dropped:
      return take_history(from, control);
    case Kind::welcome:
      if (!where.is_home(from.machine) || from.machine == where.keeper)
        return refuse(from, "it lets a machine in, and is no home");
      if (peers_->let_in.has_spoken(from)) return refuse(from, "it lets a machine in twice");
      return take_welcome(from, control);
    default:
      break;
  }
  if (from.machine != where.keeper) return refuse(from, "it says what only the keeper may say");
  if (control.kind == Kind::joined || control.kind == Kind::lost || control.kind == Kind::admitted)
    peers_->news = std::max(peers_->news, control.number);
  switch (control.kind) {
    case Kind::joined:
      return take_joined(control.life, control.process);
    case Kind::lost:
      handle_lost(control.life, control.text);
      return receive_held();
    case Kind::admitted:
      peers_->lives.joined(from);
      if (where.is_home()) loop_.machine_back(from.machine);
      peers_->let_in.by_keeper();
      return take_welcome(from, control);
    default:
      return refuse(from, "it says what goes to the keeper");
  }
}

void Driver::take_give_up(Origin from, const Control& control) {
  const Residence& where = peers_->where();
  if (!where.is_home()) return refuse(from, "it says what goes to a home");
  if (where.nodes.nodes_of(from.machine).empty())
    return refuse(from, "it gives up a call, and takes part in none");
  if (!peers_->lives.accepts(from) || control.node >= plan_->nodes.size()) return;
  peers_->broken.push_back({{control.number, peers_->where().self},
                            control.node,
                            {ErrorCode::unavailable, control.text}});
}

void Driver::take_welcome(Origin from, const Control& control) {
  std::vector<CallId> calls;
  for (const std::uint64_t call : control.calls) calls.push_back({call, from});
  loop_.forget(calls);
  peers_->let_in.by_home(from);
  enter_if_let_in();
}

void Driver::enter_if_let_in() {
  if (!peers_->let_in.enters()) return;
  peers_->place.port->admitted();
  receive_held();
}

std::string Driver::session_problem(Origin from, const Control& control) const {
  const Residence& where = peers_->where();
  const std::uint32_t home = control.life.machine;
  if (!where.is_home(home)) return "it names a session of a machine on which no calls begin";
  if (home == where.self.machine) return "it names a session of this machine";
  if (home == from.machine && control.life != from) return "it names a session of another life";
  if (home != from.machine && where.nodes.nodes_of(from.machine).empty())
    return "it names a session of another home, and takes part in no call";
  const std::string end = session_name_end(where.homes, peers_->place.machines, home);
  if (!control.text.ends_with(end)) return "it names a session as no session of its home is named";
  return {};
}

void Driver::take_session(Origin from, const Control& control) {
  const bool is_later = from.incarnation > peers_->lives.life_of(from.machine).incarnation;
  const bool is_wrong = from.incarnation <= peers_->wrong[from.machine];
  if (is_wrong || (!peers_->lives.accepts(from) && !is_later)) return;
  if (const std::string problem = session_problem(from, control); !problem.empty())
    return refuse(from, problem);
  const SessionId id{control.number, control.life};
  const std::uint32_t home = id.home.machine;
  const Origin known = peers_->lives.life_of(id.home.machine);
  if (id.home.incarnation <= known.incarnation && !peers_->lives.accepts(id.home)) return;
  if (peers_->ended_sessions.contains(id)) return;  // its end came on a shorter way
  if (!peers_->names.has_room(id))
    return refuse(from, "it names more than " + std::to_string(peers_->names.most_of(home)) +
                            " sessions of one home");
  // Its home's word counts more than another's.
  const std::string* const name = peers_->names.find(id);
  if (name != nullptr && *name != control.text && from.machine != id.home.machine)
    return refuse(from, "it gives a session another name");
  peers_->names.set(id, control.text);
  peers_->place.port->session_known(control.text, id);
}

void Driver::take_session_ended(Origin from, const Control& control) {
  if (!peers_->where().is_home(from.machine))
    return refuse(from, "it says what only a home may say");
  const SessionId id{control.number, from};
  peers_->ended_sessions.add(id);
  peers_->names.erase(id);
  for (auto& told : peers_->told) told.erase(id);
  release_waiting([&](const SessionId& over) { return over == id; });
  peers_->place.port->session_over(control.text, id);
}

// ---- who is there

std::vector<std::uint64_t> Driver::let_back(Origin life) {
  std::vector<std::uint64_t> calls;
  if (!peers_->where().is_home()) return calls;
  for (const CallId& call : loop_.machine_back(life.machine)) calls.push_back(call.number);
  peers_->place.port->tell_void(life);
  return calls;
}

void Driver::handle_joined(Origin life, std::uint32_t process) {
  const std::uint32_t self = peers_->where().self.machine;
  peers_->lives.joined(life);
  note_process(life.machine, process);
  Control news{.kind = Control::Kind::joined, .workflow = peers_->place.workflow};
  news.number = ++peers_->news;
  std::vector<std::uint64_t> given_up = let_back(life);
  // Whatever the others send it now it takes after these, for they come by the keeper's own link.
  for (std::uint32_t other = 0; other < peers_->where().machines; ++other) {
    if (other == self || other == life.machine || !peers_->lives.is_there(other)) continue;
    news.life = peers_->lives.life_of(other);
    news.process = peers_->processes[other];
    tell(life.machine, news);
    news.life = life;
    news.process = process;
    tell(other, news);
  }
  // Only it: the others know of these calls, and still count what of them runs there.
  news.kind = Control::Kind::admitted;
  news.life = life;
  news.calls = std::move(given_up);
  tell(life.machine, news);
}

void Driver::take_joined(Origin life, std::uint32_t process) {
  const Residence& where = peers_->where();
  const bool is_later = peers_->lives.life_of(life.machine).incarnation < life.incarnation;
  if (is_later) forget_windows(life.machine);
  if (is_later) note_process(life.machine, process);
  peers_->lives.joined(life);
  peers_->let_in.joined(life);
  if (is_later && where.is_home()) {
    Control welcome{.kind = Control::Kind::welcome, .workflow = peers_->place.workflow};
    welcome.calls = let_back(life);
    tell(life.machine, welcome);
  }
  receive_held();
}

void Driver::handle_lost(Origin life, const std::string& why) {
  const Residence& where = peers_->where();
  if (life.machine == where.self.machine || !peers_->lives.accepts(life)) return;
  peers_->lives.lost(life);
  peers_->let_in.lost(life);
  forget_windows(life.machine);
  peers_->told[life.machine].clear();
  peers_->why[life.machine] = why;
  if (where.is_home(life.machine)) forget_home(life);
  if (where.is_home()) {
    peers_->sessions_at_loss[life.machine] = peers_->sessions;
    loop_.machine_lost(life.machine);
  }
  loop_.run();
  if (where.is_keeper()) {
    // Behind what its calls were aborted with.
    Control news{.kind = Control::Kind::lost, .workflow = peers_->place.workflow};
    news.number = ++peers_->news;
    news.life = life;
    news.text = why;
    tell_all(news);
  } else {
    enter_if_let_in();
  }
  if (where.is_home()) end_calls_on(life.machine);
}

void Driver::forget_home(Origin home) {
  const auto is_of_it = [&](const SessionId& session) {
    return session.home.machine == home.machine && session.home.incarnation <= home.incarnation;
  };
  peers_->names.forget(home);
  for (auto& told : peers_->told) std::erase_if(told, is_of_it);
  release_waiting(is_of_it);
  loop_.home_lost(home);
}

/// Roles elsewhere may take long to let go: no caller waits for that.
void Driver::end_calls_on(std::uint32_t machine) {
  const Residence& where = peers_->where();
  const std::vector<NodeId> gone = where.nodes.nodes_of(machine);
  std::vector<CallId> broken;
  calls_.for_each([&](const CallId& id, const OpenCall& open) {
    if (!open.given_up && loop_.is_given_up(id)) broken.push_back(id);
  });
  for (const CallId& id : broken) {
    const auto there = [&](NodeId node) { return where.machine(node, id) == machine; };
    const auto node = std::ranges::find_if(gone, there);
    if (node == gone.end()) continue;  // given up for another reason
    OpenCall& open = *calls_.find(id);
    CallOutcome outcome;
    outcome.error = open.call->stopped ? stopped(*open.call) : away(*node, id);
    if (!open.call->stopped) {
      outcome.node = plan_->nodes[*node].name;
      outcome.lost = CallOutcome::Lost::amid;
      roll_back_histories(*open.call, open.call->record->number);
    }
    forget(*open.call);
    end_early(open, std::move(outcome));
  }
}

Error Driver::away(NodeId node, const CallId& call) const {
  if (!peers_) return {ErrorCode::unavailable, "the node is lost"};
  const std::uint32_t machine = peers_->where().machine(node, call);
  std::string message = "machine '" + peers_->place.machines[machine] + "', where node '" +
                        plan_->nodes[node].name + "' runs, is lost";
  if (!peers_->why[machine].empty()) message += ": " + peers_->why[machine];
  return {ErrorCode::unavailable, std::move(message)};
}

// ---- calls of other machines

std::uint64_t Driver::number_of(const CallId& call) const {
  const std::vector<bool>& homes = peers_->where().homes;
  const auto count = [&](auto end) {
    return static_cast<std::uint64_t>(std::count(homes.begin(), end, true));
  };
  const std::uint64_t number = call.number * peers_->place.workflows + peers_->place.workflow;
  return number * count(homes.end()) + count(homes.begin() + call.home.machine);
}

const Ref<CallState>& Driver::call_of(const StartActivation& start) {
  if (const OpenCall* const open = calls_.find(start.call)) return open->call;
  Peers::Guest& guest = peers_->guests[start.call];
  ++guest.activations;
  if (guest.call) return guest.call;
  guest.session = start.session;
  const std::string* const name = peers_->names.find({start.session, start.call.home});
  auto* const made = new CallState({}, name == nullptr ? "" : *name);
  made->id = start.call;
  made->number = number_of(start.call);
  guest.call = Ref<CallState>(made);
  return guest.call;
}

void Driver::guest_left(const LaneActivation& activation) {
  const CallId id = activation.call_state().id;
  Peers::Guest* const guest = peers_->guests.find(id);
  if (guest != nullptr && --guest->activations == 0) peers_->guests.erase(id);
}

void Driver::pass_warnings(const LaneActivation& activation) {
  if (!peers_->guests.contains(activation.call_state().id)) return;
  std::vector<std::string> warnings = activation.call_state().new_warnings();
  if (!warnings.empty())
    loop_.warn(activation.place().node->id, activation.id(), std::move(warnings));
}

}  // namespace sluice
