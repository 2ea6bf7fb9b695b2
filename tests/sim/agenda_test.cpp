// The agenda: the order of a heap of all events, whatever is added while it is taken from.
#include "runtime/sim/agenda.h"

#include <catch2/catch.hpp>
#include <queue>

#include "base/random.h"

using namespace sluice;
using namespace std::chrono_literals;

namespace {

struct Later {
  bool operator()(const sim::Event& a, const sim::Event& b) const {
    return a.at != b.at ? a.at > b.at : a.tie > b.tie;
  }
};
using Reference = std::priority_queue<sim::Event, std::vector<sim::Event>, Later>;

/// Takes everything from both; each event taken may bring others, as `more` says.
template <typename More>
std::size_t differences(sim::Agenda& agenda, Reference& reference, More more) {
  std::size_t different = 0;
  while (!reference.empty()) {
    REQUIRE_FALSE(agenda.empty());
    const sim::Event event = agenda.next();
    different += event.at != reference.top().at || event.tie != reference.top().tie ? 1 : 0;
    reference.pop();
    more(event);
  }
  CHECK(agenda.empty());
  return different;
}

}  // namespace

TEST_CASE("the agenda gives events by time, and by tie where the time is the same") {
  // Thousands at one moment, bursts within a millisecond, some days and years away.
  const std::chrono::nanoseconds widths[] = {0ns, 1ns, 1ms, 10s, 24h, 24h * 36500};
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SplitMix64 random(seed);
    sim::Agenda agenda;
    Reference reference;
    std::uint64_t ties = 1 << 20;
    const auto add = [&](Instant at, std::uint64_t tie) {
      sim::Event event;
      event.at = at;
      event.tie = tie;
      agenda.add(event);
      reference.push(event);
    };
    for (int i = 0; i < 6000; ++i) add(Instant{}, ++ties);
    std::size_t left = 60'000;
    CHECK(differences(agenda, reference, [&](const sim::Event& event) {
            for (std::uint64_t i = random.next() % 4; i > 0 && left > 0; --i, --left) {
              const auto width = static_cast<double>(widths[random.next() % 6].count());
              const Instant at =
                  event.at + Instant(static_cast<Instant::rep>(width * random.uniform() / 1000));
              // Sometimes before all that is there already at this time.
              add(at, random.next() % 8 == 0 ? random.next() % 1000 : ++ties);
            }
          }) == 0);
  }
}

namespace {

/// The agenda and the reference, with two events far apart.
struct Both {
  Both() {
    add(1s);
    add(1100ms);
  }
  void add(Instant at) {
    sim::Event event;
    event.at = at;
    event.tie = ++tie;
    agenda.add(event);
    reference.push(event);
  }

  sim::Agenda agenda;
  Reference reference;
  std::uint64_t tie = 0;
};

}  // namespace

TEST_CASE("the agenda keeps the order when bursts come each before the one before") {
  Both both;
  CHECK(differences(both.agenda, both.reference, [&](const sim::Event& event) {
          if (event.at != 1s) return;
          for (int i = 0; i < 5000; ++i) both.add(1s + 200us - 20ns * i);
          for (int i = 0; i < 5000; ++i) both.add(1s + 1us + 19ns * i);
        }) == 0);
}

TEST_CASE("the agenda keeps the order when a burst comes behind a wide bucket") {
  Both both;
  SplitMix64 random(3);
  CHECK(differences(both.agenda, both.reference, [&](const sim::Event& event) {
          if (event.at == 1s)
            for (int i = 0; i < 50'000; ++i)
              both.add(1s + Instant(static_cast<Instant::rep>(random.next() % 2'000'000)));
        }) == 0);
}
