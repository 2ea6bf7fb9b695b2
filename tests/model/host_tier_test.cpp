// Pages of a pool that stands elsewhere, as on a GPU: copied down to the host's memory behind the
// forwards, and up again before a prompt is computed. Here "elsewhere" is memory of the test, and a
// copy is made when somebody hears that it is done: what is found, given away or written too early
// has other bytes.
#include "engine/storage/host_tier.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <new>
#include <optional>

#include "base/crc32c.h"
#include "base/random.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/storage_clock.h"
#include "made_pages.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

using namespace made_pages;

class FakeDevice final : public PageCopies {
 public:
  explicit FakeDevice(std::size_t pages) : memory(pages * shape.page_bytes()) {}

  Result<void> pin(std::span<std::byte>) override { return may_fail(); }
  Result<void> begin(Way way, std::span<const One> copies) override {
    if (is_without_memory) throw std::bad_alloc();
    if (Result<void> fails = may_fail(); !fails.ok()) return fails;
    for (const One& one : copies) under_way.push_back({way, one});
    return {};
  }
  Result<bool> is_done(Way way) override {
    if (Result<void> fails = may_fail(); !fails.ok()) return fails.error();
    if (is_slow) return false;
    make(way);
    return true;
  }
  Result<void> wait(Way way) override {
    if (Result<void> fails = may_fail(); !fails.ok()) return fails;
    make(way);
    ++waits;
    return {};
  }
  std::span<std::byte> page(Page page) {
    return std::span(memory).subspan(page * shape.page_bytes(), shape.page_bytes());
  }

  std::vector<std::byte> memory;
  std::vector<std::pair<Way, One>> under_way;
  bool is_slow = false;
  std::size_t waits = 0;
  std::optional<std::size_t> fails_in;  // so many calls from now on
  bool fails_once = false, is_without_memory = false;

 private:
  Result<void> may_fail() {
    if (!fails_in.has_value()) return {};
    if (*fails_in > 0) return --*fails_in, Result<void>();
    under_way.clear();
    if (fails_once) fails_in.reset();
    return Error{ErrorCode::unavailable, "the device was told to fail"};
  }
  void make(Way way) {
    for (const auto& [of, one] : under_way)
      if (of == way && way == Way::down)
        std::ranges::copy(page(one.page), one.host);
      else if (of == way)
        std::memcpy(page(one.page).data(), one.host, shape.page_bytes());
    std::erase_if(under_way, [&](const auto& one) { return one.first == way; });
  }
};

struct World {
  explicit World(std::size_t pages, std::size_t host_pages)
      : World(pages, KeptPool::make(shape, host_pages, "", 0).value()) {}
  World(std::size_t pages, KeptPool below)
      : kept(std::move(below)),
        device(pages),
        pool(shape, pages, kept.secret),
        tier(std::make_unique<HostTier>(pool, device, *kept.pool, kept.source(),
                                        kept.peers != nullptr)) {}

