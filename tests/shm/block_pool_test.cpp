// The pool beside a model that knows every block, under many orders of events.
#include "runtime/shm/block_pool.h"

#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <set>

#include "base/random.h"

using namespace sluice;
using namespace sluice::shm;

namespace {

constexpr std::size_t unit = BlockPool::unit_bytes;

void check_totals(const BlockPool& pool) {
  const BlockPool::Totals totals = pool.totals();
  CHECK(totals.free + totals.used + totals.quarantined == totals.capacity);
  CHECK(totals.capacity == pool.slabs() * BlockPool::slab_bytes);
}

/// What the pool should know, kept block by block.
struct Model {
  struct Block {
    std::size_t size = 0;
    bool owned = true;
    std::map<Reader, unsigned> readers;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<wire::Handle, Block>> blocks;
  std::set<Reader> suspected;

  void clean() {
    std::erase_if(blocks, [](const auto& entry) {
      return !entry.second.second.owned && entry.second.second.readers.empty();
    });
  }
  std::size_t bytes(bool quarantined) const {
    std::size_t bytes = 0;
    for (const auto& [place, entry] : blocks) {
      bool all = !entry.second.owned;
      for (const auto& [reader, times] : entry.second.readers)
        all = all && suspected.contains(reader);
      if (all == quarantined) bytes += entry.second.size;
    }
    return bytes;
  }
};

}  // namespace

TEST_CASE("a pool without a slab has nothing, and grows to its limit") {
  BlockPool pool(2);
  CHECK_FALSE(pool.acquire(1, 2));
  pool.grow();
  CHECK(pool.may_grow());
  pool.grow();
  CHECK_FALSE(pool.may_grow());
  check_totals(pool);
  CHECK(pool.totals().free == 2 * BlockPool::slab_bytes);
}

TEST_CASE("a block is a power of two of units, from one to a slab") {
  BlockPool pool(1);
  pool.grow();
  CHECK_FALSE(pool.acquire(0, 1));
  CHECK_FALSE(pool.acquire(BlockPool::slab_bytes + 1, 1));
  const auto [size, whole] =
      GENERATE(table<std::size_t, std::size_t>({{1, unit},
                                                {unit, unit},
                                                {unit + 1, 2 * unit},
                                                {3 * unit, 4 * unit},
                                                {4 * unit + 1, 8 * unit},
                                                {BlockPool::slab_bytes, BlockPool::slab_bytes}}));
  const std::optional<wire::Handle> block = pool.acquire(size, 1);
  REQUIRE(block);
  CHECK(pool.size_of(*block) == whole);
  CHECK(pool.totals().used == whole);
  pool.let_go(*block);
  CHECK(pool.totals().free == BlockPool::slab_bytes);
  CHECK(pool.acquire(BlockPool::slab_bytes, 1));  // all halves have joined
}

TEST_CASE("a block is used again only when the owner and every reader have let go of it") {
  BlockPool pool(1);
  pool.grow();
  const wire::Handle block = pool.acquire(BlockPool::slab_bytes, 1).value();
  pool.lend(block, 1);
  pool.lend(block, 1);
  pool.lend(block, 2);
  pool.let_go(block);
  CHECK_FALSE(pool.acquire(1, 1));
  CHECK(pool.give_back(block, 1));
  CHECK(pool.give_back(block, 2));
  CHECK_FALSE(pool.give_back(block, 2));
  CHECK_FALSE(pool.give_back(block, 3));
  CHECK_FALSE(pool.acquire(1, 1));
  CHECK(pool.held_by(1) == BlockPool::slab_bytes);
  CHECK(pool.give_back(block, 1));
  CHECK(pool.held_by(1) == 0);
  const wire::Handle again = pool.acquire(BlockPool::slab_bytes, 1).value();
  CHECK(again.block == block.block);
  CHECK(again.generation > block.generation);
  CHECK_FALSE(pool.holds(block));
  CHECK_FALSE(pool.give_back(block, 1));  // of the one before
}

TEST_CASE("what a suspected reader holds is in quarantine until he gives it back or is gone") {
  BlockPool pool(1);
  pool.grow();
  const wire::Handle first = pool.acquire(unit, 1).value(), second = pool.acquire(unit, 1).value();
  for (const wire::Handle& block : {first, second}) {
    pool.lend(block, 7);
    pool.let_go(block);
  }
  pool.lend(second, 8);
  pool.suspect(7, true);
  CHECK(pool.totals().quarantined == unit);
  CHECK(pool.totals().used == unit);  // 8 reads it
  pool.suspect(7, false);             // he was heard again
  CHECK(pool.totals().used == 2 * unit);
  pool.suspect(7, true);
  check_totals(pool);
  CHECK(pool.give_back(second, 8));
  CHECK(pool.totals().quarantined == 2 * unit);
  CHECK(pool.give_back(first, 7));
  CHECK(pool.totals().quarantined == unit);
  CHECK(pool.gone(7) == std::vector{second});
  CHECK(pool.totals().free == BlockPool::slab_bytes);
}

TEST_CASE("blocks never lie in one another, and the totals are right, whatever happens") {
  SplitMix64 random(GENERATE(range(1, 9)));
  BlockPool pool(2);
  Model model;
  std::uint64_t newest = 0;
  const auto some = [&](std::uint64_t below) { return random.next() % below; };
  for (int step = 0; step < 3000; ++step) {
    const Reader reader = 1 + some(3);
    auto at = model.blocks.begin();
    if (!model.blocks.empty()) std::advance(at, some(model.blocks.size()));
    switch (some(7)) {
      case 0:
        if (pool.may_grow() && some(20) == 0) pool.grow();
        break;
      case 1:
      case 2:
        if (const auto block = pool.acquire(1 + some(unit << some(11)), 2)) {
          REQUIRE(block->generation > newest);
          newest = block->generation;
          const std::size_t units = pool.size_of(*block) / unit;
          for (const auto& [place, entry] : model.blocks)
            REQUIRE((place.first != block->slab || place.second >= block->block + units ||
                     place.second + entry.second.size / unit <= block->block));
          model.blocks[{block->slab, block->block}] = {*block, {pool.size_of(*block), true, {}}};
        }
        break;
      case 3:
        if (at == model.blocks.end()) break;
        pool.lend(at->second.first, reader);
        ++at->second.second.readers[reader];
        break;
      case 4:
        if (at == model.blocks.end() || !at->second.second.owned) break;
        pool.let_go(at->second.first);
        at->second.second.owned = false;
        break;
      case 5: {
        if (at == model.blocks.end()) break;
        auto& readers = at->second.second.readers;
        REQUIRE(pool.give_back(at->second.first, reader) == readers.contains(reader));
        if (readers.contains(reader) && --readers[reader] == 0) readers.erase(reader);
        break;
      }
      case 6:
        if (some(30) != 0) break;
        if (some(2) == 0) {
          pool.suspect(reader, true);
          model.suspected.insert(reader);
          break;
        }
        static_cast<void>(pool.gone(reader));
        model.suspected.erase(reader);
        for (auto& [place, entry] : model.blocks) entry.second.readers.erase(reader);
    }
    model.clean();
    const BlockPool::Totals totals = pool.totals();
    REQUIRE(totals.used == model.bytes(false));
    REQUIRE(totals.quarantined == model.bytes(true));
    REQUIRE(totals.free == totals.capacity - totals.used - totals.quarantined);
    for (const auto& [place, entry] : model.blocks) REQUIRE(pool.holds(entry.first));
  }
}
