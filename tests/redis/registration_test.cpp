// One machine's entry in the registry: what is asked, what answers mean, and what faults do.
#include "runtime/registry/registration.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "base/random.h"
#include "runtime/registry/scripts.h"

namespace sluice {

namespace {

using namespace std::chrono_literals;
using Instant = Registration::Instant;
using Kind = RegistryStanding::Kind;
using Words = std::vector<std::string>;

RegistrationSettings settings(const std::string& machine, const std::string& token,
                              const std::string& workflow = "abcdef0123", std::uint32_t least = 5) {
  return {"laptop", machine, token, workflow, least, 1000ms};
}

/// What the scripts do, in memory. `tests/redis/server_test.cpp` asks a real server the same.
class Model {
 public:
  Words answer(const Words& question, Instant now) {
    const bool enters = question[1] == registry::enter;
    REQUIRE((enters || question[1] == registry::renew));
    const std::string &name = question[6], &token = question[7], &workflow = question[9];
    const auto wanted = static_cast<std::uint32_t>(std::stoul(question[8]));
    const auto lease = std::chrono::milliseconds(std::stol(question[10]));
    const auto found = lives_.find(name);
    if (!enters) {
      if (epoch_ != question[11] || found == lives_.end()) return {"replaced"};
      if (found->second.token != token)
        return {"fenced", std::to_string(found->second.incarnation)};
    } else {
      for (const auto& [other, life] : lives_) {
        if (life.until <= now) continue;
        if (other == name && life.token != token)
          return {"held", std::to_string(life.incarnation), "1"};
        if (other != name && life.workflow != workflow) return {"differs", other, life.workflow};
      }
      if (epoch_.empty()) epoch_ = question[11] + "@", began_ = now;
      const Instant young = began_ + std::chrono::milliseconds(std::stol(question[13])) - now;
      if (question[12] == "new" && young > 0ms) return {"young", "1"};
    }
    Life& life = lives_[name];
    life.incarnation =
        std::max(wanted, life.token == token ? life.incarnation : life.incarnation + 1);
    life = {life.incarnation, token, workflow, now + lease};
    Words words{"ok", epoch_, std::to_string(life.incarnation)};
    for (const auto& [other, known] : lives_)
      if (known.until > now) words.push_back(other);
    return words;
  }
  void empty() {
    lives_.clear();
    epoch_.clear();
  }