  /// As an engine does: what there is is gone on behind, the rest is written and published. False:
  /// there is no room. `found`: pages that were there.
  bool compute(const std::vector<std::int32_t>& tokens, std::size_t* found = nullptr) {
    KvSequence sequence = pool.open(origin(), tokens);
    const std::size_t had = sequence.tokens();
    if (found != nullptr) *found = had / tokens_per_page;
    for (const Page page : sequence.pages()) check(page);
    std::vector<CopyPage> copies;
    if (!pool.extend(sequence, tokens.size() - 1 - had, copies).ok()) return false;
    const std::vector<PageKey> keys = pool.keys_of(origin(), tokens);
    for (std::size_t at = had / tokens_per_page; at < keys.size(); ++at)
      std::ranges::copy(content(keys[at]), device.page(sequence.pages()[at]).begin());
    pool.publish(sequence, origin(), tokens);
    return true;
  }
  bool begin(std::uint64_t task, const std::vector<std::int32_t>& tokens,
             std::optional<double> per_token = {}) {
    return tier->begin(task, origin(), tokens, per_token, storage_clock());
  }
  std::vector<PageSource::Ready> poll(std::chrono::nanoseconds most = {}) {
    std::vector<PageSource::Ready> ready;
    tier->poll(storage_clock(), ready, most);
    return ready;
  }
  /// Until a task's pages have come: how many tokens. A slow device has done its copies by the
  /// second look.
  std::size_t wait() {
    const bool was_slow = device.is_slow;
    for (int i = 0; i < 1000; ++i) {
      const auto ready = poll(std::chrono::milliseconds(5));
      device.is_slow = was_slow && !ready.empty();
      if (!ready.empty()) return ready.front().tokens;
    }
    FAIL("nobody hears of an end");
    return 0;
  }
  void check(Page page) {
    const auto want = content(pool.table().key(page));
    CHECK(crc32c(device.page(page)) == crc32c(want));
  }
  /// All that can be found, in both memories, is what its key says.
  void check_all() {
    for (Page page = 0; page < pool.table().capacity(); ++page)
      if (pool.table().is_published(page)) check(page);
    const PageTable& host = kept.pool->table();
    for (Page page = 0; page < host.capacity(); ++page)
      if (host.is_published(page))
        CHECK(crc32c(kept.pool->content(page)) == crc32c(content(host.key(page))));
  }

  KeptPool kept;
  FakeDevice device;
  KvPages pool;
  std::unique_ptr<HostTier> tier;
};

}  // namespace

TEST_CASE("what the device has given up comes back from the host, byte for byte") {
  World world(8, 32);
  const auto first = history(1, 6), second = history(2, 8);
  REQUIRE(world.compute(first));
  world.tier->drain();
  CHECK(world.tier->counts().lowered == 6);
  REQUIRE(world.compute(second));  // all pages of the first go
  world.tier->drain();
  CHECK(world.pool.table().match(world.pool.keys_of(origin(), first)) == 0);
  CHECK(world.begin(1, first));
  CHECK(world.tier->is_waited_for());
  CHECK(world.tier->pages_awaited() == 6);
  CHECK(world.wait() == 6 * tokens_per_page);
  std::size_t found = 0;
  REQUIRE(world.compute(first, &found));
  CHECK(found == 6);
  CHECK(world.tier->counts().raised == 6);
  CHECK(world.tier->counts().missed == 0);
  world.check_all();
  // What the device has is not asked for.
  CHECK_FALSE(world.begin(2, first));
  CHECK_FALSE(world.begin(3, history(9, 4)));
}

TEST_CASE("nobody finds a page before it is there, and no copy is waited for meanwhile") {
  World world(8, 32);
  const auto first = history(1, 6), second = history(2, 8);
  const auto keys = world.pool.keys_of(origin(), first);
  world.device.is_slow = true;
  REQUIRE(world.compute(first));
  world.poll();  // begins to copy
  CHECK(world.device.under_way.size() == 6);
  world.poll();
  CHECK(world.kept.pool->table().match(keys) == 0);
  CHECK(world.device.waits == 0);
  world.device.is_slow = false;
  world.poll();
  CHECK(world.kept.pool->table().match(keys) == 6);
  REQUIRE(world.compute(second));
  world.tier->drain();
  world.device.is_slow = true;
  const std::size_t waits = world.device.waits;
  REQUIRE(world.begin(1, first));
  CHECK(world.poll().empty());
  CHECK(world.tier->pages_awaited() == 0);  // they have their places
  CHECK(world.tier->holds_pages());
  CHECK(world.pool.pages_free() == 2);
  CHECK(world.poll().empty());
  CHECK(world.pool.table().match(keys) == 0);
  CHECK(world.device.waits == waits);
  world.device.is_slow = false;
  CHECK(world.poll().size() == 1);
  CHECK(world.pool.table().match(keys) == 6);
  CHECK(world.pool.pages_free() == 8);
  world.check_all();
}

