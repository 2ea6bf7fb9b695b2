// Prompts whose beginnings come back from a folder: fewer rows are computed, and nobody's answer
// changes.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "answer_all.h"
#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/storage_clock.h"
#include "engine/tasks/generator.h"
#include "made_pages.h"
#include "made_prompts.h"
#include "tests/directories.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";
constexpr std::uint64_t folder_bytes = 8U << 20U;

/// Where the pages of a test stand.
struct Scratch : ScratchFolder {
  std::string pages() const { return path() + "/pages"; }
};

/// Under the name of a model.
std::vector<Generation> requests(const Model& model, const std::string& name) {
  return testing::made_prompts(model, name, 18);
}

struct Outcome {
  std::map<std::uint64_t, std::vector<std::int32_t>> answers;
  std::size_t computed = 0, read_back = 0;  // tokens
};

Outcome run(const Model& model, KeptPool& kept, std::size_t at_once, const std::string& name) {
  Outcome outcome;
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});
  generator.use(kept.tier.get());
  outcome.computed = testing::answer_all(generator, requests(model, name), at_once,
                                         [&](std::uint64_t id, const Generation& done) {
                                           CHECK(done.tokens_read_back <= done.tokens_kept);
                                           outcome.read_back += done.tokens_read_back;
                                           outcome.answers[id] = done.tokens;
                                         });
  return outcome;
}

KeptPool open_pool(const Model& model, std::size_t pages, const std::string& folder,
                   Dtype dtype = Dtype::f32) {
  return std::move(KeptPool::make(model.text().kv_shape(4, dtype), pages, folder, folder_bytes))
      .value();
}

/// Keeps to itself that reads have ended, or else writes and syncs, while the test says so.
class HoldingPort final : public BlockPort {
 public:
  HoldingPort(const bool& holds, std::size_t& held_kind, bool of_reads = true)
      : holds_(holds), reads_(held_kind), of_reads_(of_reads), inner_(make_thread_port()) {}
  std::string_view name() const override { return "holding"; }
  void submit(Job job) override {
    if ((job.kind == Kind::read) == of_reads_) {
      ++reads_;
      is_held_.insert(job.id);
    }
    inner_->submit(std::move(job));
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) override {
    std::vector<Ended> all = std::exchange(held_, {});
    inner_->wait(all, most);
    for (const Ended& one : all)
      (holds_ && is_held_.contains(one.id) ? held_ : ended).push_back(one);
  }

 private:
  const bool& holds_;
  std::size_t& reads_;  // or writes and syncs
  bool of_reads_;
  std::set<std::uint64_t> is_held_;
  std::vector<Ended> held_;
  std::unique_ptr<BlockPort> inner_;
};

/// A tier over a folder that `run` has filled, whose reads end when the test says so.
struct SlowTier {
  SlowTier(const Model& model, const Scratch& scratch) : all(requests(model, "qwen2")) {
    const KvShape shape = model.text().kv_shape(4);
    {
      KeptPool kept = open_pool(model, 400, scratch.pages());
      (void)run(model, kept, 1, "qwen2");
    }
    auto store = PageStore::open(KvTier::options_for(shape, scratch.pages(), folder_bytes),
                                 std::make_unique<HoldingPort>(holds, reads));
    pool = std::make_unique<KvPool>(shape, 400, (*store)->secret());
    tier = std::make_unique<KvTier>(*pool, std::move(store).value());
  }
  bool begin(std::uint64_t request, std::optional<double> per_token, std::int64_t now) {
    return tier->begin(request, all[request].origin, all[request].history, per_token, now);
  }
  /// Who is ready.
  std::vector<std::uint64_t> poll(std::int64_t now) {
    std::vector<KvTier::Ready> ready;
    tier->poll(now, ready);
    std::vector<std::uint64_t> tasks;
    for (const KvTier::Ready& one : ready) tasks.push_back(one.task);
    return tasks;
  }
  /// Until nothing is under way; at a time that stands still.
  std::vector<std::uint64_t> poll_all(std::int64_t now) {
    std::vector<std::uint64_t> tasks;
    while (tier->store().is_busy()) {
      const auto some = poll(now);
      tasks.insert(tasks.end(), some.begin(), some.end());
    }
    return tasks;
  }
  bool holds = true;
  std::size_t reads = 0;
  std::vector<Generation> all;
  std::unique_ptr<KvPool> pool;
  std::unique_ptr<KvTier> tier;
};

