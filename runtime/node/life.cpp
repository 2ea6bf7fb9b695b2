#include "runtime/node/life.h"

#include <utility>

#include "base/failpoint.h"

namespace sluice {

namespace {

/// Of what waits for the end of a session.
constexpr std::size_t received_bytes_max = std::size_t{64} << 20U;

}  // namespace

Life::Life(const NodeOptions& options, Origin self, LifeKeeper& keeper)
    : options_(options),
      self_(self),
      keeper_(keeper),
      members_(options.machines.size(), options.home),
      member_(options.home),
      roster_(options.machines.size(), std::chrono::steady_clock::now()),
      void_(options.machines.size()) {
  roster_.joined(self, std::chrono::steady_clock::now());
}

Life::~Life() { stop(false); }

void Life::start(std::vector<std::shared_ptr<Driver>> drivers,
                 std::unique_ptr<Transport> transport) {
  {
    const std::lock_guard lock(made_mutex_);
    drivers_ = std::move(drivers);
    transport_ = std::move(transport);
  }
  for (const auto& driver : drivers_) driver->run();
  transport_->start(*this);
  failpoint("life_began");
}

void Life::stop(bool leaves) {
  if (stopped_.exchange(true)) return;
  if (leaves && !is_home()) {
    Origin home;
    {
      const std::lock_guard lock(mutex_);
      home = member_.home();
    }
    if (home.incarnation != 0)
      transport_->send(home, Channel::control, encode_control({.kind = Control::Kind::leaving}));
  }
  for (const auto& driver : drivers_) driver->close();
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
  // By the workflows: the drivers may not be there yet.
  const auto is_complete = [&] {
    return !stopped_ &&
           (is_home() ? members_.missing().empty() : admissions_ >= options_.placed.size());
  };
  changed_.wait_for(lock, patience, is_complete);
  std::vector<std::string> missing;
  if (is_complete()) return missing;
  if (!is_home()) return {options_.machines[options_.home]};
  for (const std::uint32_t machine : members_.missing())
    missing.push_back(options_.machines[machine]);
  return missing;
}

// ---- what the transport says

void Life::received(Origin from, Channel channel, wire::Bytes bytes) {
  if (!is_known(from)) return;
  const std::size_t size = bytes.size() + sizeof(Parcel);
  bool is_taken = false;
  {
    const std::lock_guard lock(received_mutex_);
    is_taken = received_bytes_ + size <= received_bytes_max || received_.empty();
    if (is_taken) {
      received_bytes_ += size;
      received_.push_back({from, channel, std::move(bytes)});
    }
  }
  if (!is_taken) return refuse(from, "it sends too much while a session's end is waited for");
  take_received();
}

void Life::take_received() {
  std::unique_lock lock(received_mutex_);
  take_again_ = true;
  if (taking_) return;  // whoever takes looks again
  taking_ = true;
  while (std::exchange(take_again_, false)) {
    bool goes_on = true;
    while (goes_on && !received_.empty()) {
      Parcel parcel = std::move(received_.front());
      received_.pop_front();
      const std::size_t size = parcel.bytes.size() + sizeof(Parcel);
      lock.unlock();
      goes_on = take(parcel);
      lock.lock();
      if (goes_on)
        received_bytes_ -= size;
      else
        received_.push_front(std::move(parcel));
    }
  }
  taking_ = false;
}

bool Life::take(Parcel& parcel) {
  if (parcel.channel == Channel::control) return take_control(parcel.from, parcel.bytes);
  take_message(parcel.from, std::move(parcel.bytes));
  return true;
}

void Life::ask() {
  Origin home;
  {
    const std::lock_guard lock(mutex_);
    home = member_.home();
  }
  if (!stopped_)
    transport_->send(home, Channel::control, encode_control({.kind = Control::Kind::ask}));
  failpoint("asked");
}

void Life::go_on() {
  if (!stopped_) take_received();
}

bool Life::is_bound_to(Origin home) {
  const std::lock_guard lock(mutex_);
  return !is_home() && member_.home() == home;
}

void Life::take_message(Origin from, wire::Bytes bytes) {
  wire::ByteReader in(bytes);
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

bool Life::take_control(Origin from, const wire::Bytes& bytes) {
  Result<Control> read = decode_control(bytes);
  if (!read.ok()) {
    refuse(from, read.error().message);
    return true;
  }
  Control& control = *read;
  if (control.workflow >= drivers_.size() || control.life.machine >= options_.machines.size()) {
    refuse(from, "it speaks of a workflow or a machine that is not there");
    return true;
  }
  switch (control.kind) {
    case Control::Kind::unheard:
      add({Reported{control.life}, from, "machine '" + name(from) + "' says: " + control.text});
      return true;
    case Control::Kind::ask:
      add({Asked{}, from, {}});
      return true;
    case Control::Kind::leaving:
      add({Silent{}, from, "it was stopped"});
      return true;
    case Control::Kind::lost:
      if (from.machine == options_.home) transport_->refuse(control.life);
      if (is_bound_to(from)) note_lost(control.life, control.text);
      failpoint("told_lost");
      break;
    case Control::Kind::joined:
      if (!is_bound_to(from)) break;
      note_there(control.life);
      add({Joined{}, control.life, {}});
      break;
    case Control::Kind::forget:
      if (is_bound_to(from)) keeper_.session_void(control.text);
      return true;
    case Control::Kind::admitted:
      if (keeper_.is_ending_any()) return false;  // what it was told to forget
      if (is_bound_to(from)) note_there(from);
      break;
    case Control::Kind::session:
      if (keeper_.is_ending(control.text)) return false;
      break;
    case Control::Kind::session_ended:
      if (is_bound_to(from)) keeper_.session_ended(control.text, control.number);
      break;
    default:
      break;
  }
  auto event = std::make_unique<PeerEvent>();
  event->kind = PeerEvent::Kind::control;
  event->from = from;
  const std::uint32_t workflow = control.workflow;
  event->control = std::move(control);
  drivers_[workflow]->hear(std::move(event));
  return true;
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

void Life::session_known(const std::string& session, std::uint64_t number) {
  keeper_.session_known(session, number);
}

void Life::session_over(const std::string& session, std::uint64_t number) {
  keeper_.session_over(session, number);
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
  ++admissions_;
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
    is_home() ? members_.connected(news.life, effects) : member_.connected(news.life, effects);
  } else if (std::holds_alternative<Asked>(news.what)) {
    if (is_home()) members_.asked(news.life, effects);
  } else if (const auto* reported = std::get_if<Reported>(&news.what)) {
    if (is_home()) members_.reported(news.life, reported->about, news.why, effects);
  } else if (std::holds_alternative<Joined>(news.what)) {
    if (!is_home()) member_.joined(news.life, effects);
  } else if (std::holds_alternative<Silent>(news.what)) {
    is_home() ? members_.lost(news.life, news.why, effects)
              : member_.lost(news.life, news.why, effects);
  } else if (is_home()) {
    members_.lost(news.life, "it refuses what the home sends", effects);
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
      notice("machine '" + name(effect.life) + "' is lost: " + effect.why);
      note_lost(effect.life, effect.why);
      failpoint("lost");
      return tell_drivers(PeerEvent::Kind::lost, effect.life, effect.why);
    case MemberEffect::Kind::joined:
      notice("machine '" + name(effect.life) + "' is there");
      note_there(effect.life);
      tell_void(effect.life);  // before a driver lets it in
      failpoint("joined");
      return tell_drivers(PeerEvent::Kind::joined, effect.life, {});
    case MemberEffect::Kind::ask:
      return keeper_.bound(effect.life);
    case MemberEffect::Kind::report: {
      Control control{.kind = Control::Kind::unheard};
      control.life = effect.life;
      control.text = effect.why;
      return transport_->send(member_.home(), Channel::control, encode_control(control));
    }
    case MemberEffect::Kind::anew:
      notice("begins a new life: " + effect.why);
      return keeper_.over(effect.why);
  }
}

void Life::tell_drivers(PeerEvent::Kind kind, Origin life, const std::string& why) {
  for (const auto& driver : drivers_) {
    auto event = std::make_unique<PeerEvent>();
    event->kind = kind;
    event->from = life;
    event->why = why;
    driver->hear(std::move(event));
  }
}

void Life::notice(const std::string& line) const {
  if (options_.notice) options_.notice(line);
}

}  // namespace sluice