TEST_CASE("at rest copies are begun, and waited for where other machines read the host's pages") {
  for (const bool among : {false, true}) {
    PeerHub hub;
    World world(8, among ? KeptPool::make_among(shape, 32, hub.add(0), "kv").value()
                         : KeptPool::make(shape, 32, "", 0).value());
    world.device.is_slow = true;
    REQUIRE(world.compute(history(1, 6)));
    world.tier->rest();
    CHECK(world.device.under_way.size() == (among ? 0 : 6));
    CHECK(world.tier->counts().lowered == (among ? 6 : 0));
  }
}

TEST_CASE("a page that is written anew while it is copied down waits for that copy") {
  World world(8, 32);
  world.device.is_slow = true;
  const auto first = history(1, 6);
  REQUIRE(world.compute(first));
  world.poll();
  REQUIRE(world.compute(history(2, 8)));
  CHECK(world.device.waits > 0);
  world.device.is_slow = false;
  world.tier->drain();
  CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), first)) == 6);
  world.check_all();
}

TEST_CASE("what the device gives up before it was copied is missed, and what hangs on it") {
  World world(8, 32);
  REQUIRE(world.compute(history(1, 6)));
  REQUIRE(world.compute(history(2, 8)));  // without a forward between them
  world.tier->drain();
  CHECK(world.tier->counts().missed == 6);
  CHECK(world.tier->counts().lowered == 8);
  world.check_all();
}

TEST_CASE("two tasks that miss the same pages share the copies; one may go meanwhile") {
  for (const bool goes : {false, true}) {
    World world(12, 64);
    auto longer = history(1, 8);
    const std::vector<std::int32_t> shorter(longer.begin(), longer.begin() + 6 * 4 + 1);
    REQUIRE(world.compute(longer));
    world.tier->drain();
    REQUIRE(world.compute(history(2, 12)));
    world.tier->drain();
    world.device.is_slow = true;
    REQUIRE(world.begin(1, shorter));
    REQUIRE(world.begin(2, longer));
    CHECK(world.poll().empty());
    if (goes) world.tier->forget(1);
    world.device.is_slow = false;
    std::size_t ended = 0;
    for (int i = 0; i < 10; ++i) ended += world.poll().size();
    CHECK(ended == (goes ? 1 : 2));
    CHECK(world.tier->counts().raised == 8);
    CHECK(world.pool.table().match(world.pool.keys_of(origin(), longer)) == 8);
    CHECK(world.pool.pages_free() == 12);
    world.check_all();
  }
}

TEST_CASE(
    "where there is no room for all pages the first ones come, and none where there is none") {
  World world(8, 64);
  const auto first = history(1, 6);
  REQUIRE(world.compute(first));
  world.tier->drain();
  REQUIRE(world.compute(history(2, 8)));
  KvSequence held;
  std::vector<CopyPage> copies;
  REQUIRE(world.pool.extend(held, 5 * tokens_per_page, copies).ok());
  REQUIRE(world.begin(1, first));
  CHECK(world.wait() == 3 * tokens_per_page);
  REQUIRE(world.pool.extend(held, 3 * tokens_per_page, copies).ok());
  REQUIRE(world.begin(2, first));
  CHECK(world.wait() == 0);
  world.check_all();
}

TEST_CASE("a page that was said to follow another one is not in the way of the right one's copy") {
  for (const bool is_hosts : {false, true}) {
    INFO(is_hosts);
    World world(16, 32);
    const auto tokens = history(1, 4);
    const auto keys = world.pool.keys_of(origin(), tokens);
    KvPages& lied_to = is_hosts ? *world.kept.pool : world.pool;
    {
      Sequence lie = lied_to.open(std::span<const PageKey>());
      REQUIRE(lied_to.add_pages(lie, 1).ok());
      const auto bytes = content(keys[3]);
      std::ranges::copy(bytes, is_hosts ? world.kept.pool->place(lie.pages()[0])
                                        : world.device.page(lie.pages()[0]).data());
      REQUIRE(lied_to.publish_next(lie, keys[3]));
    }
    REQUIRE(world.compute(tokens));
    world.tier->drain();
    CHECK(world.kept.pool->table().match(keys) == 4);
    world.check_all();
  }
}