constexpr std::int64_t second = 1'000'000'000;

}  // namespace

TEST_CASE("what a forward took while pages came is not taken for the disk's time") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  SlowTier held(model, scratch);
  REQUIRE(held.begin(0, std::nullopt, 0));
  CHECK(held.poll(0).empty());
  held.holds = false;  // they come while a forward of four seconds runs
  CHECK(held.poll_all(4 * second) == std::vector<std::uint64_t>{0});
  const PageStoreCounts& counts = held.tier->store().counts();
  CHECK((counts.read > 0 && counts.read_times.count == counts.read));
  CHECK(counts.read_times.most_ns == 4 * second);  // what its reader had to wait
  CHECK(counts.read_times.sum_ns <= counts.read * 4 * second);
  CHECK(held.tier->store().health().works());
  CHECK(held.begin(1, 0.01 * second, 5 * second));  // pays: nobody has seen a slow disk
  CHECK(held.tier->not_worth() == 0);
  CHECK(held.poll_all(5 * second) == std::vector<std::uint64_t>{1});
}

TEST_CASE(
    "pages that are computed in less time than the disk takes are not read, which is counted") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  SlowTier held(model, scratch);
  held.holds = false;
  const std::int64_t before = storage_clock() - second;  // the disk takes a second
  REQUIRE(held.begin(0, std::nullopt, before));
  std::vector<KvTier::Ready> ready;
  while (ready.empty()) held.tier->poll(before, ready, std::chrono::seconds(1));
  CHECK(held.tier->not_worth() == 0);
  CHECK_FALSE(held.begin(1, 1.0, storage_clock()));
  CHECK(held.tier->not_worth() == 1);
}

TEST_CASE("a read that hangs frees all who wait at once, is one failure, and is not read beside") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  SlowTier held(model, scratch);
  REQUIRE(held.begin(0, std::nullopt, 0));
  REQUIRE(held.begin(1, std::nullopt, 4 * second));
  CHECK(held.poll(5 * second).empty());
  CHECK(held.poll(6 * second) == std::vector<std::uint64_t>{0, 1});
  CHECK(held.poll(20 * second).empty());
  CHECK(held.tier->store().health().failures() == 1);
  const std::size_t before = held.reads;
  CHECK_FALSE(held.begin(2, std::nullopt, 40 * second));  // they hang still
  CHECK(held.reads == before);
  held.holds = false;
  CHECK(held.poll_all(41 * second).empty());
  CHECK_FALSE(held.tier->store().reads());
  CHECK(held.begin(0, std::nullopt, 42 * second));  // one, to see
  CHECK(held.reads == before + 1);
  CHECK_FALSE(held.begin(1, std::nullopt, 42 * second));
  CHECK(held.poll_all(42 * second).size() <= 1);
  CHECK(held.tier->store().reads());
  CHECK(held.tier->store().health().works());
  CHECK(held.begin(1, std::nullopt, 43 * second));
  CHECK(held.reads > before + 2);
  CHECK(held.poll_all(43 * second) == std::vector<std::uint64_t>{1});
}

