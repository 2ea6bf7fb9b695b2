// Whose session is whose: the keeper's list and a home's claims, by themselves, together, and in
// random schedules beside a plain model.
#include "runtime/session_grants.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/session_claims.h"

namespace sluice {

namespace {

using Answer = SessionGrants::Answer;
using Kind = ClaimEffect::Kind;
using Time = SessionClaims::Time;

constexpr Origin west{0, 5}, east{1, 7};

std::string text_of(const ClaimEffects& effects) {
  constexpr const char* names[] = {"ask",     "back",    "start",     "elsewhere", "full",
                                   "crowded", "overdue", "cancelled", "closed"};
  std::string text;
  for (const ClaimEffect& effect : effects) {
    text += std::string(text.empty() ? "" : " ") + names[static_cast<int>(effect.kind)];
    if (effect.call != 0) text += std::to_string(effect.call);
    if (effect.home.incarnation != 0)
      text +=
          "@" + std::to_string(effect.home.machine) + "." + std::to_string(effect.home.incarnation);
  }
  return text;
}

/// What follows from one word.
template <typename Says>
std::string after(Says says) {
  ClaimEffects effects;
  says(effects);
  return text_of(effects);
}

constexpr Time at(int seconds) { return Time() + std::chrono::seconds(seconds); }

}  // namespace

TEST_CASE("a session is granted to who asks first, until it is given back") {
  SessionGrants grants(2, 10);
  CHECK(grants.ask(west, "amy").answer == Answer::granted);
  CHECK(grants.ask(west, "amy").answer == Answer::granted);
  CHECK(grants.count(0) == 1);
  const SessionGrants::Reply no = grants.ask(east, "amy");
  CHECK(no.answer == Answer::elsewhere);
  CHECK(no.home == west);
  CHECK(!grants.give_back(east, "amy"));
  CHECK(!grants.give_back({0, 4}, "amy"));
  CHECK(!grants.give_back(west, "bob"));
  CHECK(grants.give_back(west, "amy"));
  CHECK(!grants.give_back(west, "amy"));
  const SessionGrants::Reply yes = grants.ask(east, "amy");
  CHECK(yes.answer == Answer::granted);
  CHECK(yes.home.incarnation == 0);
  CHECK(grants.count(0) == 0);
  CHECK(grants.size() == 1);
}

TEST_CASE("a session of a home that is lost goes to who asks next, who hears whose it was") {
  SessionGrants grants(2, 10);
  REQUIRE(grants.ask(west, "amy").answer == Answer::granted);
  CHECK(grants.lost(west) == 0);
  CHECK(grants.lost(west) == 0);
  CHECK(!grants.give_back(west, "amy"));
  const SessionGrants::Reply next = grants.ask(east, "amy");
  CHECK(next.answer == Answer::granted);
  CHECK(next.home == west);
  // The next life of the one that had it finds it at the other, and tells of another one's loss.
  CHECK(grants.ask({0, 6}, "amy").home == east);
  CHECK(grants.ask({0, 6}, "bob").answer == Answer::granted);
  CHECK(grants.count(0) == 1);
}

TEST_CASE("a home that takes its leave has ended its sessions, and nobody hears whose they were") {
  SessionGrants grants(2, 1);
  REQUIRE(grants.ask(west, "amy").answer == Answer::granted);
  REQUIRE(grants.ask(east, "bob").answer == Answer::granted);
  grants.left({0, 4});
  CHECK(grants.size() == 2);
  grants.left(west);
  CHECK(grants.size() == 1);
  CHECK(grants.count(0) == 0);
  CHECK(grants.lost(west) == 0);
  CHECK(grants.give_back(east, "bob"));
  const SessionGrants::Reply next = grants.ask(east, "amy");
  CHECK(next.answer == Answer::granted);
  CHECK(next.home.incarnation == 0);
}

TEST_CASE("each home has its own room, and what is lost with it is remembered in as much") {
  SessionGrants grants(2, 2);
  for (const char* name : {"a", "b"}) REQUIRE(grants.ask(west, name).answer == Answer::granted);
  CHECK(grants.ask(west, "c").answer == Answer::full);
  CHECK(grants.ask(west, "a").answer == Answer::granted);
  CHECK(grants.ask(east, "c").answer == Answer::granted);
  CHECK(grants.lost(west) == 0);
  for (const char* name : {"d", "e"}) REQUIRE(grants.ask({0, 6}, name).answer == Answer::granted);
  CHECK(grants.size() == 5);
  CHECK(grants.lost({0, 6}) == 2);  // `a` and `b`
  CHECK(grants.size() == 3);
  CHECK(grants.ask(east, "a").home.incarnation == 0);
  CHECK(grants.ask(east, "d").answer == Answer::full);
  REQUIRE(grants.give_back(east, "a"));
  CHECK(grants.ask(east, "d").home == Origin{0, 6});
}

TEST_CASE("names take no more bytes than may be") {
  SessionGrants grants(1, std::size_t{1} << 20U);
  const std::size_t each = (std::size_t{16} << 10U) - SessionGrants::entry_bytes;
  const std::size_t most = SessionGrants::bytes_max / (each + SessionGrants::entry_bytes);
  for (std::size_t i = 0; i < most; ++i) {
    std::string name(each, 'n');
    name.replace(0, 8, std::to_string(10'000'000 + i));
    REQUIRE(grants.ask(west, name).answer == Answer::granted);
  }
  CHECK(grants.ask(west, "amy").answer == Answer::full);
}

TEST_CASE("a session's first call asks, others wait behind it, and all start in order") {
  SessionClaims claims(10);
  const auto call = [&](std::uint64_t number) {
    return after([&](auto& effects) { claims.call("amy", number, at(9), effects); });
  };
  const auto started = [&] {
    return after([&](auto& effects) { claims.started("amy", effects); });
  };
  CHECK(call(1) == "ask");
  CHECK(call(2) == "");
  CHECK(claims.end("amy") == SessionClaims::End::busy);
  CHECK(after([&](auto& effects) { CHECK(claims.granted("amy", west, effects)); }) == "start1@0.5");
  CHECK(call(3) == "");  // behind the second, which has not started yet
  CHECK(started() == "start2");
  CHECK(started() == "start3");
  CHECK(started() == "");
  CHECK(call(4) == "start4");
  CHECK(call(5) == "start5");
  CHECK(claims.end("amy") == SessionClaims::End::busy);
  CHECK(started() == "");
  CHECK(started() == "");
  CHECK(claims.end("amy") == SessionClaims::End::begins);
  CHECK(call(6) == "");
  CHECK(after([&](auto& effects) { claims.ended("amy", false, effects); }) == "start6");
  CHECK(started() == "");
  CHECK(claims.end("amy") == SessionClaims::End::begins);
  CHECK(call(7) == "");
  CHECK(after([&](auto& effects) { claims.ended("amy", true, effects); }) == "back ask");
  CHECK(after([&](auto& effects) { CHECK(claims.elsewhere("amy", east, effects)); }) ==
        "elsewhere7@1.7");
  CHECK(claims.end("amy") == SessionClaims::End::not_had);
  CHECK(!claims.has("amy"));
}

TEST_CASE(
    "what waits ends when its time is over, when it is cancelled, and when the home's life is") {
  SessionClaims claims(3);
  const auto call = [&](const char* session, std::uint64_t number, int seconds) {
    return after([&](auto& effects) { claims.call(session, number, at(seconds), effects); });
  };
  CHECK(claims.due() == Time::max());
  CHECK(call("amy", 1, 5) == "ask");
  CHECK(call("amy", 2, 3) == "");
  CHECK(call("bob", 3, 9) == "ask");
  CHECK(call("bob", 4, 9) == "crowded4");
  CHECK(call("eve", 5, 9) == "crowded5");
  CHECK(claims.due() == at(3));
  CHECK(after([&](auto& effects) { claims.tick(at(4), effects); }) == "overdue2");
  CHECK(after([&](auto& effects) { claims.cancel(1, effects); }) == "cancelled1");
  CHECK(after([&](auto& effects) { claims.cancel(1, effects); }) == "");
  // Nobody wants it any more, so it is given back; but one that was lost is kept for its next call.
  CHECK(after([&](auto& effects) { CHECK(claims.granted("amy", {0, 0}, effects)); }) == "back");
  CHECK(!claims.has("amy"));
  CHECK(call("amy", 6, 9) == "ask");
  CHECK(after([&](auto& effects) { claims.cancel(6, effects); }) == "cancelled6");
  CHECK(after([&](auto& effects) { CHECK(claims.granted("amy", east, effects)); }) == "");
  CHECK(call("amy", 7, 9) == "start7@1.7");
  CHECK(after([&](auto& effects) { claims.started("amy", effects); }) == "");
  CHECK(call("amy", 8, 9) == "start8");
  CHECK(after([&](auto& effects) { CHECK(!claims.granted("amy", {0, 0}, effects)); }) == "");
  CHECK(after([&](auto& effects) { CHECK(!claims.full("eve", effects)); }) == "");
  CHECK(after([&](auto& effects) { claims.close(effects); }) == "closed3");
  CHECK(call("amy", 9, 9) == "closed9");
  CHECK(claims.due() == Time::max());
}

namespace {

/// Homes and a keeper whose links are in order and as slow as chance wants, beside plain maps of
/// who has what.
class Schedule {
 public:
  explicit Schedule(std::uint64_t seed) : random_(seed) {
    for (std::uint32_t home = 0; home < homes; ++home) begin(home);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    for (std::uint32_t home = 0; home < homes; ++home)
      while (hear(home) || answer(home) || begun(home)) continue;
    CHECK(open_.empty());
    for (const Home& home : homes_) CHECK(home.claims->waiting() == 0);
  }
  int starts() const { return starts_; }
  int refusals() const { return refusals_; }
  int warnings() const { return warnings_; }

