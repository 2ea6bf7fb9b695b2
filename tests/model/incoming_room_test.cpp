// What is read for a tenant is no more than it may have, and takes nobody else's pages.
#include "engine/storage/incoming_room.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/storage/host_tier.h"
#include "engine/storage/incoming_pages.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/storage_clock.h"
#include "made_pages.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

using namespace made_pages;

constexpr std::size_t quota = 8;

void compute(KvPages& pool, const std::string& tenant, const std::vector<std::int32_t>& tokens) {
  KvSequence sequence = pool.open(origin(tenant), tokens);
  std::vector<CopyPage> copies;
  REQUIRE(pool.extend(sequence, tokens.size() - 1 - sequence.tokens(), copies).ok());
  pool.publish(sequence, origin(tenant), tokens);
}

/// A pool over a folder with four prompts of six pages of the tenant `one`, of which none is in
/// memory; there eight pages of nobody are, and eight are free.
struct World {
  World() {
    {
      KeptPool before = KeptPool::make(shape, 64, folder(), 8U << 20U).value();
      for (std::uint64_t seed = 1; seed <= 4; ++seed)
        compute(*before.pool, "one", history(seed, 6));
    }
    kept = KeptPool::make(shape, 16, folder(), 8U << 20U).value();
    kept.pool->limit_tenants(quota);
    compute(*kept.pool, "", history(9, 8));
  }
  std::string folder() const { return scratch.path() + "/pages"; }
  bool begin(std::uint64_t task, std::uint64_t seed, const std::string& tenant = "one") {
    return kept.tier->begin(task, origin(tenant), history(seed, 6), {}, storage_clock());
  }
  /// Until nobody waits: how many pages came.
  std::size_t wait() {
    std::vector<PageSource::Ready> ready;
    for (int i = 0; i < 1000 && kept.tier->is_waited_for(); ++i)
      kept.tier->poll(storage_clock(), ready, std::chrono::milliseconds(100));
    CHECK_FALSE(kept.tier->is_waited_for());
    std::size_t pages = 0;
    for (const PageSource::Ready& one : ready) pages += one.tokens / shape.page_tokens;
    return pages;
  }
  std::size_t there(const std::string& tenant, std::uint64_t seed, std::size_t pages) const {
    return kept.pool->table().match(kept.pool->keys_of(origin(tenant), history(seed, pages)));
  }

  ScratchFolder scratch;
  KeptPool kept;
};

}  // namespace

TEST_CASE("what is read for a tenant's prompts together is as much as its quota leaves") {
  World world;
  REQUIRE(world.begin(1, 1));
  CHECK(world.kept.tier->pages_awaited() == 6);
  CHECK(world.kept.tier->holds_pages());  // they come back, so whoever is short of them waits
  REQUIRE(world.begin(2, 2));
  CHECK(world.kept.tier->pages_awaited() == 8);
  CHECK_FALSE(world.begin(3, 3));
  REQUIRE(world.begin(4, 1));  // the same pages as the first
  CHECK(world.kept.tier->pages_awaited() == 14);
  CHECK(world.wait() == 14);
  CHECK_FALSE(world.kept.tier->holds_pages());
  CHECK(world.there("one", 1, 6) == 6);
  CHECK(world.there("one", 2, 6) == 2);
  CHECK(world.kept.tier->store().counts().read == 8);
  CHECK(world.there("", 9, 8) == 8);
}

TEST_CASE("what is read for a tenant at its quota takes the place of its own cache") {
  World world;
  REQUIRE(world.begin(1, 1));
  REQUIRE(world.begin(2, 2));
  CHECK(world.wait() == 8);
  CHECK(world.kept.pool->table().free_pages() == 0);
  REQUIRE(world.begin(3, 3));
  CHECK(world.kept.tier->pages_awaited() == 6);
  CHECK(world.wait() == 6);
  CHECK(world.there("one", 3, 6) == 6);
  CHECK(world.there("", 9, 8) == 8);
  CHECK(world.kept.pool->table().tenants().pages_of("one").pages == quota);
}

TEST_CASE("what a tenant's prompt begins with counts where more of it is read") {
  World world;
  compute(*world.kept.pool, "one", history(5, 4));
  const KvSequence held = world.kept.pool->open(origin("one"), history(5, 4));
  REQUIRE(world.begin(1, 1));
  CHECK(world.kept.tier->pages_awaited() == 4);
  CHECK(world.wait() == 4);
  // Nobody uses those, and it begins with them: no page more may come.
  CHECK(world.there("one", 1, 6) == 4);
  CHECK_FALSE(world.begin(2, 1));
}