TEST_CASE("answers are the same with pages of memory, of a folder, and after a restart") {
  const Dtype dtype = GENERATE(Dtype::f32, Dtype::bf16);
  INFO(to_string(dtype));
  const Model model = Model::open(golden + "qwen2").value();
  KeptPool memory = open_pool(model, 400, "", dtype);
  const Outcome want = run(model, memory, 1, "");  // nothing is shared
  REQUIRE(want.answers.size() == 18);
  for (const std::size_t pages : {400U, 40U, 24U, 14U}) {
    INFO(pages);
    Scratch scratch;
    const std::size_t at_once = pages == 14 ? 1 : pages == 24 ? 8 : 3;
    Outcome cold, warm, again, other;
    {
      KeptPool kept = open_pool(model, pages, scratch.pages(), dtype);
      cold = run(model, kept, at_once, "qwen2");
      warm = run(model, kept, at_once, "qwen2");
      CHECK(kept.pool->pages_free() == pages);
    }
    {
      KeptPool kept = open_pool(model, pages, scratch.pages(), dtype);
      CHECK(kept.tier->store().index().pages() > 0);
      again = run(model, kept, at_once, "qwen2");
      CHECK(kept.pool->pages_free() == pages);
      CHECK(kept.tier->store().counts().broken == 0);
      CHECK(kept.tier->store().counts().read > 0);
    }
    {
      KeptPool kept = open_pool(model, pages, scratch.pages(), dtype);
      other = run(model, kept, at_once, "another model");
      // What it reads is its own.
      if (pages == 400) CHECK(kept.tier->store().counts().read == 0);
    }
    for (const Outcome* got : {&cold, &warm, &again, &other}) CHECK(got->answers == want.answers);
    CHECK(again.read_back > 0);
    if (pages < 400) continue;
    CHECK(warm.read_back == 0);  // memory has them all
    CHECK(again.computed < cold.computed);
  }
}

TEST_CASE("a folder's pages in f32 are never read as bf16, nor the other way round") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  Outcome first[2];
  for (const std::size_t turn : {0U, 1U, 2U, 3U}) {
    const Dtype dtype = turn % 2 == 0 ? Dtype::f32 : Dtype::bf16;
    KeptPool memory = open_pool(model, 400, "", dtype);
    const Outcome want = run(model, memory, 1, "");
    KeptPool kept = open_pool(model, 400, scratch.pages(), dtype);
    const Outcome got = run(model, kept, 1, "qwen2");
    CHECK(got.answers == want.answers);
    CHECK((got.read_back > 0) == (turn >= 2));  // each finds its own again
    CHECK(kept.tier->store().counts().broken == 0);
    if (turn < 2) first[turn] = got;
  }
  CHECK(first[0].computed == first[1].computed);
}

TEST_CASE("two tasks that miss the same pages cause one read of each") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  {
    KeptPool kept = open_pool(model, 400, scratch.pages());
    (void)run(model, kept, 1, "qwen2");
  }
  KeptPool kept = open_pool(model, 400, scratch.pages());
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});
  generator.use(kept.tier.get());
  std::vector<Generation> all = requests(model, "qwen2");
  std::size_t tokens = 0;
  for (std::uint64_t id = 100; id < 104; ++id) {
    Generation one;
    one.id = id;
    one.options.tokens_max = 2;
    one.history = all[0].history;
    one.rows = all[0].rows;
    one.origin = all[0].origin;
    tokens = (one.history.size() - 1) / 4 * 4;
    generator.add(std::move(one));
  }
  std::vector<std::uint64_t> advanced;
  while (generator.busy()) generator.step(advanced);
  CHECK(kept.tier->store().counts().read == tokens / 4);
  for (std::uint64_t id = 100; id < 104; ++id) {
    CHECK(generator.find(id)->tokens_kept == tokens);
    CHECK(generator.find(id)->tokens == generator.find(100)->tokens);
    CHECK(generator.find(id)->tokens_read_back == tokens);
  }
}

TEST_CASE("a task that is taken out while it waits for pages leaves nothing behind") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  {
    KeptPool kept = open_pool(model, 400, scratch.pages());
    (void)run(model, kept, 1, "qwen2");
  }
  KeptPool kept = open_pool(model, 400, scratch.pages());
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});
  generator.use(kept.tier.get());
  std::vector<Generation> all = requests(model, "qwen2");
  generator.add(std::move(all[0]));
  generator.add(std::move(all[1]));
  CHECK(kept.tier->is_waited_for());
  CHECK(generator.remove(0)->tokens.empty());
  std::vector<std::uint64_t> advanced;
  while (generator.busy()) generator.step(advanced);
  CHECK_FALSE(kept.tier->is_waited_for());
  CHECK(generator.find(1)->finish == Generation::Finish::length);
  (void)generator.remove(1);
  CHECK(kept.pool->pages_free() == 400);
}