TEST_CASE("chains that were published by turns are all copied down") {
  World world(16, 64);
  const auto first = history(1, 4), second = history(2, 4), third = history(3, 4);
  for (const auto* one : {&first, &second, &third}) REQUIRE(world.compute(*one));
  world.tier->drain();
  for (const auto* one : {&first, &second, &third})
    CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), *one)) == 4);
  CHECK(world.tier->counts().lowered == 12);
}

TEST_CASE("a chain that begins on the device and goes on in the host is made whole") {
  World world(8, 64);
  auto longer = history(1, 7);
  const std::vector<std::int32_t> shorter(longer.begin(), longer.begin() + 2 * 4 + 1);
  REQUIRE(world.compute(longer));
  world.tier->drain();
  REQUIRE(world.compute(history(2, 8)));
  REQUIRE(world.compute(shorter));
  REQUIRE(world.begin(1, longer));
  CHECK(world.wait() == 5 * tokens_per_page);
  world.check_all();
}

TEST_CASE("a host that has given up a beginning gets it again with what follows") {
  World world(16, 6);
  auto longer = history(1, 5);
  const std::vector<std::int32_t> shorter(longer.begin(), longer.begin() + 3 * 4 + 1);
  REQUIRE(world.compute(shorter));
  world.tier->drain();
  REQUIRE(world.compute(history(2, 6)));
  world.tier->drain();  // takes the host's place
  CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), shorter)) < 3);
  REQUIRE(world.compute(longer));
  world.tier->drain();
  CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), longer)) == 5);
  world.check_all();
}

TEST_CASE("of a chain that is longer than the host what there is room for is copied down") {
  const auto longest = history(1, 12);
  for (const std::size_t first : {4, 7}) {
    World world(20, 6);
    REQUIRE(world.compute({longest.begin(), longest.begin() + 4 * first + 1}));
    world.tier->drain();
    CHECK(world.tier->counts().missed == (first == 7 ? 1 : 0));
    // It goes on where no room is, and those behind it are not held up.
    REQUIRE(world.compute(longest));
    world.tier->drain();
    CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), longest)) == 6);
    CHECK(world.tier->counts().lowered == 6);
    CHECK(world.tier->counts().missed == 6);
    REQUIRE(world.compute(history(2, 4)));
    world.tier->drain();
    CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), history(2, 4))) == 4);
    CHECK(world.tier->counts().lowered == 10);
    CHECK(world.tier->off().empty());
    world.check_all();
  }
}

TEST_CASE("copies up are waited for as long as it was asked, and their time is known then") {
  for (const bool glances : {false, true}) {
    INFO(glances);
    World world(8, 32);
    const auto first = history(1, 6), second = history(2, 8);
    REQUIRE(world.compute(first));
    world.tier->drain();
    REQUIRE(world.compute(second));
    world.tier->drain();
    REQUIRE(world.begin(1, first));
    world.device.is_slow = true;
    const std::size_t waits = world.device.waits;
    for (int i = 0; i < 3; ++i) {
      CHECK(world.poll(std::chrono::milliseconds(1)).empty());
      CHECK(world.device.under_way.size() == 6);
    }
    if (glances) CHECK(world.poll().empty());
    world.device.is_slow = false;
    CHECK(world.poll(std::chrono::milliseconds(1)).size() == 1);
    CHECK(world.device.waits == waits);
    CHECK(world.tier->counts().raised == 6);
    // A forward that ran beside them would say nothing of them.
    REQUIRE(world.compute(second));
    world.tier->drain();
    CHECK(world.begin(2, first, 1e-9) == glances);
    CHECK(world.tier->counts().not_worth == (glances ? 0 : 1));
    world.check_all();
  }
}

TEST_CASE("without memory for its last copies it ends all the same") {
  World world(8, 32);
  const auto first = history(1, 6);
  REQUIRE(world.compute(first));
  world.device.is_without_memory = true;
  world.tier.reset();
  CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), first)) == 0);
}