namespace {

/// What tasks were promised, and that of the tenant `one`.
struct Promised final : PromisedPages {
  std::uint64_t all = 0, own = 0;
  std::uint64_t promised() const override { return all; }
  std::uint64_t promised_to(std::string_view tenant) const override {
    return tenant == "one" ? own : 0;
  }
};

}  // namespace

TEST_CASE("what running tasks were promised is not taken for what is read") {
  World world;
  Promised tasks;
  world.kept.pool->promised = &tasks;
  tasks.all = 13;  // of sixteen that are free or cache
  REQUIRE(world.begin(1, 1));
  CHECK(world.wait() == 3);
  CHECK(world.kept.pool->pages_free() == 16);  // nobody holds them any more
  tasks.all = 15;
  // What it begins with are three pages of the cache, which it would hold.
  CHECK_FALSE(world.begin(2, 1));
  REQUIRE(world.begin(3, 2));
  tasks.all = 16;  // one more was admitted meanwhile
  CHECK(world.wait() == 0);
  CHECK(world.there("one", 2, 6) == 0);
}

TEST_CASE("what a tenant's running tasks were promised is not taken for what is read for it") {
  World world;
  Promised tasks;
  world.kept.pool->promised = &tasks;
  tasks.all = tasks.own = 6;  // of a quota of eight
  REQUIRE(world.begin(1, 1));
  CHECK(world.kept.tier->pages_awaited() == 2);
  CHECK(world.wait() == 2);
  CHECK_FALSE(world.begin(2, 1));  // it would hold both, and bring nothing
  tasks.own = 7;
  CHECK_FALSE(world.begin(3, 1));
  tasks.all = tasks.own = 5;
  REQUIRE(world.begin(4, 2));
  tasks.all = tasks.own = 8;
  CHECK(world.wait() == 0);
}

TEST_CASE("what running tasks were promised is not taken for what other machines give") {
  KvPool pool(shape, 16);
  Promised tasks;
  pool.promised = &tasks;
  compute(pool, "", history(9, 8));
  const std::vector<PageKey> keys = pool.keys_of(origin(""), history(9, 8));
  tasks.all = 6;
  const auto take = [&](std::size_t before, std::size_t least) {
    const auto there = std::span<const PageKey>(keys).first(before);
    return IncomingPages::take(pool, there, least, 16, "");
  };
  CHECK(take(0, 1)->unplaced() == 10);
  CHECK(take(8, 1)->unplaced() == 2);  // it holds eight of them
  CHECK(take(8, 3) == nullptr);
  tasks.all = 8;
  CHECK(take(8, 1) == nullptr);
}

namespace {

/// Of a device that has no memory: where each page is, is all that is asked here.
struct NoCopies final : PageCopies {
  Result<void> pin(std::span<std::byte>) override { return {}; }
  Result<void> begin(Way, std::span<const One>) override { return {}; }
  Result<bool> is_done(Way) override { return true; }
  Result<void> wait(Way) override { return {}; }
};

}  // namespace

TEST_CASE("what comes up from the host for a tenant is as much as its quota leaves") {
  KvPool host(shape, 64);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) compute(host, "one", history(seed, 6));
  KvPages device(shape, 16);
  device.limit_tenants(quota);
  NoCopies copies;
  HostTier tier(device, copies, host, nullptr);
  compute(device, "", history(9, 8));
  const auto begin = [&](std::uint64_t task, std::uint64_t seed) {
    return tier.begin(task, origin("one"), history(seed, 6), {}, storage_clock());
  };
  const auto wait = [&] {
    std::vector<PageSource::Ready> ready;
    for (int i = 0; i < 1000 && tier.is_waited_for(); ++i) tier.poll(storage_clock(), ready);
    std::size_t pages = 0;
    for (const PageSource::Ready& one : ready) pages += one.tokens / shape.page_tokens;
    return pages;
  };
  const auto there = [&](const std::string& tenant, std::uint64_t seed, std::size_t pages) {
    return device.table().match(device.keys_of(origin(tenant), history(seed, pages)));
  };
  REQUIRE(begin(1, 1));
  REQUIRE(begin(2, 2));
  CHECK(tier.pages_awaited() == quota);
  CHECK_FALSE(begin(3, 3));
  CHECK(wait() == quota);
  CHECK(there("one", 1, 6) == 6);
  CHECK(there("one", 2, 6) == 2);
  REQUIRE(begin(3, 3));
  CHECK(wait() == 6);
  CHECK(there("one", 3, 6) == 6);
  CHECK(there("", 9, 8) == 8);
}