TEST_CASE("writes that hang switch writing off, and are not written beside; reads go on") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  const KvShape shape = model.text().kv_shape(4);
  bool holds = false;
  std::size_t writes = 0;
  auto store = PageStore::open(KvTier::options_for(shape, scratch.pages(), folder_bytes),
                               std::make_unique<HoldingPort>(holds, writes, false));
  KeptPool kept;
  kept.pool = std::make_unique<KvPool>(shape, 400, (*store)->secret());
  kept.tier = std::make_unique<KvTier>(*kept.pool, std::move(store).value());
  const PageStore& disk = kept.tier->store();
  std::vector<KvTier::Ready> ready;
  std::int64_t now = engine_clock();
  const auto later = [&](std::int64_t by) {
    now += by;
    kept.tier->poll(now, ready);
  };
  // What is said comes before the tier at the next poll, not before.
  const auto say = [&](const std::string& name) {
    Generator generator(model.text(), *kept.pool, nullptr, Budget{});
    (void)testing::answer_all(generator, requests(model, name), 1,
                              [](std::uint64_t, const Generation&) {});
  };
  (void)run(model, kept, 1, "qwen2");
  while (disk.is_writing()) later(0);
  REQUIRE(disk.counts().written > 0);
  holds = true;
  now = engine_clock();
  (void)run(model, kept, 1, "another model");
  REQUIRE(disk.is_writing());
  later(KvTier::write_patience - second);
  CHECK(disk.health().works());
  now = engine_clock();
  later(KvTier::write_patience + second);
  CHECK_FALSE(disk.health().works());
  CHECK(disk.health().reason() == "no write has ended for 30 s");
  CHECK(disk.reads());
  CHECK(kept.tier->backlog() == 0);
  const std::size_t before = writes;
  say("a third");
  CHECK(kept.tier->backlog() > 0);
  CHECK_FALSE(kept.tier->has_backlog());  // that goes on soon
  later(100 * second);
  CHECK(disk.health().failures() == 1);
  CHECK(writes == before);  // they hang still
  holds = false;
  while (disk.is_writing()) later(0);
  say("a fourth");
  later(100 * second);
  CHECK(writes > before);  // to see
  while (disk.is_writing()) later(0);
  CHECK(disk.health().works());
}

TEST_CASE("of a conversation that is longer than its folder the beginning comes back each time") {
  const Model model = Model::open(golden + "qwen2").value();
  const KvShape shape = model.text().kv_shape(4);
  Scratch scratch;
  // Two segments of four pages each: of twenty.
  const auto page_bytes = static_cast<std::uint32_t>(shape.page_bytes());
  const std::uint64_t bytes = 2 * (segment_block + 4 * record_bytes(page_bytes));
  for (const std::size_t kept_before : {0U, 32U, 32U, 32U}) {
    KeptPool kept = std::move(KeptPool::make(shape, 400, scratch.pages(), bytes)).value();
    Generator generator(model.text(), *kept.pool, nullptr, Budget{});
    generator.use(kept.tier.get());
    std::vector<Generation> one = requests(model, "qwen2");
    one.resize(1);
    std::vector<std::int32_t>& prompt = one[0].history;
    while (prompt.size() < 81) prompt.push_back(static_cast<std::int32_t>(prompt.size()));
    one[0].rows.clear();
    model.text().embed(prompt, one[0].rows);
    std::size_t read_back = 0;
    (void)testing::answer_all(
        generator, std::move(one), 1,
        [&](std::uint64_t, const Generation& done) { read_back = done.tokens_read_back; });
    kept.tier->flush();
    CHECK(read_back == kept_before);
    CHECK(kept.tier->store().counts().dropped == 0);
  }
}