TEST_CASE("a device that fails a copy has nothing copied any more, and nobody waits") {
  for (std::size_t call = 0; call < 24; ++call) {
    INFO(call);
    World world(8, 32);
    world.device.fails_once = call % 2 == 1;
    world.device.is_slow = call >= 12;
    world.device.fails_in = call % 12 / 2;
    for (const std::uint64_t seed : {1, 2, 1, 3, 1}) {
      const auto tokens = history(seed, 6);
      if (world.begin(seed, tokens)) (void)world.wait();
      world.poll();
      if (call < 12) world.tier->drain();
      REQUIRE(world.compute(tokens));
    }
    if (call < 18) world.poll();
    world.tier->drain();
    CHECK(world.pool.pages_free() == 8);
    if (call < 8) CHECK(world.tier->off() == "the device was told to fail");
    if (!world.tier->off().empty()) CHECK(world.kept.pool->pages_free() == 32);
    CHECK_FALSE(world.tier->holds_pages());
    world.device.fails_in.reset();
    world.check_all();
  }
}

TEST_CASE("a copy that failed as its page was written anew is not taken for one that was made") {
  World world(8, 32);
  world.device.is_slow = world.device.fails_once = true;
  REQUIRE(world.compute(history(1, 6)));
  world.poll();
  REQUIRE(world.device.under_way.size() == 6);
  world.device.fails_in = 0;
  REQUIRE(world.compute(history(2, 8)));
  CHECK(!world.device.fails_in.has_value());
  world.tier->drain();
  CHECK(world.tier->off() == "the device was told to fail");
  CHECK(world.tier->counts().lowered == 0);
  world.check_all();
}

TEST_CASE("memory that cannot be pinned serves all the same, and the tier says so") {
  KeptPool kept = KeptPool::make(shape, 8, "", 0).value();
  FakeDevice device(4);
  device.fails_in = 0;
  KvPages pool(shape, 4, kept.secret);
  const HostTier tier(pool, device, *kept.pool, nullptr);
  CHECK(tier.unpinned() == "the device was told to fail");
  CHECK(tier.off().empty());
}

TEST_CASE("pages that computing has sooner are not copied up, but now and then") {
  World world(8, 32);
  const auto first = history(1, 6);
  std::size_t tried = 0;
  for (int i = 0; i < 40; ++i) {
    REQUIRE(world.compute(first));
    world.tier->drain();
    REQUIRE(world.compute(history(2, 8)));
    if (!world.begin(1, first, 1e-9)) continue;
    ++tried;
    (void)world.wait();
  }
  CHECK(tried >= 3);  // the first, and each sixteenth refusal after it
  CHECK(tried <= 5);
  CHECK(world.tier->counts().not_worth + tried == 40);
}

TEST_CASE("the folder of the host's pages is the device's too, after a restart") {
  const ScratchFolder folder;
  const std::string place = folder.path() + "/pages";
  const auto first = history(1, 6);
  const auto open = [&] { return KeptPool::make(shape, 8, place, 8U << 20U).value(); };
  {
    World world(8, open());
    REQUIRE(world.compute(first));
  }
  World world(8, open());
  CHECK(world.kept.pool->table().match(world.pool.keys_of(origin(), first)) == 0);
  REQUIRE(world.begin(1, first));
  CHECK(world.wait() == 6 * tokens_per_page);
  std::size_t found = 0;
  REQUIRE(world.compute(first, &found));
  CHECK(found == 6);
  CHECK(world.kept.tier->store().counts().read == 6);
  CHECK(world.kept.tier->store().counts().written == 0);
  world.check_all();
}

