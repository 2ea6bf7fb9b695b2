#include "runtime/node/life.h"

#include <limits>
#include <utility>

#include "base/failpoint.h"
#include "runtime/node/session_names.h"
#include "runtime/wire/codec.h"

namespace sluice {

namespace {

/// All but homes that have no roles: those may come and go.
std::vector<bool> needed_of(const NodeOptions& options) {
  std::vector<bool> needed = options.are_homes();
  needed.flip();
  needed[options.keeper] = true;
  for (const RoleMachines& roles : options.placed)
    for (const std::vector<std::uint32_t>& machines : roles)
      for (const std::uint32_t machine : machines) needed[machine] = true;
  return needed;
}

}  // namespace

Life::Life(const NodeOptions& options, Origin self, LifeOwner& owner, ReplicaDesk& desk)
    : options_(options),
      self_(self),
      homes_(options.are_homes()),
      needed_(needed_of(options)),
      owner_(owner),
      desk_(desk),
      received_(options.machines.size()),
      members_(options.machines.size(), options.keeper),
      grants_(options.machines.size(), options.sessions_max * options.placed.size()),
      processes_(options.machines.size()),
      member_(options.keeper),
      roster_(options.machines.size(), std::chrono::steady_clock::now()),
      joins_(options.machines.size()),
      void_(options.machines.size()) {
  roster_.joined(self, std::chrono::steady_clock::now());
}

Life::~Life() { stop(false, "the machine's life is over"); }

Result<void> Life::start(std::vector<std::shared_ptr<Driver>> drivers,
                         std::unique_ptr<Transport> transport) {
  {
    const std::lock_guard lock(made_mutex_);
    drivers_ = std::move(drivers);
    transport_ = std::move(transport);
  }
  make_session_desk();
  for (const auto& driver : drivers_)
    if (Result<void> run = driver->run(); !run.ok()) return run;
  desk_.begin(self_, *this);
  transport_->start(*this);
  failpoint("life_began");
  return {};
}

void Life::stop(bool leaves, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_.exchange(true)) return;
    changed_.notify_all();
  }
  if (leaves && !is_keeper()) {
    Origin keeper;
    {
      const std::lock_guard lock(mutex_);
      keeper = member_.keeper();
    }
    if (keeper.incarnation != 0)
      transport_->send(keeper, Channel::control, encode_control({.kind = Control::Kind::leaving}));
  }
  if (session_desk_) session_desk_->close(why);
  for (const auto& driver : drivers_) driver->close(why);
  desk_.end(self_, why);
  if (transport_) transport_->stop();
  const std::lock_guard lock(made_mutex_);
  transport_.reset();  // its address is free for the next life
}

std::vector<Roster::Row> Life::roster() const {
  const std::lock_guard lock(mutex_);
  return roster_.rows();
}

std::vector<LinkState> Life::links() const {
  const std::lock_guard lock(made_mutex_);
  return transport_ ? transport_->links() : std::vector<LinkState>();
}

RunnerCounts Life::counts() const {
  const std::lock_guard lock(made_mutex_);
  RunnerCounts all;
  for (const auto& driver : drivers_) {
    const RunnerCounts counts = driver->counts();
    all.calls += counts.calls;
    all.given_up += counts.given_up;
    all.activations += counts.activations;
    all.dropped += counts.dropped;
    all.refused += counts.refused;
  }
  all.activations += desk_.served();
  return all;
}

void Life::note_there(Origin life) {
  const std::lock_guard lock(mutex_);
  roster_.joined(life, std::chrono::steady_clock::now());
}

void Life::note_lost(Origin life, const std::string& why) {
  const std::lock_guard lock(mutex_);
  roster_.lost(life, why, std::chrono::steady_clock::now());
}

std::vector<std::string> Life::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return stopped_ || is_complete(); });
  if (stopped_) return {options_.machines[self_.machine]};
  return is_complete() ? std::vector<std::string>() : missing();
}

bool Life::is_let_in() const {
  const std::lock_guard lock(mutex_);
  // By the workflows: the drivers may not be there yet.
  return !stopped_ && (is_keeper() || admissions_ >= options_.placed.size());
}

bool Life::is_complete() const {
  if (stopped_ || (!is_keeper() && admissions_ < options_.placed.size())) return false;
  return (!is_keeper() && !is_home(self_.machine)) || missing().empty();
}

std::vector<std::string> Life::missing() const {
  if (!is_keeper() && admissions_ < options_.placed.size())
    return {options_.machines[options_.keeper]};
  std::vector<std::string> names;
  for (std::uint32_t machine = 0; machine < needed_.size(); ++machine)
    if (needed_[machine] && roster_.rows()[machine].state != Roster::State::there)
      names.push_back(options_.machines[machine]);
  return names;
}

