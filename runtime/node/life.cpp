#include "runtime/node/life.h"

#include <utility>

namespace sluice {

Life::Life(const NodeOptions& options, Origin self, LifeKeeper& keeper)
    : options_(options),
      self_(self),
      keeper_(keeper),
      members_(options.machines.size(), options.home),
      member_(options.home) {}

Life::~Life() { stop(false); }

void Life::start(std::vector<std::shared_ptr<Driver>> drivers,
                 std::unique_ptr<Transport> transport) {
  drivers_ = std::move(drivers);
  transport_ = std::move(transport);
  for (const auto& driver : drivers_) driver->run();
  transport_->start(*this);
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
  transport_.reset();  // its address is free for the next life
}

std::vector<std::string> Life::wait(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  const auto is_complete = [&] {
    return is_home() ? members_.missing().empty() : admissions_ >= drivers_.size();
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
  if (channel == Channel::message)
    take_message(from, std::move(bytes));
  else
    take_control(from, bytes);
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

void Life::take_control(Origin from, const wire::Bytes& bytes) {
  Result<Control> read = decode_control(bytes);
  if (!read.ok()) return refuse(from, read.error().message);
  Control& control = *read;
  if (control.workflow >= drivers_.size() || control.life.machine >= options_.machines.size())
    return refuse(from, "it speaks of a workflow or a machine that is not there");
  switch (control.kind) {
    case Control::Kind::unheard:
      return add(
          {Reported{control.life}, from, "machine '" + name(from) + "' says: " + control.text});
    case Control::Kind::ask:
      return add({Asked{}, from, {}});
    case Control::Kind::leaving:
      return add({Silent{}, from, "it was stopped"});
    case Control::Kind::lost:
      if (from.machine == options_.home) transport_->refuse(control.life);
      break;
    case Control::Kind::session:
      keeper_.session_known(control.text);
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

void Life::end_session(const std::string& session) { keeper_.session_ended(session); }

void Life::admitted() {
  const std::lock_guard lock(mutex_);
  ++admissions_;
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
      return tell_drivers(PeerEvent::Kind::lost, effect.life, effect.why);
    case MemberEffect::Kind::joined:
      notice("machine '" + name(effect.life) + "' is there");
      return tell_drivers(PeerEvent::Kind::joined, effect.life, {});
    case MemberEffect::Kind::ask:
      return transport_->send(effect.life, Channel::control,
                              encode_control({.kind = Control::Kind::ask}));
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
