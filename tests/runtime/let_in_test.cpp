// Who has to let a machine's life in.
#include "runtime/let_in.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "base/random.h"

namespace sluice {

TEST_CASE("a life is in once the keeper and each home that is there have let it in") {
  const auto after = [](const std::string& words) {
    LetIn let_in({false, true, true});
    bool entered = false;
    for (const char word : words) {
      if (word == 'k') let_in.by_keeper();
      if (word == 'j') let_in.joined({1, 5});
      if (word == 'w') let_in.by_home({1, 5});
      if (word == 'o') let_in.by_home({1, 4});  // an earlier life
      if (word == 'l') let_in.lost({1, 5});
      if (word == 'm') let_in.joined({0, 5});  // no home
      entered = let_in.enters() || entered;
    }
    CHECK(entered == let_in.is_in());
    return entered;
  };
  CHECK(!after(""));
  CHECK(after("k"));
  CHECK(after("mk"));
  CHECK(!after("w"));
  CHECK(!after("jk"));
  CHECK(!after("jko"));
  CHECK(after("jkw"));
  CHECK(after("wjk"));
  CHECK(after("jkl"));
  CHECK(after("kj"));  // it was in before that home was there
}

TEST_CASE("whatever order words come in, a life enters once, and as soon as nobody is missing") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SplitMix64 random(seed);
    LetIn let_in({true, true, false, true});
    std::map<std::uint32_t, std::uint32_t> there;
    std::set<Origin> spoke;
    bool keeper = false, entered = false;
    for (int i = 0; i < 40; ++i) {
      const Origin life{static_cast<std::uint32_t>(random.next() % 5),
                        static_cast<std::uint32_t>(1 + random.next() % 3)};
      const bool is_home = life.machine < 4 && life.machine != 2;
      switch (random.next() % 8) {
        case 0:
          keeper = true;
          let_in.by_keeper();
          break;
        case 1:
        case 2:  // lives only grow
          if (const auto at = there.find(life.machine);
              at != there.end() && at->second > life.incarnation)
            break;
          if (is_home) there[life.machine] = life.incarnation;
          let_in.joined(life);
          break;
        case 3:
          if (const auto at = there.find(life.machine);
              at != there.end() && at->second <= life.incarnation)
            there.erase(at);
          let_in.lost(life);
          break;
        default:
          spoke.insert(life);
          let_in.by_home(life);
      }
      const bool complete = keeper && std::ranges::all_of(there, [&](const auto& home) {
                              return std::ranges::any_of(spoke, [&](Origin by) {
                                return by.machine == home.first && by.incarnation >= home.second;
                              });
                            });
      const bool enters = let_in.enters();
      CHECK(enters == (complete && !entered));
      entered = entered || enters;
      CHECK(let_in.is_in() == entered);
    }
  }
}

}  // namespace sluice