TEST_CASE("what the device has is not read from the folder") {
  const ScratchFolder folder;
  const std::string place = folder.path() + "/pages";
  const auto longer = history(1, 6), other = history(2, 6);
  const std::vector<std::int32_t> shorter(longer.begin(), longer.begin() + 5 * 4 + 1);
  const auto open = [&] { return KeptPool::make(shape, 6, place, 8U << 20U).value(); };
  {
    World world(8, open());
    REQUIRE(world.compute(longer));
  }
  World world(16, open());
  for (const auto* tokens : {&shorter, &other}) {
    REQUIRE(world.compute(*tokens));
    world.tier->drain();
  }
  REQUIRE(world.kept.pool->table().match(world.pool.keys_of(origin(), longer)) == 0);
  // The folder has the sixth, and would be asked for those before it.
  CHECK_FALSE(world.begin(1, longer));
  CHECK_FALSE(world.tier->is_waited_for());
  CHECK(world.kept.tier->store().counts().read == 0);
}

TEST_CASE("another machine's device has the pages through both hosts") {
  PeerHub hub;
  const auto among = [&](std::uint32_t machine) {
    return KeptPool::make_among(shape, 32, hub.add(machine), "kv").value();
  };
  World one(8, among(0)), two(8, among(1));
  const auto first = history(1, 6);
  REQUIRE(one.compute(first));
  one.tier->drain();
  REQUIRE(two.begin(1, first));
  CHECK(two.wait() == 6 * tokens_per_page);
  CHECK(two.kept.peers->counts().pulled == 6);
  std::size_t found = 0;
  REQUIRE(two.compute(first, &found));
  CHECK(found == 6);
  two.check_all();
}

TEST_CASE("what is preloaded into the host's memory goes up without a pull") {
  PeerHub hub;
  PeerHub::Port& ahead = hub.add(1);
  ahead.does_preload = true;
  World one(8, KeptPool::make_among(shape, 32, hub.add(0), "kv").value()),
      two(8, KeptPool::make_among(shape, 32, ahead, "kv").value());
  KvPeers& peers = *two.kept.peers;
  const auto settle = [&] {
    for (int i = 0; i < 1000; ++i)
      if (!peers.preload({}, 0, storage_clock()) && peers.unheard() == 0) return;
  };
  settle();
  const auto first = history(1, 6);
  REQUIRE(one.compute(first));
  one.tier->drain();
  settle();
  CHECK(two.kept.pool->table().match(two.pool.keys_of(origin(), first)) == 6);
  CHECK(peers.counts().pulled == 6);
  REQUIRE(two.begin(1, first));
  CHECK(two.wait() == 6 * tokens_per_page);
  CHECK(peers.counts().pulled == 6);
  CHECK(peers.counts().preloads->useful == 6);
  two.check_all();
}

TEST_CASE("random prompts, waits and cuts leave what each key says, and nobody's pages held") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    INFO(seed);
    SplitMix64 random(seed);
    World world(8 + random.next() % 12, 6 + random.next() % 40);
    std::size_t ended = 0, begun = 0;
    for (int event = 0; event < 400; ++event) {
      world.device.is_slow = random.next() % 3 != 0;
      // A few beginnings, each gone on with in a few ways.
      auto tokens = history(random.next() % 3, 2 + random.next() % 3);
      tokens.pop_back();
      const auto rest = history(7 + random.next() % 4, random.next() % 4);
      tokens.insert(tokens.end(), rest.begin(), rest.end());
      switch (random.next() % 6) {
        case 0:
        case 1:
          (void)world.compute(tokens);
          break;
        case 2:
        case 3:
          begun += world.begin(static_cast<std::uint64_t>(event), tokens) ? 1 : 0;
          break;
        case 4:
          ended += world.poll(std::chrono::nanoseconds(random.next() % 2)).size();
          break;
        default:
          ended += world.poll().size();
      }
      world.check_all();
    }
    world.device.is_slow = false;
    for (int i = 0; i < 20; ++i) ended += world.poll(std::chrono::milliseconds(1)).size();
    world.tier->drain();
    CHECK(ended == begun);
    CHECK(world.tier->counts().raised > 0);
    CHECK(world.pool.pages_free() == world.pool.pages());
    CHECK(world.kept.pool->pages_free() == world.kept.pool->pages());
    CHECK_FALSE(world.tier->holds_pages());
    world.check_all();
  }
}