 private:
  struct Life {
    std::uint32_t incarnation = 0;
    std::string token, workflow;
    Instant until{};
  };
  std::map<std::string, Life> lives_;
  std::string epoch_;
  Instant began_{};
};

/// Asks what is due, and answers at once.
void turn(Registration& entry, Model& model, Instant now) {
  if (const auto question = entry.ask(now))
    entry.answered(question->number, model.answer(question->words, now), now);
}

}  // namespace

TEST_CASE("an entry holds for a lease from when the question left, and is renewed") {
  Model model;
  Registration entry(settings("eyes", "t1"));
  CHECK(entry.standing(0ms).kind == Kind::joining);
  const auto question = entry.ask(0ms);
  REQUIRE(question);
  CHECK_FALSE(entry.ask(100ms));  // one at a time
  entry.answered(question->number, model.answer(question->words, 100ms), 200ms);
  CHECK(entry.standing(999ms).kind == Kind::current);
  CHECK(entry.standing(1000ms).kind == Kind::lapsed);
  CHECK(entry.incarnation() == 5);
  CHECK(entry.present() == Words{"eyes"});
  CHECK(entry.due() == 450ms);
  turn(entry, model, 450ms);
  CHECK(entry.standing(1449ms).kind == Kind::current);
}

TEST_CASE("a name is refused while another process holds it, then given in a later life") {
  Model model;
  Registration first(settings("eyes", "t1")), second(settings("eyes", "t2"));
  turn(first, model, 0ms);
  turn(second, model, 1ms);
  CHECK(second.standing(1ms).kind == Kind::joining);
  CHECK(second.standing(1ms).why.find("another process is machine 'eyes', in life 5") == 0);
  turn(second, model, 1001ms);  // the first has fallen silent
  CHECK(second.standing(1001ms).kind == Kind::current);
  CHECK(second.incarnation() == 6);
  turn(first, model, 1002ms);
  CHECK(first.standing(1002ms).kind == Kind::fenced);
  CHECK(first.standing(1002ms).why.find("another process has become machine 'eyes', in life 6") ==
        0);
  CHECK_FALSE(first.ask(9000ms));  // for good
}

TEST_CASE("processes with other workflows are refused, and both are named") {
  Model model;
  Registration front(settings("front", "t1", "aaaaaaaaaa")),
      eyes(settings("eyes", "t2", "bbbbbbbbbb"));
  turn(front, model, 0ms);
  turn(eyes, model, 0ms);
  CHECK(eyes.standing(0ms).why ==
        "machine 'front' has other workflows, plugins, overrides or places: digest aaaaaaaa..., "
        "machine "
        "'eyes' has bbbbbbbb...; there both are cluster 'laptop', by the name of the cluster "
        "file: give another cluster's file another name");
  turn(eyes, model, 1000ms);  // the other is gone
  CHECK(eyes.standing(1000ms).kind == Kind::current);
}

TEST_CASE("a registry that is away or emptied fences nobody, and keeps the incarnation") {
  Model model;
  Registration entry(settings("eyes", "t1"));
  turn(entry, model, 0ms);
  REQUIRE(entry.ask(300ms));
  entry.broke("it closed the connection", 310ms);
  CHECK(entry.standing(999ms).kind == Kind::current);
  CHECK(entry.standing(1000ms).kind == Kind::lapsed);
  CHECK(entry.standing(1000ms).why == "it closed the connection");
  model.empty();
  turn(entry, model, 2000ms);  // replaced
  CHECK(entry.standing(2000ms).kind == Kind::lapsed);
  turn(entry, model, 2000ms);
  CHECK(entry.standing(2000ms).kind == Kind::current);
  CHECK(entry.incarnation() == 5);
}

TEST_CASE("a process that another followed while the registry was away is fenced") {
  Model model;
  Registration first(settings("eyes", "t1"));
  turn(first, model, 0ms);
  model.empty();
  Registration second(settings("eyes", "t2"));
  turn(second, model, 100ms);
  turn(first, model, 300ms);  // replaced
  turn(first, model, 300ms);  // held by the second
  CHECK(first.standing(300ms).kind == Kind::fenced);
}

TEST_CASE("a registry that was emptied lets who lives in before a process that waits") {
  for (const auto young : {1000ms, 0ms}) {
    Model model;
    RegistrationSettings first_settings = settings("eyes", "t1");
    RegistrationSettings second_settings = settings("eyes", "t2");
    first_settings.young = second_settings.young = young;
    Registration first(first_settings), second(second_settings);
    turn(first, model, 0ms);
    const bool held = young > 0ms;
    CHECK((first.standing(0ms).kind == Kind::joining) == held);
    turn(first, model, 1000ms);  // a new one waits, too
    turn(first, model, 1250ms);
    REQUIRE(first.standing(1250ms).kind == Kind::current);
    turn(second, model, 1260ms);
    model.empty();
    turn(second, model, 1510ms);  // asks before the first does
    turn(first, model, 1520ms);   // `replaced`
    turn(first, model, 1520ms);
    CHECK(first.standing(1520ms).kind == (held ? Kind::current : Kind::fenced));
    if (!held) continue;
    CHECK(second.standing(1520ms).why.find("it is new or was emptied") == 0);
    CHECK(first.incarnation() == 5);
    turn(second, model, 1770ms);
    CHECK(second.standing(1770ms).why.find("another process is machine 'eyes'") == 0);
    turn(second, model, 2600ms);  // the first has fallen silent
    CHECK(second.standing(2600ms).kind == Kind::current);
    CHECK(second.incarnation() == 6);
  }
}

TEST_CASE("a later life in place keeps the entry") {
  Model model;
  Registration entry(settings("eyes", "t1"));
  turn(entry, model, 0ms);
  const auto question = entry.ask(250ms);
  entry.raise(9);  // while a question is open
  entry.answered(question->number, model.answer(question->words, 250ms), 260ms);
  CHECK(entry.standing(260ms).kind == Kind::current);
  CHECK(entry.incarnation() == 9);
  turn(entry, model, 600ms);
  Registration next(settings("eyes", "t2"));
  turn(next, model, 1600ms);
  CHECK(next.incarnation() == 10);
}

TEST_CASE("answers that make no sense, come late or come twice change nothing") {
  const std::vector<Words> wrong{{},
                                 {"ok"},
                                 {"ok", "e", "4", "eyes"},  // below what was wanted
                                 {"ok", "e", "5"},          // not there itself
                                 {"ok", "", "5", "eyes"},   // no epoch
                                 {"ok", "e", "-5", "eyes"},
                                 {"ok", "e", "99999999999", "eyes"},
                                 {"fenced", "7"},  // before it was in
                                 {"replaced"},
                                 {"held", "7"},
                                 {"nonsense", "\x1b[2J"}};
  for (const Words& words : wrong) {
    Registration entry(settings("eyes", "t1"));
    entry.answered(entry.ask(0ms)->number, words, 0ms);
    CHECK(entry.standing(0ms).kind == Kind::joining);
    CHECK(entry.standing(0ms).why == "its answer makes no sense");
    CHECK(entry.due() == 250ms);
  }
  Words many{"ok", "e", "5", "eyes"};
  many.resize(400, "eyes");
  Registration entry(settings("eyes", "t1"));
  entry.answered(entry.ask(0ms)->number, many, 0ms);
  CHECK(entry.standing(0ms).kind == Kind::joining);

  const auto late = entry.ask(250ms);
  entry.broke("it does not answer", 500ms);
  entry.answered(late->number, {"ok", "e", "5", "eyes"}, 501ms);
  CHECK(entry.standing(501ms).kind == Kind::joining);
  const auto question = entry.ask(600ms);
  REQUIRE(question);
  entry.answered(late->number, {"ok", "e", "6", "eyes"}, 601ms);
  CHECK(entry.standing(601ms).kind == Kind::joining);
  entry.answered(question->number, {"ok", "e", "5", "eyes"}, 602ms);
  entry.answered(question->number, {"fenced", "6"}, 603ms);
  CHECK(entry.standing(603ms).kind == Kind::current);
  CHECK(printable("a\x1b[2J\nb") == "a?[2J?b");
}

TEST_CASE("whatever is lost, late or said twice, one process at a time is a machine") {
  std::size_t currents = 0, fenced = 0, faults = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SplitMix64 random(seed);
    const auto below = [&](std::uint64_t most) { return random.next() % most; };
    Model model;
    std::vector<std::unique_ptr<Registration>> entries;
    struct Answer {
      std::size_t to;
      std::uint64_t number;
      Words words;
    };
    std::deque<Answer> answers;
    std::map<std::uint32_t, std::size_t> given;  // incarnation -> process
    std::map<std::size_t, Instant> stands_still;
    Instant now{};
    for (int step = 0; step < 400; ++step) {
      now += std::chrono::milliseconds(below(60));
      if (entries.size() < 6 && below(40) == 0)
        entries.push_back(
            std::make_unique<Registration>(settings("eyes", "t" + std::to_string(entries.size()))));
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (below(150) == 0) stands_still[i] = now + std::chrono::milliseconds(below(4000));
        if (now < stands_still[i]) continue;
        if (const auto question = entries[i]->ask(now)) {
          const bool lost = below(6) == 0;
          faults += lost;
          if (lost && below(2) == 0) continue;  // on its way there
          Answer answer{i, question->number, model.answer(question->words, now)};
          if (!lost) answers.push_back(answer);
          if (below(4) == 0) answers.push_back(std::move(answer));  // twice
        } else if (now >= entries[i]->due()) {
          entries[i]->broke("it does not answer", now);
          ++faults;
        }
      }
      while (!answers.empty() && below(3) != 0) {  // the others come later
        const Answer answer = answers.front();
        answers.pop_front();
        entries[answer.to]->answered(answer.number, answer.words, now);
      }
      std::size_t holders = 0;
      for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i]->standing(now).kind != Kind::current) continue;
        ++holders;
        const auto [known, is_new] = given.emplace(entries[i]->incarnation(), i);
        REQUIRE((is_new || known->second == i));  // no incarnation is given twice
      }
      REQUIRE(holders <= 1);
      currents += holders;
    }
    for (const auto& entry : entries) fenced += entry->standing(now).kind == Kind::fenced;
  }
  INFO(currents << " steps with a holder, " << fenced << " fenced, " << faults << " faults");
  CHECK(currents > 10'000);
  CHECK(fenced > 100);
  CHECK(faults > 10'000);
}

}  // namespace sluice