TEST_CASE("no more pages wait to be written than there are in memory") {
  const Model model = Model::open(golden + "qwen2").value();
  Scratch scratch;
  KeptPool kept = open_pool(model, 40, scratch.pages());
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});  // nobody asks the tier
  std::size_t most = 0;
  (void)testing::answer_all(
      generator, requests(model, "qwen2"), 1,
      [&](std::uint64_t, const Generation&) { most = std::max(most, kept.tier->backlog()); });
  CHECK(most == 40);
  CHECK(kept.tier->has_backlog());
  kept.tier->rest();
  CHECK_FALSE(kept.tier->has_backlog());
}

namespace {

/// Publishes those of `keys` behind `before`, as pages that come from elsewhere.
void publish(KvPool& pool, std::span<const PageKey> before, std::span<const PageKey> keys) {
  Sequence there = pool.open(before);
  REQUIRE(there.published() == before.size());
  REQUIRE(pool.add_pages(there, keys.size()).ok());
  for (const PageKey& key : keys) {
    std::ranges::copy(made_pages::content(key), pool.place(there.pages()[there.published()]));
    REQUIRE(pool.publish_next(there, key));
    pool.on_publish(there.pages()[there.published() - 1]);
  }
}

KeptPool made_pool(const Scratch& scratch, std::uint64_t bytes = folder_bytes) {
  return std::move(KeptPool::make(made_pages::shape, 200, scratch.pages(), bytes)).value();
}

}  // namespace

TEST_CASE("what was said to follow another page than it does is not in the right one's way") {
  // When the right one is published, the other one waits to be written, or was written.
  for (const bool is_written : {false, true}) {
    INFO(is_written);
    Scratch scratch;
    const auto tokens = made_pages::history(1, 4);
    std::vector<PageKey> keys;
    {
      KeptPool kept = made_pool(scratch);
      keys = kept.pool->keys_of(made_pages::origin(), tokens);
      publish(*kept.pool, {}, std::span(keys).subspan(2, 1));  // a lie: it is the third
      if (is_written) kept.tier->flush();
      CHECK_FALSE(kept.tier->begin(1, made_pages::origin(), tokens, {}, 0));
      publish(*kept.pool, {}, std::span(keys).first(2));
      publish(*kept.pool, std::span(keys).first(2), std::span(keys).subspan(2));
    }
    KeptPool again = made_pool(scratch);
    CHECK(again.tier->store().index().match(keys, 0) == 4);
  }
}

TEST_CASE("what follows a page that has no room is not looked at until there may be some") {
  const std::uint64_t bytes =
      2 * (segment_block +
           4 * record_bytes(static_cast<std::uint32_t>(made_pages::shape.page_bytes())));
  Scratch scratch;
  KeptPool kept = made_pool(scratch, bytes);
  const PageStore& store = kept.tier->store();
  const auto keys = kept.pool->keys_of(made_pages::origin(), made_pages::history(1, 40));
  std::size_t waited = 0;
  for (std::size_t at = 0; at < keys.size(); ++at) {
    publish(*kept.pool, std::span(keys).first(at), std::span(keys).subspan(at, 1));
    waited += kept.tier->backlog();
    kept.tier->flush();
  }
  CHECK(store.index().pages() == 8);
  CHECK(waited == 9);  // the first that was refused, and none behind it
  // Another history takes the place of some: what is published then is looked at again.
  const auto other = kept.pool->keys_of(made_pages::origin(), made_pages::history(2, 5));
  publish(*kept.pool, {}, other);
  kept.tier->flush();
  CHECK(store.counts().dropped == 2);
  CHECK(store.index().match(other, 0) == 5);
  const auto longer = kept.pool->keys_of(made_pages::origin(), made_pages::history(1, 41));
  publish(*kept.pool, keys, std::span(longer).subspan(40));
  CHECK(kept.tier->backlog() == 41);
}