 private:
  static constexpr std::uint32_t homes = 3;
  struct Said {
    Kind kind = Kind::ask;  // or give_back
    std::string session;
  };
  struct Home {
    Origin life{0, 0};
    std::optional<SessionClaims> claims{};
    std::deque<Said> to_keeper{};
    std::deque<std::pair<std::string, SessionGrants::Reply>> from_keeper{};
    std::vector<std::string> begun{};             // of calls between `start` and `started`
    std::map<std::string, Origin> granted{};      // not called yet: whose each was
    std::set<std::string> had{};                  // called
    std::map<std::string, std::uint64_t> last{};  // call that started
  };

  std::uint64_t draw(std::uint64_t below) { return random_.next() % below; }
  const std::string& any_session() { return sessions_[draw(sessions_.size())]; }

  void begin(std::uint32_t number) {
    Home& home = homes_[number];
    const Origin life{number, home.life.incarnation + 1};
    home = {};
    home.life = life;
    home.claims.emplace(50);
  }

  void take(Home& home, const ClaimEffects& effects) {
    for (const ClaimEffect& effect : effects) {
      if (effect.kind == Kind::ask) {
        home.to_keeper.push_back({Kind::ask, effect.session});
      } else if (effect.kind == Kind::give_back) {
        home.had.erase(effect.session);
        home.granted.erase(effect.session);
        home.to_keeper.push_back({Kind::give_back, effect.session});
      } else {
        REQUIRE(open_.erase(effect.call) == 1);
        if (effect.kind == Kind::start) take_start(home, effect);
      }
    }
  }