// ---- what the transport says

void Life::received(Origin from, Channel channel, MessageBytes bytes) {
  if (!is_known(from)) return;
  bool is_taken = false;
  {
    const std::lock_guard lock(received_mutex_);
    is_taken = received_.add({from, channel, std::move(bytes)});
  }
  if (!is_taken) return refuse(from, "it sends too much while a session's end is waited for");
  take_received();
}

void Life::take_received() {
  std::unique_lock lock(received_mutex_);
  if (taking_) return;  // whoever takes looks again
  taking_ = true;
  while (std::optional<Parcel> parcel = received_.next()) {
    const std::uint32_t from = parcel->from.machine;
    const std::size_t size = Received::size_of(*parcel);
    if (received_.holds_any(from)) {
      const std::optional<std::uint32_t> home = home_of(*parcel);
      if (home && received_.holds(from, *home)) {
        received_.hold(*home, *std::move(parcel));
        continue;
      }
    }
    Took took = Took::done;
    std::uint64_t gone = 0;
    do {
      gone = gone_;
      lock.unlock();
      took = take(*parcel);
      lock.lock();
    } while (took != Took::done && gone != gone_);  // a session has ended meanwhile
    if (took == Took::done) {
      received_.done(from, size);
    } else if (took == Took::link_waits) {
      received_.hold_link(*std::move(parcel));
    } else {
      const std::uint32_t home = home_of(*parcel).value_or(from);
      received_.hold(home, *std::move(parcel));
    }
  }
  taking_ = false;
}

Life::Took Life::take(Parcel& parcel) {
  if (parcel.channel == Channel::control) return take_control(parcel.from, parcel.bytes.view());
  take_message(parcel.from, std::move(parcel.bytes));
  return Took::done;
}

std::optional<std::uint32_t> Life::home_of(const Parcel& parcel) const {
  if (parcel.channel == Channel::control) {
    const Result<Control> read = decode_control(parcel.bytes.view());
    if (!read.ok()) return {};
    switch (read->kind) {
      case Control::Kind::session:
        return read->life.machine;
      case Control::Kind::session_ended:
      case Control::Kind::forget:
      case Control::Kind::welcome:
        return parcel.from.machine;
      default:
        return {};
    }
  }
  wire::ByteReader in(parcel.bytes.view());
  (void)in.number("a workflow", drivers_.size() - 1);
  (void)in.number("a count of news", ~std::uint64_t{0});
  const std::optional<Origin> home =
      wire::home_of(parcel.bytes.view().last(in.ok() ? in.left() : 0));
  return home ? std::optional(home->machine) : std::nullopt;
}

void Life::ask() {
  Origin keeper;
  {
    const std::lock_guard lock(mutex_);
    keeper = member_.keeper();
  }
  Control control{.kind = Control::Kind::ask};
  control.process = options_.incarnation;
  if (!stopped_) transport_->send(keeper, Channel::control, encode_control(control));
  failpoint("asked");
}

void Life::go_on(std::uint32_t home) {
  if (stopped_) return;
  {
    const std::lock_guard lock(received_mutex_);
    ++gone_;
    received_.go_on(home);
  }
  take_received();
}

bool Life::is_bound_to(Origin keeper) {
  const std::lock_guard lock(mutex_);
  return !is_keeper() && member_.keeper() == keeper;
}

bool Life::is_session_of(std::uint32_t home, const std::string& name) const {
  return is_home(home) && name.ends_with(session_name_end(homes_, options_.machines, home));
}

void Life::take_message(Origin from, MessageBytes bytes) {
  wire::ByteReader in(bytes.view());
  const std::uint64_t workflow = in.number("a workflow", drivers_.size() - 1);
  const std::uint64_t news = in.number("a count of news", ~std::uint64_t{0});
  if (!in.ok()) return refuse(from, in.error());
  auto event = std::make_unique<PeerEvent>();
  event->news = news;
  event->from = from;
  event->begin = bytes.size() - in.left();
  event->bytes = std::move(bytes);
  drivers_[workflow]->hear(std::move(event));
}

