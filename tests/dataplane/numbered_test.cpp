#include "dataplane/numbered.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"

using namespace sluice;

TEST_CASE("what is under way is found by its number alone, and no number is given out twice") {
  Numbered<int> numbered;
  std::map<std::uint64_t, int> model;  // under way
  std::vector<std::uint64_t> all;      // ever
  SplitMix64 random{5};
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t what = random.next() % 8;
    if (what < 4) {
      const std::uint64_t number = numbered.add(step);
      REQUIRE(number != 0);
      REQUIRE(std::ranges::find(all, number) == all.end());
      if (all.size() < 500) all.push_back(number);
      model[number] = step;
    } else if (what < 7 && !all.empty()) {
      const std::uint64_t number = all[random.next() % all.size()];
      const auto it = model.find(number);
      const int* const found = numbered.find(number);
      REQUIRE((found != nullptr) == (it != model.end()));
      if (found != nullptr) REQUIRE(*found == it->second);
      REQUIRE(numbered.take(number).has_value() == (it != model.end()));
      if (it != model.end()) model.erase(it);
    } else if (random.next() % 64 == 0) {
      const auto is_odd = [](int value) { return value % 2 != 0; };
      numbered.erase_if(is_odd);
      std::erase_if(model, [&](const auto& one) { return is_odd(one.second); });
    }
    if (model.size() > 100) {
      numbered.clear();
      model.clear();
    }
    REQUIRE(numbered.empty() == model.empty());
    const auto is_even = [](int value) { return value % 2 == 0; };
    REQUIRE(numbered.any_of(is_even) == std::ranges::any_of(model, [&](const auto& one) {
              return is_even(one.second);
            }));
  }
  CHECK(numbered.find(0) == nullptr);
  CHECK(numbered.take(std::uint64_t{1} << 40U) == std::nullopt);
}

TEST_CASE("a place is taken again, so there are as many as were under way at once") {
  Numbered<std::string> numbered;
  std::uint64_t before = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t number = numbered.add("x");
    CHECK(number % (std::uint64_t{1} << 32U) == 0);  // the first place
    CHECK(number != before);
    CHECK(numbered.take(number) == "x");
    CHECK_FALSE(numbered.take(number));
    before = number;
  }
}