  void take_start(Home& home, const ClaimEffect& effect) {
    ++starts_;
    for (const Home& other : homes_)
      if (&other != &home) REQUIRE(!other.had.contains(effect.session));
    Origin before{0, 0};
    if (const auto first = home.granted.find(effect.session); first != home.granted.end()) {
      before = first->second;
      home.granted.erase(first);
      REQUIRE(home.had.insert(effect.session).second);
    }
    REQUIRE(home.had.contains(effect.session));
    REQUIRE(effect.home == before);
    if (before.incarnation != 0) ++warnings_;
    std::uint64_t& last = home.last[effect.session];
    REQUIRE(effect.call > last);  // first come, first started
    last = effect.call;
    home.begun.push_back(effect.session);
  }

  /// The keeper hears what the home has said next.
  bool hear(std::uint32_t number) {
    Home& home = homes_[number];
    if (home.to_keeper.empty()) return false;
    const Said said = home.to_keeper.front();
    home.to_keeper.pop_front();
    const auto owner = owners_.find(said.session);
    const bool is_there =
        owner != owners_.end() && homes_[owner->second.machine].life == owner->second;
    if (said.kind == Kind::give_back) {
      REQUIRE(is_there);
      REQUIRE(owner->second == home.life);
      owners_.erase(owner);
      REQUIRE(grants_.give_back(home.life, said.session));
      return true;
    }
    const SessionGrants::Reply reply = grants_.ask(home.life, said.session);
    REQUIRE(reply.answer == (is_there ? Answer::elsewhere : Answer::granted));
    REQUIRE(reply.home == (owner == owners_.end() ? Origin{0, 0} : owner->second));
    if (!is_there) owners_[said.session] = home.life;
    home.from_keeper.emplace_back(said.session, reply);
    return true;
  }

