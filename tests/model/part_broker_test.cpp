// Who makes a part of a checkpoint for the processes of a machine, who waits, and who has it.
#include "engine/checkpoint/part_broker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <vector>

#include "base/random.h"

using namespace sluice;
using Kind = PartBroker::Effect::Kind;
using Effects = PartBroker::Effects;

namespace {

PartKey key_of(std::uint64_t n) {
  PartKey key{};
  key[0] = static_cast<std::uint8_t>(n);
  return key;
}
const PartKey text = key_of(1);

/// What the processes know that the broker speaks to.
struct World {
  struct Told {
    PartKey part{};
    bool makes = false, has = false;
    PartBroker::Ask waits_for = 0;
  };
  PartBroker broker;
  std::map<PartBroker::Ask, Told> asks;  // that have not ended
  std::set<PartKey> kept;                // memory that somebody has a descriptor of
  std::size_t made = 0, taken = 0, remade = 0;

  void perform(const Effects& effects) {
    for (const auto& effect : effects) {
      if (effect.kind == Kind::drop) {
        REQUIRE(kept.erase(effect.part) == 1);
        continue;
      }
      Told& told = asks.at(effect.ask);
      REQUIRE(told.part == effect.part);
      REQUIRE_FALSE((told.makes || told.has));  // one answer
      if (effect.kind == Kind::make) {
        if (told.waits_for != 0) ++remade;
        told.makes = true;
      }
      if (effect.kind == Kind::have) {
        REQUIRE(kept.contains(effect.part));
        told.has = true;
        ++taken;
      }
      if (effect.kind == Kind::wait) told.waits_for = effect.maker;
    }
  }
  /// Each part has one maker, or is there; who waits, waits for that one.
  void check() const {
    std::map<PartKey, PartBroker::Ask> makers;
    for (const auto& [ask, told] : asks)
      if (told.makes && !told.has) REQUIRE(makers.emplace(told.part, ask).second);
    for (const auto& [ask, told] : asks) {
      REQUIRE(kept.contains(told.part) != makers.contains(told.part));
      if (told.makes || told.has) continue;
      REQUIRE(makers.contains(told.part));  // nobody waits for what nobody makes, or what is there
      REQUIRE(told.waits_for == makers.at(told.part));
    }
    for (const PartKey& part : kept)
      REQUIRE(std::ranges::any_of(
          asks, [&](const auto& one) { return one.second.part == part && one.second.has; }));
    REQUIRE(broker.parts().size() == kept.size() + makers.size());
  }
};

}  // namespace

TEST_CASE(
    "the first process makes a part, those who asked meanwhile get it, and so do later ones") {
  PartBroker broker;
  Effects effects;
  broker.asks(1, text, effects);
  broker.asks(2, text, effects);
  broker.asks(3, key_of(2), effects);
  CHECK(effects ==
        Effects{{Kind::make, 1, 0, text}, {Kind::wait, 2, 1, text}, {Kind::make, 3, 0, key_of(2)}});
  effects.clear();
  CHECK_FALSE(broker.made(2, effects));
  CHECK_FALSE(broker.made(9, effects));
  CHECK(broker.made(1, effects));
  CHECK_FALSE(broker.made(1, effects));
  broker.asks(4, text, effects);
  CHECK(effects == Effects{{Kind::have, 2, 0, text}, {Kind::have, 4, 0, text}});
  effects.clear();
  broker.ends(1, effects);
  broker.ends(4, effects);
  CHECK(effects.empty());
  broker.ends(2, effects);
  CHECK(effects == Effects{{Kind::drop, 0, 0, text}});
}

TEST_CASE("when a part's maker ends the next who waits makes it, and the others hear of that") {
  PartBroker broker;
  Effects effects;
  for (const PartBroker::Ask ask : {1, 2, 3, 4}) broker.asks(ask, text, effects);
  effects.clear();
  broker.ends(3, effects);  // gave up
  CHECK(effects.empty());
  broker.ends(1, effects);
  CHECK(effects == Effects{{Kind::make, 2, 0, text}, {Kind::wait, 4, 2, text}});
  effects.clear();
  broker.ends(2, effects);
  broker.ends(4, effects);
  broker.ends(4, effects);
  CHECK(effects == Effects{{Kind::make, 4, 0, text}});
  CHECK(broker.parts().empty());
}

TEST_CASE("in any order of questions, makings and ends nobody waits for what nobody makes") {
  std::size_t taken = 0, remade = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SplitMix64 random(seed);
    World world;
    PartBroker::Ask next = 1;
    for (int step = 0; step < 200; ++step) {
      Effects effects;
      std::vector<PartBroker::Ask> there;
      for (const auto& [ask, told] : world.asks) there.push_back(ask);
      const std::uint64_t choice = random.next() % 10;
      if (there.empty() || choice < 4) {
        const PartKey part = key_of(random.next() % 3);
        world.asks[next].part = part;
        world.broker.asks(next++, part, effects);
      } else if (choice < 7) {
        const PartBroker::Ask ask = there[random.next() % there.size()];
        World::Told& told = world.asks.at(ask);
        const bool may = told.makes && !told.has;
        REQUIRE(world.broker.made(ask, effects) == may);
        if (may) {
          told.has = true;
          world.kept.insert(told.part);
        }
      } else {
        const PartBroker::Ask ask = there[random.next() % there.size()];
        world.asks.erase(ask);
        world.broker.ends(ask, effects);
      }
      world.perform(effects);
      world.check();
    }
    taken += world.taken;
    remade += world.remade;
  }
  CHECK(taken > 1'000);
  CHECK(remade > 500);
}
