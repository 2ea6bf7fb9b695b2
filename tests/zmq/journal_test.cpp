// Both sides of a link in every state that stories and chance lead to: each effect with its time,
// beside what it was when somebody last read it.
#include "tests/journal.h"

#include <catch2/catch.hpp>

#include "base/random.h"
#include "runtime/zmq/parcel.h"
#include "runtime/zmq/peer.h"
#include "tests/outcomes.h"
#include "tests/zmq/pair.h"

using namespace sluice;
using namespace sluice::testing;
using namespace std::chrono_literals;

namespace {

using Journal = std::vector<std::string>;

/// What both sides show of themselves after a step.
std::string shown(Pair& pair) {
  std::string text = "  after it";
  for (const unsigned machine : {1U, 2U}) {
    const links::Peer& peer = pair.peer(machine);
    const LinkState state = peer.state(pair.now());
    const auto due = peer.due() == links::Instant::max() ? -1 : (peer.due() - pair.now()).count();
    text += " | " + std::to_string(state.life.incarnation) + (state.connected ? " up" : " away") +
            (state.ended ? " ended" : "") + ", heard " + std::to_string(state.heard.count()) +
            ", owed " + std::to_string(state.owed_bytes) + ", due in " + std::to_string(due) +
            (peer.idle()      ? ", idle"
             : peer.drained() ? ", drained"
                              : "");
  }
  return text;
}

/// A parcel as a machine that keeps to nothing would send it.
links::Head any_head(SplitMix64& chance, Pair& pair, unsigned to) {
  const auto pick = [&](std::uint64_t most) { return chance.next() % (most + 1); };
  const auto rarely = [&] { return pick(7) == 0; };
  const auto other = static_cast<std::uint32_t>(3 - to);
  const std::uint32_t known = pair.peer(to).state(pair.now()).life.incarnation;
  const auto life = static_cast<std::uint32_t>(rarely() ? pick(4) : std::max(known, 1U));
  links::Hello hello;
  hello.from = {rarely() ? 9 : other, life};
  hello.to = rarely() ? 9 : to;
  hello.lease_ms = rarely() ? 2999 : 3000;
  hello.cluster = rarely() ? "another" : "pair";
  if (rarely()) hello.workflow[0] = std::byte{1};
  hello.knows = static_cast<std::uint32_t>(pick(2));
  hello.applied = pick(3);
  hello.over = static_cast<std::uint32_t>(rarely() ? pick(3) : 0);
  hello.nonce = pick(9);
  switch (pick(7)) {
    case 0:
      return hello;
    case 1:
      return links::Welcome{hello, pick(9)};
    case 2:
      return links::Ready{pick(9), static_cast<std::uint32_t>(pick(2)), pick(3)};
    case 3:
      return links::Refusal{static_cast<links::Reason>(1 + pick(10)), hello.from, hello.over, "no"};
    case 4:
      return links::Batch{pick(6), pick(3)};
    case 5:
      return links::Part{pick(6), pick(3), Channel::message, 10 + pick(1), pick(1) * 5};
    case 6:
      return links::Heartbeat{pick(3)};
    default:
      return links::OtherVersion{3};
  }
}

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : chance_(seed), pair_(std::size_t{2} << 20U) {
    pair_.journal = &journal_;
    pair_.start();
  }

  Journal play(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      journal_.push_back(shown(pair_));
    }
    return journal_;
  }

 private:
  std::uint64_t pick(std::uint64_t most) { return chance_.next() % (most + 1); }
  void send(unsigned who) {
    constexpr std::array<std::size_t, 8> sizes{0,         1,         16383,     16384,
                                               1'064'960, 1'064'961, 2'600'000, 40'000};
    const std::size_t size = sizes[pick(sizes.size() - 1)];
    const std::uint64_t times = size == 1 ? 1 + pick(200) : 1;
    for (std::uint64_t i = 0; i < times; ++i) {
      pair_.send(who, lives_[3 - who], std::string(size, 'x'));
      if (pick(1) == 0) pair_.flush(who);
    }
  }
  void inject(unsigned who) {
    const links::Head head = any_head(chance_, pair_, who);
    pair_.inject(who, head, pick(1) == 0 ? std::string() : std::string("\0\1x", 3));
  }
  void step() {
    const auto who = static_cast<unsigned>(1 + pick(1));
    switch (pick(19)) {
      case 0:
        return pair_.cut();
      case 1:
        return pick(1) == 0 ? pair_.freeze() : pair_.heal();
      case 2:
        return pick(2) == 0 ? pair_.restart(who, ++lives_[who]) : pair_.heal();
      case 3:
        return pick(2) == 0 ? pair_.refuse(who, lives_[3 - who]) : pair_.heal();
      case 4:
        return pick(3) == 0 ? pair_.inject_nonsense(who) : pair_.acknowledge(who);
      case 5:
        return pick(2) == 0 ? inject(who) : pair_.flush(who);
      case 6:
        return pair_.skip(links::Instant(static_cast<std::int64_t>(pick(4'000'000'000))));
      case 7:
        return pair_.advance(links::Instant(static_cast<std::int64_t>(pick(1'000'000'000))));
      case 8:
        return pair_.skip(links::Instant(static_cast<std::int64_t>(pick(6'000'000))));
      case 9:
      case 10:
      case 11:
        return send(who);
      default:
        for (std::uint64_t most = pick(40); most > 0 && pair_.carry();) --most;
    }
  }

  SplitMix64 chance_;
  Pair pair_;
  Journal journal_;
  std::array<std::uint32_t, 3> lives_{0, 1, 1};
};

}  // namespace

TEST_CASE("what both sides of a link do at each event is what they did before") {
  test::Outcomes outcomes("link_journal");
  for (std::uint64_t seed = 1; seed <= 4; ++seed)  // to be read
    for (const std::string& line : Chance(seed).play(40))
      outcomes.add("chance " + std::to_string(seed), line);
  for (std::uint64_t seed = 1; seed <= 400; ++seed)
    outcomes.add("digests", std::to_string(seed) + ": " + test::digest_of(Chance(seed).play(100)));
  outcomes.require_as_kept();
}
