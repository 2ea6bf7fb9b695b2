// A life's word on whose sessions are whose, where calls begin on several machines.
#include <algorithm>
#include <utility>

#include "base/failpoint.h"
#include "runtime/node/life.h"
#include "runtime/node/session_names.h"
#include "runtime/wire/codec.h"

namespace sluice {

using Kind = Control::Kind;

void Life::make_session_desk() {
  if (!is_home(self_.machine) || std::ranges::count(homes_, true) < 2) return;
  SessionDesk::Options options;
  options.machines = options_.machines;
  options.self = self_.machine;
  options.process = options_.incarnation;
  options.name_max =
      wire::words_max - session_name_end(homes_, options_.machines, self_.machine).size();
  options.sessions_max = options_.sessions_max * options_.placed.size();
  for (const auto& driver : drivers_)
    options.waiting_max += static_cast<std::size_t>(driver->plan().limits.calls);
  options.tell = [this](const Control& control) { tell_keeper(control); };
  options.notice = options_.notice;
  session_desk_ = std::make_shared<SessionDesk>(std::move(options));
}

void Life::tell_keeper(const Control& control) {
  if (is_keeper()) {
    if (const std::optional<Control> answer = answer_home(self_, control))
      (void)session_desk_->answered(*answer);
    return;
  }
  Origin keeper;
  {
    const std::lock_guard lock(mutex_);
    keeper = member_.keeper();
  }
  const std::lock_guard lock(made_mutex_);
  if (transport_) transport_->send(keeper, Channel::control, encode_control(control));
}

std::optional<Control> Life::answer_home(Origin home, const Control& control) {
  const bool is_own = home == self_;
  bool is_right = true;
  SessionGrants::Reply reply;
  {
    const std::lock_guard lock(mutex_);
    if (!is_own && !members_.is_there(home)) return {};  // it hears that it is lost
    if (control.kind == Kind::session_wanted)
      reply = grants_.ask(home, control.text);
    else
      is_right = grants_.give_back(home, control.text);
  }
  if (!is_right) refuse(home, "it gives back a session that it does not have");
  if (control.kind != Kind::session_wanted) return {};
  using Answer = SessionGrants::Answer;
  Control answer{.kind = reply.answer == Answer::granted     ? Kind::session_granted
                         : reply.answer == Answer::elsewhere ? Kind::session_elsewhere
                                                             : Kind::session_denied};
  answer.text = control.text;
  answer.life = reply.home;
  return answer;
}

void Life::take_session_word(Origin from, const Control& control) {
  const bool is_to_keeper =
      control.kind == Kind::session_wanted || control.kind == Kind::session_given_back;
  if (is_to_keeper) {
    if (!is_keeper()) return refuse(from, "it says what goes to the keeper");
    if (!is_home(from.machine)) return refuse(from, "it wants a session, and is no home");
    const std::optional<Control> answer = answer_home(from, control);
    if (!answer) return;
    transport_->send(from, Channel::control, encode_control(*answer));
    return failpoint("session_answered");
  }
  if (from.machine != options_.keeper) return refuse(from, "it says what only the keeper may say");
  if (!is_bound_to(from)) return;
  const bool names_home = control.kind == Kind::session_elsewhere || control.life.incarnation != 0;
  if (names_home && control.kind != Kind::session_denied && !is_home(control.life.machine))
    return refuse(from, "it says that a session is at a machine on which no calls begin");
  if (!session_desk_ || !session_desk_->answered(control))
    refuse(from, "it answers for a session that nobody has asked for");
}

void Life::end_grants(Origin home) {
  if (!is_home(home.machine)) return;
  std::size_t forgotten = 0;
  {
    const std::lock_guard lock(mutex_);
    forgotten = grants_.lost(home);
  }
  if (forgotten != 0)
    notice(std::to_string(forgotten) + " sessions of earlier lives of machine '" + name(home) +
           "' are forgotten, for want of room: their next calls do not say that they begin anew");
}

void Life::end_sessions_of(Origin home) {
  const std::lock_guard lock(mutex_);
  if (is_keeper() && is_home(home.machine) && members_.is_there(home)) grants_.left(home);
}

std::uint32_t Life::process_of(std::uint32_t machine) const {
  const std::lock_guard lock(mutex_);
  return processes_[machine];
}

}  // namespace sluice
