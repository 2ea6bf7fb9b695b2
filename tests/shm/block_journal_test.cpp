// Which blocks a pool gives under wishes made by chance, beside which it gave before: that the one
// that was freed last is used first, and the smallest that fits, is its promise.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "runtime/shm/block_pool.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;
using shm::BlockPool;

namespace {

std::string words(const wire::Handle& handle) {
  return std::to_string(handle.slab) + ' ' + std::to_string(handle.block) + ' ' +
         std::to_string(handle.generation);
}

std::vector<std::string> play(std::uint64_t seed, int steps) {
  SplitMix64 chance(seed);
  const auto pick = [&](std::uint64_t most) { return chance.next() % (most + 1); };
  BlockPool pool(2);
  pool.grow();
  std::vector<wire::Handle> owned, lent;
  std::vector<std::string> journal;
  const auto take = [&](std::vector<wire::Handle>& from) {
    const auto at = from.begin() + static_cast<std::ptrdiff_t>(pick(from.size() - 1));
    const wire::Handle handle = *at;
    from.erase(at);
    return handle;
  };
  const auto step = [&]() -> std::string {
    const shm::Reader reader = 1 + pick(2);
    switch (pick(7)) {
      case 0:
        if (!pool.may_grow() || pick(9) != 0) return "";
        pool.grow();
        return "grows to " + std::to_string(pool.slabs());
      case 1:
        if (owned.empty()) return "";
        lent.push_back(owned[pick(owned.size() - 1)]);
        pool.lend(lent.back(), reader);
        return std::to_string(reader) + " has " + words(lent.back());
      case 2: {
        if (lent.empty()) return "";
        const wire::Handle handle = take(lent);
        return pool.give_back(handle, reader) ? "back " + words(handle) : "no such reader";
      }
      case 3:
        if (owned.empty()) return "";
        pool.let_go(owned.back());
        owned.pop_back();
        return "let go";
      case 4: {
        if (pick(4) != 0) return "";
        std::string text = std::to_string(reader) + " is gone with";
        for (const wire::Handle& handle : pool.gone(reader)) text += ", " + words(handle);
        return text;
      }
      default: {
        const std::size_t size = (std::size_t{1} << (10 + pick(16))) + pick(2) - 1;
        const auto block = pool.acquire(size, 1 + pick(1));
        if (!block) return "no block of " + std::to_string(size);
        owned.push_back(*block);
        return words(*block) + " of " + std::to_string(pool.size_of(*block));
      }
    }
  };
  for (int i = 0; i < steps; ++i) {
    const std::string line = step();
    if (line.empty()) continue;
    std::string held;
    for (const shm::Reader reader : {1U, 2U, 3U})
      held += ' ' + std::to_string(pool.held_by(reader));
    journal.push_back(line + "; held" + held);
  }
  return journal;
}

}  // namespace

TEST_CASE("a pool gives the blocks that it gave before") {
  test::Outcomes outcomes("shm_blocks");
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {  // to be read
    const std::vector<std::string> journal = play(seed, 60);
    for (const std::string& line : journal) outcomes.add("chance " + std::to_string(seed), line);
  }
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    outcomes.add("digests", std::to_string(seed) + ": " + test::digest_of(play(seed, 300)));
  outcomes.require_as_kept();
}