  bool answer(std::uint32_t number) {
    Home& home = homes_[number];
    if (home.from_keeper.empty()) return false;
    const auto [session, reply] = home.from_keeper.front();
    home.from_keeper.pop_front();
    ClaimEffects effects;
    if (reply.answer == Answer::granted) {
      home.granted[session] = reply.home;
      REQUIRE(home.claims->granted(session, reply.home, effects));
    } else {
      ++refusals_;
      REQUIRE(home.claims->elsewhere(session, reply.home, effects));
    }
    take(home, effects);
    return true;
  }

  /// A call that was told to start has.
  bool begun(std::uint32_t number) {
    Home& home = homes_[number];
    if (home.begun.empty()) return false;
    const auto which = home.begun.begin() + static_cast<std::ptrdiff_t>(draw(home.begun.size()));
    const std::string session = *which;
    home.begun.erase(which);
    ClaimEffects effects;
    home.claims->started(session, effects);
    take(home, effects);
    return true;
  }

  void lose(std::uint32_t number) {
    Home& home = homes_[number];
    ClaimEffects effects;
    home.claims->close(effects);
    take(home, effects);
    REQUIRE(grants_.lost(home.life) == 0);
    begin(number);
  }

  void call(std::uint32_t number, const std::string& session) {
    const std::uint64_t id = next_++;
    open_.insert(id);
    ClaimEffects effects;
    homes_[number].claims->call(session, id, at(static_cast<int>(now_ + draw(40))), effects);
    take(homes_[number], effects);
  }

  void end(std::uint32_t number) {
    Home& home = homes_[number];
    const std::string session = any_session();
    if (home.claims->end(session) != SessionClaims::End::begins) return;
    if (draw(3) == 0) call(number, session);
    ClaimEffects effects;
    home.claims->ended(session, draw(4) != 0, effects);
    take(home, effects);
  }

  void step() {
    const auto number = static_cast<std::uint32_t>(draw(homes));
    ClaimEffects effects;
    switch (draw(12)) {
      case 0:
      case 1:
      case 2:
        return call(number, any_session());
      case 3:
      case 4:
        return (void)hear(number);
      case 5:
      case 6:
        return (void)answer(number);
      case 7:
      case 8:
        return (void)begun(number);
      case 9:
        return end(number);
      case 10:
        if (draw(2) == 0)
          homes_[number].claims->cancel(next_ - draw(std::min<std::uint64_t>(next_, 6)), effects);
        else
          homes_[number].claims->tick(at(static_cast<int>(++now_)), effects);
        return take(homes_[number], effects);
      default:
        if (draw(6) == 0) lose(number);
    }
  }

  SplitMix64 random_;
  const std::vector<std::string> sessions_{"amy", "bob", "eve"};
  SessionGrants grants_{homes, 100};
  Home homes_[homes];
  std::map<std::string, Origin> owners_;  // as the keeper should know them
  std::set<std::uint64_t> open_;          // calls that have not ended or started
  std::uint64_t next_ = 1, now_ = 0;
  int starts_ = 0, refusals_ = 0, warnings_ = 0;
};

}  // namespace

TEST_CASE("in any order of events a session is at one home, and each call starts in turn or ends") {
  int starts = 0, refusals = 0, warnings = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    Schedule schedule(seed);
    schedule.run(400);
    starts += schedule.starts();
    refusals += schedule.refusals();
    warnings += schedule.warnings();
  }
  CHECK(starts > 10'000);
  CHECK(refusals > 1'000);
  CHECK(warnings > 300);
}

}  // namespace sluice
