// An entry in the registry under answers, times and breaks made by chance: what is asked and where
// it stands after each, beside what it was.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "runtime/registry/registration.h"
#include "runtime/registry/scripts.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

using Words = std::vector<std::string>;

class Chance {
 public:
  explicit Chance(std::uint64_t seed)
      : chance_(seed), entry_({"lab", "eyes", "token", "abcdef0123", 5, 1000ms, 300ms}) {}

  std::vector<std::string> play(int steps) {
    for (int i = 0; i < steps; ++i) {
      journal_.push_back(step());
      journal_.push_back(shown());
    }
    return journal_;
  }

 private:
  std::uint64_t pick(std::uint64_t most) { return chance_.next() % (most + 1); }

  std::string ask() {
    const auto question = entry_.ask(now_);
    if (!question) return "asks nothing";
    number_ = question->number;
    std::string text = "asks " + std::to_string(number_);
    for (const std::string& word : question->words)
      text += ' ' + (word == registry::enter ? "ENTER" : word == registry::renew ? "RENEW" : word);
    return text;
  }
  Words answer() {
    const std::string life = std::to_string(3 + pick(5));
    switch (pick(29)) {
      case 0:
        return {"replaced"};
      case 1:
        return {"fenced", life};
      case 2:
        return {"held", life, "77"};
      case 3:
        return {"young", "12\x1b"};
      case 4:
        return {"differs", "paint", "0123456789abcdef"};
      case 5:
        return {"ok", pick(1) == 0 ? "" : "epoch", pick(1) == 0 ? life + "x" : life, "eyes"};
      case 6:
        return {"ok", "epoch", life, "paint"};
      case 7: {
        Words words{"ok", "epoch", std::to_string(std::max(entry_.incarnation(), 5U)), "eyes"};
        words.resize(3 + 256 + pick(1), "eyes");
        return words;
      }
      case 8: {
        Words words{"replaced", "fenced", "held", "young", "differs", "ok", ""};
        const std::size_t count = 1 + pick(4);
        return Words(count, words[pick(words.size() - 1)]);
      }
      case 9:
        return {};
      default:
        return {"ok", "epoch" + std::to_string(pick(1)),
                std::to_string(std::max(entry_.incarnation(), 5U)), "arm", "eyes"};
    }
  }
  std::string hear() {
    const std::uint64_t number = number_ + (pick(7) == 0 ? 1 : 0);
    const Words words = answer();
    entry_.answered(number, words, now_);
    std::string text = "hears " + std::to_string(number);
    for (std::size_t i = 0; i < std::min<std::size_t>(words.size(), 6); ++i) text += ' ' + words[i];
    return text;
  }
  std::string rare() {
    switch (pick(3)) {
      case 0:
        entry_.broke("the wire is cut", now_);
        return "breaks";
      case 1: {
        const auto life = static_cast<std::uint32_t>(4 + pick(4));
        entry_.raise(life);
        return "raises " + std::to_string(life);
      }
      case 2:
        now_ = std::max(now_, entry_.due()) - 1ns;
        return ask();
      default:
        now_ += std::chrono::milliseconds(pick(700));
        return "waits";
    }
  }
  std::string step() {
    if (pick(5) == 0) return rare();
    if (pick(1) == 0) return hear();
    now_ = std::max(now_, entry_.due());
    return ask();
  }
  std::string shown() {
    const auto words = [](const RegistryStanding& standing) {
      return std::to_string(static_cast<int>(standing.kind)) + ' ' + standing.why;
    };
    std::string text = "  life " + std::to_string(entry_.incarnation()) + ", due in " +
                       std::to_string((entry_.due() - now_).count()) + ", " +
                       words(entry_.standing(now_));
    for (const auto later : {249ms, 250ms, 999ms, 1000ms})
      text += " | " + std::to_string(static_cast<int>(entry_.standing(now_ + later).kind));
    for (const std::string& machine : entry_.present()) text += ' ' + machine;
    return text;
  }

  SplitMix64 chance_;
  Registration entry_;
  Registration::Instant now_{1'000'000'000};
  std::uint64_t number_ = 0;
  std::vector<std::string> journal_;
};

}  // namespace

TEST_CASE("what an entry asks and where it stands at each event is what it was before") {
  test::Outcomes outcomes("registry_journal");
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {  // to be read
    const std::vector<std::string> journal = Chance(seed).play(40);
    for (const std::string& line : journal) outcomes.add("chance " + std::to_string(seed), line);
  }
  for (std::uint64_t seed = 1; seed <= 300; ++seed)
    outcomes.add("digests", std::to_string(seed) + ": " + test::digest_of(Chance(seed).play(80)));
  const Registration entry({"lab", "eyes", "token", "abcdef0123", 5, 1000ms, 300ms});
  std::string farewell;
  for (const std::string& word : entry.farewell())
    farewell += ' ' + (word == registry::leave ? "LEAVE" : word);
  outcomes.add("farewell", farewell + ", patience " + std::to_string(entry.patience().count()));
  for (const std::size_t size : {199U, 200U, 201U})
    outcomes.add("shown", std::to_string(printable(std::string(size, 'x')).size()));
  outcomes.add("shown", printable("a\x1f \x7e\x7f\x80z"));
  outcomes.require_as_kept();
}
