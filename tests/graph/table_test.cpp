// Tables whose keys somebody else chooses.
#include "graph/table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

using namespace sluice;

namespace {

/// How many of the keys fall on the most crowded of 2^12 places.
template <typename Key>
std::size_t crowd(const std::vector<Key>& keys, Mix mix) {
  std::vector<std::size_t> places(1 << 12);
  std::size_t most = 0;
  for (const Key& key : keys) most = std::max(most, ++places[spread(key, mix) >> 52U]);
  return most;
}

/// The odd number by which `factor` gives 1.
std::uint64_t inverse(std::uint64_t factor) {
  std::uint64_t x = factor;
  for (int i = 0; i < 6; ++i) x *= 2 - factor * x;
  return x;
}

}  // namespace

TEST_CASE("names that fall together for one who knows the factors do not where those are drawn") {
  const Mix known;
  std::vector<ScopeId> scopes;
  std::vector<CallId> calls;
  std::vector<ScopeOfCall> pairs;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const std::uint64_t number = inverse(known.number) * i;  // its product is i: upper bits 0
    scopes.push_back({number, {1, 1}});
    calls.push_back({number, {1, 1}});
    pairs.push_back({{7, {1, 1}}, {inverse(known.call) * i, {1, 1}}});
  }
  CHECK(crowd(scopes, known) == 4096);
  CHECK(crowd(calls, known) == 4096);
  CHECK(crowd(pairs, known) == 4096);
  SplitMix64 random(5);
  for (int i = 0; i < 20; ++i) {
    const Mix drawn = drawn_mix(random);
    CHECK(crowd(scopes, drawn) < 64);
    CHECK(crowd(calls, drawn) < 64);
    CHECK(crowd(pairs, drawn) < 64);
  }
}

TEST_CASE("a number and a life that make up for each other are two names") {
  // As when a name was one sum: the number smaller, the incarnation larger.
  std::vector<ScopeId> scopes;
  for (std::uint32_t i = 0; i < 4096; ++i)
    scopes.push_back({(std::uint64_t{4096 - i} << 20U), {3, 1 + i}});
  SplitMix64 random(6);
  CHECK(crowd(scopes, Mix()) < 64);
  for (int i = 0; i < 20; ++i) CHECK(crowd(scopes, drawn_mix(random)) < 64);
}

TEST_CASE("a table keeps what it is given under any factors") {
  SplitMix64 random(7);
  for (int round = 0; round < 10; ++round) {
    Table<int, ScopeId> table(drawn_mix(random));
    for (std::uint32_t i = 0; i < 1000; ++i) table[{i, {i % 7, 1}}] = static_cast<int>(i);
    for (std::uint32_t i = 0; i < 1000; i += 2) table.erase({i, {i % 7, 1}});
    CHECK(table.size() == 500);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const int* found = table.find({i, {i % 7, 1}});
      CHECK((i % 2 == 0 ? found == nullptr : found != nullptr && *found == static_cast<int>(i)));
    }
  }
}
