#include "runtime/session_claims.h"

#include <algorithm>

namespace sluice {

using Kind = ClaimEffect::Kind;

void SessionClaims::call(const std::string& session, std::uint64_t call, Time until,
                         ClaimEffects& effects) {
  if (closed_) return effects.push_back({Kind::closed, session, call});
  const auto known = claims_.find(session);
  if (known != claims_.end()) {
    Claim& claim = known->second;
    const bool may_start = claim.state == State::had && !claim.drains;
    return may_start ? start(claim, session, call, effects)
                     : wait(claim, session, call, until, effects);
  }
  if (waiting_.size() >= waiting_max_) return effects.push_back({Kind::crowded, session, call});
  wait(claims_[session], session, call, until, effects);
  effects.push_back({Kind::ask, session});
}

void SessionClaims::wait(Claim& claim, const std::string& session, std::uint64_t call, Time until,
                         ClaimEffects& effects) {
  if (waiting_.size() >= waiting_max_) return effects.push_back({Kind::crowded, session, call});
  claim.queue.push_back(call);
  waiting_[call] = {session, until};
  due_.insert({until, call});
}

bool SessionClaims::leave(std::uint64_t call) {
  const auto found = waiting_.find(call);
  if (found == waiting_.end()) return false;
  due_.erase({found->second.until, call});
  waiting_.erase(found);
  return true;
}

void SessionClaims::start(Claim& claim, const std::string& session, std::uint64_t call,
                          ClaimEffects& effects) {
  ++claim.starting;
  effects.push_back({Kind::start, session, call, std::exchange(claim.before, Origin{0, 0})});
}

void SessionClaims::start_next(Claim& claim, const std::string& session, ClaimEffects& effects) {
  claim.drains = false;
  while (!claim.queue.empty() && !claim.drains) {
    const std::uint64_t call = claim.queue.front();
    claim.queue.pop_front();
    claim.drains = leave(call);
    if (claim.drains) start(claim, session, call, effects);
  }
}

void SessionClaims::started(const std::string& session, ClaimEffects& effects) {
  const auto known = claims_.find(session);
  if (known == claims_.end()) return;
  Claim& claim = known->second;
  --claim.starting;
  if (claim.drains && claim.starting == 0) start_next(claim, session, effects);
}

bool SessionClaims::granted(const std::string& session, Origin before, ClaimEffects& effects) {
  const auto known = claims_.find(session);
  if (known == claims_.end() || known->second.state != State::asked) return false;
  Claim& claim = known->second;
  // Nobody wants it any more. One that was lost is kept, for its next call is to hear of that.
  if (before.incarnation == 0 && !any_waits(claim)) {
    effects.push_back({Kind::give_back, session});
    claims_.erase(known);
    return true;
  }
  claim.state = State::had;
  claim.before = before;
  start_next(claim, session, effects);
  return true;
}

bool SessionClaims::refuse(const std::string& session, Kind kind, Origin home,
                           ClaimEffects& effects) {
  const auto known = claims_.find(session);
  if (known == claims_.end() || known->second.state != State::asked) return false;
  for (const std::uint64_t call : known->second.queue)
    if (leave(call)) effects.push_back({kind, session, call, home});
  claims_.erase(known);
  return true;
}

bool SessionClaims::elsewhere(const std::string& session, Origin home, ClaimEffects& effects) {
  return refuse(session, Kind::elsewhere, home, effects);
}

bool SessionClaims::full(const std::string& session, ClaimEffects& effects) {
  return refuse(session, Kind::full, {0, 0}, effects);
}

bool SessionClaims::any_waits(const Claim& claim) const {
  return std::ranges::any_of(claim.queue,
                             [&](std::uint64_t call) { return waiting_.contains(call); });
}

SessionClaims::End SessionClaims::end(const std::string& session) {
  const auto known = claims_.find(session);
  if (known == claims_.end()) return End::not_had;
  Claim& claim = known->second;
  if (claim.state != State::had || claim.starting != 0 || any_waits(claim)) return End::busy;
  claim.state = State::ending;
  return End::begins;
}

void SessionClaims::ended(const std::string& session, bool is_over, ClaimEffects& effects) {
  const auto known = claims_.find(session);
  if (known == claims_.end()) return;
  Claim& claim = known->second;
  if (!is_over) {
    claim.state = State::had;
    return start_next(claim, session, effects);
  }
  effects.push_back({Kind::give_back, session});
  if (!any_waits(claim)) {
    claims_.erase(known);
    return;
  }
  claim.state = State::asked;
  claim.before = {0, 0};
  effects.push_back({Kind::ask, session});
}

void SessionClaims::cancel(std::uint64_t call, ClaimEffects& effects) {
  const auto found = waiting_.find(call);
  if (found == waiting_.end()) return;
  const std::string session = found->second.session;
  leave(call);
  effects.push_back({Kind::cancelled, session, call});
}

void SessionClaims::tick(Time now, ClaimEffects& effects) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::uint64_t call = due_.begin()->second;
    const std::string session = waiting_[call].session;
    leave(call);
    effects.push_back({Kind::overdue, session, call});
  }
}

void SessionClaims::close(ClaimEffects& effects) {
  closed_ = true;
  for (const auto& [call, waiting] : waiting_)
    effects.push_back({Kind::closed, waiting.session, call});
  waiting_.clear();
  due_.clear();
  claims_.clear();
}

}  // namespace sluice