Life::Took Life::take_control(Origin from, std::span<const std::byte> bytes) {
  Result<Control> read = decode_control(bytes);
  if (!read.ok()) {
    refuse(from, read.error().message);
    return Took::done;
  }
  Control& control = *read;
  if (control.workflow >= drivers_.size() || control.life.machine >= options_.machines.size()) {
    refuse(from, "it speaks of a workflow or a machine that is not there");
    return Took::done;
  }
  switch (control.kind) {
    case Control::Kind::unheard:
      add({Reported{control.life}, from, "machine '" + name(from) + "' says: " + control.text});
      return Took::done;
    case Control::Kind::ask:
      // What roles here keep of an earlier life of a home goes before it is let in.
      if (is_keeper() && is_home(from.machine) && from.incarnation > 0)
        owner_.home_over({from.machine, from.incarnation - 1});
      if (is_keeper() && is_home(from.machine) && owner_.is_ending_of(from.machine))
        return Took::link_waits;
      add({Asked{control.process}, from, {}});
      return Took::done;
    case Control::Kind::leaving:
      end_sessions_of(from);
      add({Silent{}, from, "it was stopped"});
      return Took::done;
    case Control::Kind::forget:
      if (is_session_of(from.machine, control.text))
        owner_.session_void(from.machine, control.text);
      else
        refuse(from, "it speaks of what is no session of its own");
      return Took::done;
    case Control::Kind::replica:
      if (const std::string wrong = desk_.heard(from, control, bytes); !wrong.empty())
        refuse(from, wrong);
      return Took::done;
    case Control::Kind::session_wanted:
    case Control::Kind::session_given_back:
    case Control::Kind::session_granted:
    case Control::Kind::session_elsewhere:
    case Control::Kind::session_denied:
      take_session_word(from, control);
      return Took::done;
    default:
      break;
  }
  if (const Took took = look_at(from, control); took != Took::done) return took;
  if (is_bound_to(from)) tell_desk(from, control);
  auto event = std::make_unique<PeerEvent>();
  event->kind = PeerEvent::Kind::control;
  event->from = from;
  const std::uint32_t workflow = control.workflow;
  const bool joined = control.kind == Control::Kind::joined && is_bound_to(from);
  const Origin life = control.life;
  event->control = std::move(control);
  drivers_[workflow]->hear(std::move(event));
  if (joined) note_joined(life);
  return Took::done;
}

/// Before a driver hears of it, so that what it starts then finds the machine.
void Life::tell_desk(Origin keeper, const Control& control) {
  if (control.kind == Control::Kind::joined) desk_.joined(control.life);
  if (control.kind == Control::Kind::admitted) desk_.joined(keeper);
  if (control.kind == Control::Kind::lost) desk_.lost(control.life, control.text);
}

void Life::note_joined(Origin life) {
  const std::lock_guard lock(mutex_);
  Joins& joins = joins_[life.machine];
  if (joins.incarnation < life.incarnation) joins = {life.incarnation, 0};
  if (joins.incarnation == life.incarnation && ++joins.drivers == drivers_.size())
    roster_.joined(life, std::chrono::steady_clock::now());
  changed_.notify_all();
}

/// Homes that went while this machine was away: the keeper has named all that are there.
void Life::end_homes_away() {
  constexpr std::uint32_t every = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t machine = 0; machine < options_.machines.size(); ++machine) {
    if (!is_home(machine) || machine == self_.machine || machine == options_.keeper) continue;
    const bool is_there = [&] {
      const std::lock_guard lock(mutex_);
      return joins_[machine].incarnation != 0;
    }();
    if (!is_there) owner_.home_over({machine, every});
  }
}

Life::Took Life::look_at(Origin from, const Control& control) {
  const Origin life = control.life;
  switch (control.kind) {
    case Control::Kind::lost:
      if (from.machine == options_.keeper) transport_->refuse(life);
      if (is_bound_to(from)) note_lost(life, control.text);
      if (is_bound_to(from) && is_home(life.machine)) owner_.home_over(life);
      failpoint("told_lost");
      return Took::done;
    case Control::Kind::joined:
      if (!is_bound_to(from)) return Took::done;
      if (is_home(life.machine) && life.incarnation > 0)
        owner_.home_over({life.machine, life.incarnation - 1});
      if (is_home(life.machine) && owner_.is_ending_of(life.machine)) return Took::link_waits;
      add({Joined{}, life, {}});
      return Took::done;
    case Control::Kind::admitted:
      if (is_bound_to(from)) end_homes_away();
      return owner_.is_ending_of(from.machine) ? Took::link_waits : Took::done;
    case Control::Kind::welcome:
      // What it was told to forget.
      return owner_.is_ending_of(from.machine) ? Took::home_waits : Took::done;
    case Control::Kind::session:
      return owner_.is_ending(life.machine, control.text) ? Took::home_waits : Took::done;
    case Control::Kind::session_ended:
      if (is_session_of(from.machine, control.text))
        owner_.session_ended(control.text, {control.number, from});
      return Took::done;
    default:
      return Took::done;
  }
}

void Life::connected(Origin life) { add({Connected{}, life, {}}); }
void Life::silent(Origin life, const std::string& why) { add({Silent{}, life, why}); }
void Life::refused(Origin by) { add({Refused{}, by, {}}); }

// ---- what drivers say

void Life::send(Origin to, Channel channel, wire::Bytes bytes) {
  transport_->send(to, channel, std::move(bytes));
}

