// The driver's side of what was said in sessions: told to a session's home by who answers, and
// asked of it before the session's first activation in a life of this machine.
#include <algorithm>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>

#include "base/failpoint.h"
#include "runtime/inproc/driver.h"
#include "runtime/inproc/lane.h"
#include "runtime/node/history_parcel.h"

namespace sluice {

namespace {

using Missing = HistoryStore::Missing;

std::string words_of(Missing missing) {
  switch (missing) {
    case Missing::too_large:
      return ", for what was said in it takes more than the " +
             std::to_string(history_bytes_max >> 20U) + " MiB that a home keeps of a session";
    case Missing::no_room:
      return ", for its home has no room left for what was said in it: it keeps that of the "
             "sessions that were used last";
    case Missing::gap:
      return ", for its home has not heard all that was said in it";
    case Missing::nothing:
      break;
  }
  return {};
}

}  // namespace

// ---- at the machine that answers

void Driver::give_to_lane(LaneActivation& activation) {
  const NodePlace& place = activation.place();
  const std::uint32_t replica = activation.replica();
  Lane& lane = *place.replicas[replica].lane;
  if (lane.is_here()) return lane.push_here(&activation);
  Outgoing& out = outgoing_[place.lanes[replica]];
  activation.next = out.newest;
  out.newest = &activation;
  if (out.oldest == nullptr) {
    out.oldest = &activation;
    filled_.push_back(place.lanes[replica]);
  }
}

bool Driver::waits_for_history(LaneActivation& activation, const StartActivation& start) {
  const NodePlace& place = activation.place();
  const SessionId id{start.session, start.call.home};
  if (!peers_ || place.keeper == nullptr || peers_->names.find(id) == nullptr) return false;
  const NodeId node = place.node->id;
  Peers::Asked& asked = peers_->asked[{id, peers_->place.history.roles[node]}];
  if (asked.is_settled) return false;
  if (id.home == peers_->where().self) {
    go_on_here(activation, start.session);
    asked.is_settled = true;
    return false;
  }
  asked.waiting.push_back(&activation);
  if (asked.waiting.size() > 1) return true;
  const std::optional<HistoryMark> has = place.keeper->ask_history(
      std::string(activation.session()), place.role, peers_->where().self.incarnation);
  if (!has) {
    asked = {true, {}};  // as another workflow's driver has heard
    return false;
  }
  Control control{.kind = Control::Kind::history_asked, .workflow = peers_->place.workflow};
  control.number = id.number;
  control.node = node;
  control.value = encode_asked({start.call.number, *has});
  tell(id.home.machine, control);
  failpoint("history_asked");
  return true;
}

/// The session is this home's, and may have been on another machine before.
void Driver::go_on_here(LaneActivation& activation, std::uint64_t session) {
  HomeHistories* const home = peers_->place.histories.get();
  if (home == nullptr) return;
  const NodePlace& place = activation.place();
  const Origin self = peers_->where().self;
  const HistoryStore::Key key{session, peers_->place.history.roles[place.node->id]};
  KeptHistory kept;
  {
    const std::lock_guard lock(home->mutex);
    if (!home->store.find(key)) return;
    kept = home->store.ask(key, self, {});
    home->store.end_role(key);  // it goes with this process, as the session does
  }
  const std::string name(activation.session());
  if (!place.keeper->ask_history(name, place.role, self.incarnation)) return;
  const Result<void> settled =
      place.keeper->settle_history(name, place.role, self.incarnation, kept, false);
  if (!settled.ok()) warn_of(activation, settled.error());
}

void Driver::warn_of(LaneActivation& activation, const Error& error) {
  activation.warn("session '" + std::string(activation.session()) +
                  "' begins anew: what its home kept of it cannot be used, " + error.message);
}

void Driver::take_history(Origin from, const Control& control) {
  switch (control.kind) {
    case Control::Kind::history_told:
      return take_history_told(from, control);
    case Control::Kind::history_asked:
      return take_history_asked(from, control);
    case Control::Kind::history_kept:
      return take_history_kept(from, control);
    default:
      return take_history_dropped(from, control);
  }
}

void Driver::take_history_kept(Origin from, const Control& control) {
  if (!peers_->where().is_home(from.machine))
    return refuse(from, "it says what was said in a session, and is no home");
  if (control.node >= plan_->nodes.size() || control.node == entry_node)
    return refuse(from, "it speaks of a node that is not there");
  const SessionId id{control.number, from};
  const auto asked = peers_->asked.find({id, peers_->place.history.roles[control.node]});
  // Nobody waits where its session or its calls have ended meanwhile.
  if (asked == peers_->asked.end() || asked->second.is_settled) return;
  const Result<KeptHistory> kept = decode_kept(control.value);
  if (!kept.ok()) return refuse(from, kept.error().message);
  std::vector<LaneActivation*> waiting = std::exchange(asked->second, {true, {}}).waiting;
  if (waiting.empty()) return;
  const NodePlace& place = waiting.front()->place();
  const Result<void> settled =
      place.keeper->settle_history(std::string(waiting.front()->session()), place.role,
                                   peers_->where().self.incarnation, *kept, true);
  for (LaneActivation* activation : waiting) {
    if (!settled.ok()) warn_of(*activation, settled.error());
    give_to_lane(*activation);
  }
  failpoint("history_settled");
}

void Driver::take_history_dropped(Origin from, const Control& control) {
  if (!peers_->where().is_home(from.machine))
    return refuse(from, "it drops what was said in a session, and is no home");
  if (control.node >= plan_->nodes.size() || control.node == entry_node)
    return refuse(from, "it speaks of a node that is not there");
  const std::string* const name = peers_->names.find({control.number, from});
  const NodePlace& place = places_[control.node];
  if (name != nullptr && place.keeper != nullptr) place.keeper->history_dropped(*name, place.role);
}

void Driver::release_waiting(const std::function<bool(const SessionId&)>& is_over) {
  for (auto at = peers_->asked.begin(); at != peers_->asked.end();) {
    const bool goes = is_over(at->first.first);
    if (goes)
      for (LaneActivation* activation : at->second.waiting) give_to_lane(*activation);
    at = goes ? peers_->asked.erase(at) : std::next(at);
  }
}

void Driver::release_waiting(LaneActivation& cancelled) {
  if (!peers_ || cancelled.place().keeper == nullptr) return;
  for (auto at = peers_->asked.begin(); at != peers_->asked.end(); ++at) {
    std::vector<LaneActivation*>& waiting = at->second.waiting;
    if (std::erase(waiting, &cancelled) == 0) continue;
    give_to_lane(cancelled);
    if (waiting.empty()) peers_->asked.erase(at);  // the next one asks again
    return;
  }
}

void Driver::tell_histories(LaneActivation& activation) {
  if (!peers_ || activation.place().keeper == nullptr) return;
  const CallId call = activation.call_state().id;
  const Peers::Guest* const guest = peers_->guests.find(call);
  std::vector<ToldHistory> all =
      activation.place().keeper->take_history(std::string(activation.session()));
  for (ToldHistory& told : all) {
    const std::optional<NodeId> node = peers_->place.history.node_of(told.role);
    if (!node) continue;
    if (guest == nullptr) {
      add_history({activation.call_state().record->number, peers_->where().self}, *node,
                  peers_->where().self, call.number, std::move(told));
      continue;
    }
    Control control{.kind = Control::Kind::history_told, .workflow = peers_->place.workflow};
    control.number = guest->session;
    control.node = *node;
    control.value = encode_told({call.number, std::move(told)});
    tell(call.home.machine, control);
    failpoint("history_told");
  }
}

// ---- at the home

void Driver::add_history(const SessionId& session, NodeId node, Origin from, std::uint64_t call,
                         ToldHistory told) {
  HomeHistories* const home = peers_->place.histories.get();
  if (home == nullptr || peers_->names.find(session) == nullptr) return;
  const HistoryStore::Key key{session.number, peers_->place.history.roles[node]};
  std::vector<HistoryStore::Dropped> dropped;
  {
    const std::lock_guard lock(home->mutex);
    home->store.add(key, from, number_of({call, session.home}), std::move(told));
    dropped = home->store.take_dropped();
  }
  Control control{.kind = Control::Kind::history_dropped, .workflow = peers_->place.workflow};
  for (const HistoryStore::Dropped& one : dropped) {
    const std::optional<NodeId> of = peers_->place.history.node_of(one.key.role);
    // Of another workflow's role it is told when the next part does not fit.
    if (!of || peers_->lives.life_of(one.holder.machine) != one.holder) continue;
    control.number = one.key.session;
    control.node = *of;
    tell(one.holder.machine, control);
  }
}

void Driver::take_history_told(Origin from, const Control& control) {
  if (!peers_->where().is_home()) return refuse(from, "it says what goes to a home");
  if (control.node >= plan_->nodes.size() ||
      !peers_->place.history.tellers[control.node][from.machine])
    return refuse(from, "it tells what was said in a role that it does not have");
  if (!peers_->lives.accepts(from)) return;
  Result<ToldParcel> parcel = decode_told(control.value);
  if (!parcel.ok()) return refuse(from, parcel.error().message);
  add_history({control.number, peers_->where().self}, control.node, from, parcel->call,
              std::move(parcel->told));
  failpoint("history_taken");
}

void Driver::take_history_asked(Origin from, const Control& control) {
  HomeHistories* const home = peers_->place.histories.get();
  if (home == nullptr) return refuse(from, "it says what goes to a home");
  if (control.node >= plan_->nodes.size() || control.node == entry_node ||
      !peers_->where().nodes.lives(control.node, from.machine))
    return refuse(from, "it asks what was said in a role that it does not have");
  if (!peers_->lives.accepts(from)) return;
  const Result<AskedParcel> parcel = decode_asked(control.value);
  if (!parcel.ok()) return refuse(from, parcel.error().message);
  Control answer{.kind = Control::Kind::history_kept, .workflow = peers_->place.workflow};
  answer.number = control.number;
  answer.node = control.node;
  KeptHistory kept;
  if (peers_->names.find({control.number, peers_->where().self}) != nullptr) {
    const HistoryStore::Key key{control.number, peers_->place.history.roles[control.node]};
    const std::lock_guard lock(home->mutex);
    const std::optional<HistoryStore::Held> before = home->store.find(key);
    kept = home->store.ask(key, from, parcel->has);
    if (const OpenCall* const open = calls_.find({parcel->call, peers_->where().self});
        open != nullptr && before && parcel->has.count == 0)
      warn_of_return(*before, from, *open->call);
  }
  answer.value = encode_kept(kept);
  tell(from.machine, answer);
  failpoint("history_sent");
}

/// Of a machine whose process is another one: nobody has heard that the session has moved.
void Driver::warn_of_return(const HistoryStore::Held& before, Origin now, const CallState& call) {
  const bool is_other = before.holder.machine == now.machine && before.holder != now;
  const bool is_missing = before.missing != Missing::nothing;
  if (!is_other || before.holder.incarnation == 0 || (before.complete == 0 && !is_missing)) return;
  const std::string line = "session '" + call.session_name + "' was on machine '" +
                           peers_->place.machines[now.machine] + "', which has begun anew: " +
                           (is_missing ? "so does the session" + words_of(before.missing)
                                       : "it goes on there with what was said");
  call.warn(line);
  peers_->place.port->notice(line);
}

std::string Driver::end_of_move(const SessionMove& move) const {
  const std::string to = " on machine '" + peers_->place.machines[move.to] + "'";
  bool is_kept = false;
  if (HomeHistories* const home = peers_->place.histories.get()) {
    const std::lock_guard lock(home->mutex);
    for (const auto& [key, held] : home->store.of_session(move.session)) {
      if (held.holder.machine != move.from) continue;
      if (held.missing != Missing::nothing) return "it begins anew" + to + words_of(held.missing);
      is_kept = true;
    }
  }
  return is_kept ? "it goes on" + to + " with what was said" : "it begins anew" + to;
}

bool Driver::has_history(std::uint64_t session, std::uint32_t machine) const {
  HomeHistories* const home = peers_->place.histories.get();
  if (home == nullptr) return false;
  const std::lock_guard lock(home->mutex);
  return std::ranges::any_of(home->store.of_session(session),
                             [&](const auto& one) { return one.second.holder.machine == machine; });
}

void Driver::roll_back_histories(const CallState& call, std::uint64_t session) {
  HomeHistories* const home = peers_ ? peers_->place.histories.get() : nullptr;
  if (home == nullptr) return;
  const std::lock_guard lock(home->mutex);
  home->store.roll_back(session, number_of(call.id), [this](Origin holder) {
    return peers_->lives.life_of(holder.machine) == holder &&
           peers_->lives.is_there(holder.machine);
  });
}

void Driver::end_histories(std::uint64_t session) {
  HomeHistories* const home = peers_->place.histories.get();
  release_waiting(
      [&](const SessionId& id) { return id.number == session && id.home == peers_->where().self; });
  if (home == nullptr) return;
  const std::lock_guard lock(home->mutex);
  home->store.end_session(session);
}

}  // namespace sluice