void Life::refuse(Origin life, const std::string& why) {
  notice("what machine '" + name(life) + "' sent is refused: " + why);
  transport_->refuse(life);
  add({Silent{}, life, "what it sent was refused: " + why});
}

void Life::session_known(const std::string& session, const SessionId& id) {
  owner_.session_known(session, id);
}

void Life::session_over(const std::string& session, const SessionId& id) {
  owner_.session_over(session, id);
}

void Life::session_void(std::uint32_t machine, const std::string& session) {
  const std::lock_guard lock(mutex_);
  void_[machine].insert(session);
}

void Life::tell_void(Origin life) {
  std::set<std::string> sessions;
  {
    const std::lock_guard lock(mutex_);
    sessions.swap(void_[life.machine]);
  }
  for (const std::string& session : sessions) {
    Control control{.kind = Control::Kind::forget};
    control.text = session;
    transport_->send(life, Channel::control, encode_control(control));
  }
}

void Life::admitted() {
  const std::lock_guard lock(mutex_);
  if (++admissions_ == options_.placed.size())
    roster_.joined(member_.keeper(), std::chrono::steady_clock::now());
  failpoint("admitted");
  changed_.notify_all();
}

// ---- what follows

void Life::add(News news) {
  if (!is_known(news.life) || stopped_) return;
  std::unique_lock lock(mutex_);
  news_.push_back(std::move(news));
  if (std::exchange(deciding_, true)) return;
  while (!news_.empty()) {
    const News next = std::move(news_.front());
    news_.pop_front();
    const MemberEffects effects = decide(next);
    lock.unlock();
    for (const MemberEffect& effect : effects) perform(effect);
    lock.lock();
    changed_.notify_all();
  }
  deciding_ = false;
}

MemberEffects Life::decide(const News& news) {
  MemberEffects effects;
  if (std::holds_alternative<Connected>(news.what)) {
    is_keeper() ? members_.connected(news.life, effects) : member_.connected(news.life, effects);
  } else if (const auto* asked = std::get_if<Asked>(&news.what)) {
    if (is_keeper()) processes_[news.life.machine] = asked->process;
    if (is_keeper()) members_.asked(news.life, effects);
  } else if (const auto* reported = std::get_if<Reported>(&news.what)) {
    if (is_keeper()) members_.reported(news.life, reported->about, news.why, effects);
  } else if (std::holds_alternative<Joined>(news.what)) {
    if (!is_keeper()) member_.joined(news.life, effects);
  } else if (std::holds_alternative<Silent>(news.what)) {
    is_keeper() ? members_.lost(news.life, news.why, effects)
                : member_.lost(news.life, news.why, effects);
  } else if (is_keeper()) {
    members_.lost(news.life, "it refuses what the keeper sends", effects);
  } else {
    member_.refused(effects);
  }
  return effects;
}

void Life::perform(const MemberEffect& effect) {
  switch (effect.kind) {
    case MemberEffect::Kind::refuse:
      return transport_->refuse(effect.life);
    case MemberEffect::Kind::lost:
      note_lost(effect.life, effect.why);
      desk_.lost(effect.life, effect.why);
      if (is_home(effect.life.machine)) owner_.home_over(effect.life);
      failpoint("lost");
      tell_drivers(PeerEvent::Kind::lost, effect.life, effect.why);
      end_grants(effect.life);
      // Whoever reads it and calls then is not sent there any more.
      return notice("machine '" + name(effect.life) + "' is lost: " + effect.why);
    case MemberEffect::Kind::joined:
      desk_.joined(effect.life);
      failpoint("joined");
      tell_drivers(PeerEvent::Kind::joined, effect.life, {}, process_of(effect.life.machine));
      note_there(effect.life);  // who waits for it begins calls, which come behind that
      return notice("machine '" + name(effect.life) + "' is there");
    case MemberEffect::Kind::ask:
      return owner_.bound(effect.life);
    case MemberEffect::Kind::report: {
      Control control{.kind = Control::Kind::unheard};
      control.life = effect.life;
      control.text = effect.why;
      return transport_->send(member_.keeper(), Channel::control, encode_control(control));
    }
    case MemberEffect::Kind::anew:
      notice("begins a new life: " + effect.why);
      return owner_.over(effect.why);
  }
}

void Life::tell_drivers(PeerEvent::Kind kind, Origin life, const std::string& why,
                        std::uint32_t process) {
  for (const auto& driver : drivers_) {
    auto event = std::make_unique<PeerEvent>();
    event->kind = kind;
    event->from = life;
    event->why = why;
    event->process = process;
    driver->hear(std::move(event));
  }
}

void Life::notice(const std::string& line) const {
  if (options_.notice) options_.notice(line);
}

}  // namespace sluice
