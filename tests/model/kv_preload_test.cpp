// Pages that other machines tell of come before anybody asks for them, and only where there is
// room for them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "base/random.h"
#include "base/sha256.h"
#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/generator.h"
#include "engine/tasks/preloader.h"
#include "engine/tasks/text_engine.h"
#include "kept_answers.h"
#include "tests/directories.h"
#include "tests/peer_hub.h"

using namespace sluice;

namespace {

const std::string golden = std::string(SLUICE_SOURCE_DIR) + "/tests/golden/";

const Model& model() {
  static const Model loaded = Model::open(golden + "qwen2").value();
  return loaded;
}

std::vector<Generation> prompts(std::uint64_t seed, std::size_t tokens = 33) {
  std::vector<Generation> made(4);
  for (std::uint64_t id = 0; id < made.size(); ++id) {
    Generation& one = made[id];
    one.id = id;
    one.options.tokens_max = 2;
    SplitMix64 random(seed * 100 + id);
    for (std::size_t i = 0; i < tokens; ++i)
      one.history.push_back(static_cast<int>(random.next() % 128));
    one.origin.model = "qwen2";
    model().text().embed(one.history, one.rows);
  }
  return made;
}

testing::KeptAnswers run(KeptPool& kept, std::vector<Generation> what) {
  return testing::answer_over(model(), kept, std::move(what), 2);
}

PeerHub::Port& port_of(PeerHub& hub, std::uint32_t machine, bool preloads, std::uint32_t life = 1) {
  auto& port = hub.add(machine, life);
  port.does_preload = preloads;
  return port;
}

KeptPool among(PeerPort& port, std::size_t pages = 400) {
  return std::move(KeptPool::make_among(model().text().kv_shape(4), pages, port, "kv")).value();
}

/// Until nothing more is to be done.
void settle(KeptPool& kept, std::size_t wanted = 0) {
  for (int i = 0; i < 1000; ++i)
    if (!kept.peers->preload({}, wanted, 1000) && kept.peers->unheard() == 0) return;
}

/// Of pages that were asked for.
bool is_answer(const std::vector<std::byte>& message) {
  const auto read = pages::decode(message);
  return read && (std::get_if<pages::PageContent>(&*read) || std::get_if<pages::End>(&*read));
}

/// A prompt's pages.
struct Chain {
  std::vector<PageKey> keys;
  std::vector<const std::byte*> contents;
  /// Of two of them: as if a prompt began with the first.
  std::span<const PageKey> keys_at(std::size_t first) const {
    return std::span(keys).subspan(first, 2);
  }
  std::span<const std::byte* const> contents_at(std::size_t first) const {
    return std::span(contents).subspan(first, 2);
  }
};

std::vector<Chain> chains_of(KeptPool& kept, const std::vector<Generation>& prompts) {
  std::vector<Chain> made;
  for (const Generation& one : prompts) {
    Chain chain{kept.pool->keys_of(one.origin, one.history), {}};
    const Sequence there = kept.pool->open(chain.keys);
    for (const Page page : there.pages()) chain.contents.push_back(kept.pool->place(page));
    made.push_back(std::move(chain));
  }
  return made;
}

PagePreloads::Counts ahead(const KeptPool& kept) { return kept.peers->counts().preloads.value(); }

}  // namespace

TEST_CASE(
    "what another machine publishes is here when it is asked for, and nothing is pulled then") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  settle(second);
  const testing::KeptAnswers want = run(first, prompts(1));
  settle(second);
  const PagePreloads::Counts told = ahead(second);
  CHECK(told.taken > 0);
  CHECK((told.taken == told.told && told.missed == 0 && told.useful == 0));
  CHECK(second.peers->counts().pulled == told.taken);
  CHECK(second.pool->pages_free() == second.pool->pages());
  CHECK(second.pool->table().hit_window().blocks == 0);  // nobody has asked for any

  const testing::KeptAnswers got = run(second, prompts(1));
  CHECK(got.answers == want.answers);
  CHECK(got.computed < want.computed / 4);
  CHECK(second.peers->counts().pulled == told.taken);
  CHECK(ahead(second).useful >= 4 * 8);  // all full pages of the prompts
  // Nothing is told back but what is here already, and who does not preload asks nothing.
  CHECK(second.peers->counts().told == 0);
  CHECK_FALSE(first.peers->counts().preloads.has_value());
}

TEST_CASE("what comes as a task asks for pages is not forgotten: who waits for news hears of it") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  settle(second);
  CHECK_FALSE(second.peers->wait_for_news({}));
  (void)run(first, prompts(1));
  CHECK(second.peers->wait_for_news({}));
  std::vector<PageSource::Ready> nobody;
  for (int i = 0; i < 10 && second.peers->unheard() > 0; ++i) second.peers->poll(1000, nobody);
  CHECK(second.peers->unheard() == 0);
  CHECK(second.peers->wait_for_news({}));
  settle(second);
  CHECK_FALSE(second.peers->wait_for_news({}));
  CHECK(ahead(second).taken == ahead(second).told);
  second.peers->stop_waiting();
  CHECK(second.peers->wait_for_news(std::chrono::hours(1)));
}

TEST_CASE("a machine that comes later, or again, hears of all that is there") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false));
  (void)run(first, prompts(1));
  for (std::uint32_t life = 1; life <= 2; ++life) {
    KeptPool second = among(port_of(hub, 1, true, life));
    settle(second);
    CHECK(ahead(second).told == first.pool->table().cached_pages());
    CHECK(ahead(second).taken == ahead(second).told);
  }
}

TEST_CASE("pages that a machine says stand elsewhere than they do are in no prompt's way") {
  PeerHub hub, apart;
  KeptPool honest = among(port_of(apart, 0, false));
  const testing::KeptAnswers want = run(honest, prompts(1));
  KeptPool liar = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  for (const Chain& one : chains_of(honest, prompts(1)))
    CHECK(liar.pool->put(one.keys_at(1), 0, one.contents_at(1)) == 2);
  settle(second);
  CHECK(ahead(second).taken == 8);
  const testing::KeptAnswers got = run(second, prompts(1));
  CHECK((got.answers == want.answers && got.computed == want.computed));
  const testing::KeptAnswers again = run(second, prompts(1));
  CHECK((again.answers == want.answers && again.computed < want.computed / 4));
}

TEST_CASE("of pages that are here meanwhile nothing else is believed than where they are") {
  PeerHub hub, apart;
  KeptPool honest = among(port_of(apart, 0, false));
  (void)run(honest, prompts(1));
  const std::vector<Chain> chains = chains_of(honest, prompts(1));
  KeptPool liar = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  for (const Chain& one : chains) CHECK(liar.pool->put(one.keys_at(1), 0, one.contents_at(1)) == 2);
  bool was_asked = false;
  hub.on_way = [&](PeerLife, PeerLife, std::vector<std::byte>& message) {
    was_asked = was_asked || std::holds_alternative<pages::Ask>(*pages::decode(message));
    return true;
  };
  while (!was_asked) (void)second.peers->preload({}, 0, 1000);
  for (const Chain& one : chains)
    CHECK(second.pool->put(one.keys, 0, one.contents) == one.keys.size());
  settle(second);
  CHECK(ahead(second).told == 8);
  CHECK((ahead(second).had == 6 && ahead(second).missed == 2));
  for (const Chain& one : chains) CHECK(second.pool->table().match(one.keys) == one.keys.size());
}

TEST_CASE("where memory runs out amid a look what is under way is missed, and the rest comes") {
  PeerHub hub;
  auto& port = port_of(hub, 1, true);
  KeptPool first = among(port_of(hub, 0, false)), second = among(port);
  settle(second);
  (void)run(first, prompts(1));
  int thrown = 0;
  port.on_send = [&](const std::vector<std::byte>& message) {
    if (std::holds_alternative<pages::Ask>(*pages::decode(message)) && thrown++ == 0)
      throw std::bad_alloc();
  };
  CpuText text(model().text(), *second.pool);
  SharedEngine shared(text, PlannerOptions{});
  {
    Preloader preloader(shared, SharedEngine::Turn(shared).engine(), *second.peers);
    while (ahead(second).taken + ahead(second).missed < 4 * 8) std::this_thread::yield();
  }
  CHECK(thrown > 1);
  CHECK((ahead(second).missed > 0 && ahead(second).taken >= 3 * 8));
  CHECK(ahead(second).told == ahead(second).taken + ahead(second).missed);
  CHECK(second.pool->pages_free() == second.pool->pages());
}

TEST_CASE("a question for news that memory runs out for is asked once more") {
  PeerHub hub;
  auto& port = port_of(hub, 1, true);
  KeptPool first = among(port_of(hub, 0, false)), second = among(port);
  bool fails = true;
  port.on_send = [&](const std::vector<std::byte>& message) {
    const bool is_question = std::holds_alternative<pages::Follow>(*pages::decode(message));
    if (is_question && std::exchange(fails, false)) throw std::bad_alloc();
  };
  CHECK_THROWS_AS(second.peers->preload({}, 0, 1000), std::bad_alloc);
  settle(second);
  (void)run(first, prompts(1));
  settle(second);
  CHECK((ahead(second).told == 4 * 8 && ahead(second).taken == 4 * 8));
}

TEST_CASE("two that preload from each other take each page once") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, true)), second = among(port_of(hub, 1, true));
  (void)run(first, prompts(1));
  (void)run(second, prompts(2));
  for (int i = 0; i < 3; ++i) {
    settle(first);
    settle(second);
  }
  const std::uint64_t all = first.pool->table().cached_pages();
  CHECK(all == second.pool->table().cached_pages());
  CHECK(ahead(first).taken + ahead(second).taken == all);
  CHECK(ahead(first).had == ahead(second).taken);
  CHECK(ahead(second).had == ahead(first).taken);
}

TEST_CASE("a machine that is lost when it has told of pages costs nothing but those") {
  PeerHub hub;
  auto first = std::make_unique<KeptPool>(among(port_of(hub, 0, false)));
  KeptPool second = among(port_of(hub, 1, true));
  (void)second.peers->preload({}, 0, 1000);  // it has asked
  std::size_t messages = 0;
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    return from.machine != 0 || !is_answer(message) || ++messages <= 3;  // then it stands still
  };
  const testing::KeptAnswers want = run(*first, prompts(1));
  settle(second, 0);
  CHECK(second.peers->holds_pages());
  first.reset();
  settle(second);
  CHECK_FALSE(second.peers->holds_pages());
  const PagePreloads::Counts now = ahead(second);
  CHECK(now.taken == 2);  // the first page, its end, and the first of the others
  CHECK((now.missed > 0 && now.told == now.taken + now.missed));
  CHECK(second.pool->pages_free() == second.pool->pages());
  CHECK(run(second, prompts(1)).answers == want.answers);
}

TEST_CASE("pages that tasks want are not taken, and what is under way is given up for them") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true), 50);
  settle(second);
  const testing::KeptAnswers want = run(first, prompts(1));
  settle(second, 50);  // all are wanted
  CHECK(ahead(second).taken == 0);
  bool holds = true;
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    return from.machine != 0 || !holds || !is_answer(message);
  };
  CHECK(second.peers->preload({}, 45, 1000));
  CHECK(second.peers->holds_pages());
  CHECK(second.pool->pages_free() == 45);
  second.peers->drop_preload();
  CHECK(second.pool->pages_free() == 50);
  CHECK_FALSE(second.peers->holds_pages());
  holds = false;
  settle(second);
  CHECK(ahead(second).told == ahead(second).taken + ahead(second).missed);
  CHECK(ahead(second).missed > 0);
  CHECK(run(second, prompts(1)).answers == want.answers);
}

TEST_CASE("what a task has used is given up for no more pages than preloads have been worth") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true), 48);
  settle(second);
  (void)run(second, prompts(1));
  CHECK(second.pool->table().cached_pages() == 32);
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    (void)run(first, prompts(seed));
    settle(second);
  }
  const PagePreloads::Counts now = ahead(second);
  CHECK(now.taken > 12);
  CHECK(now.displaced > 0);
  // An eighth, and as many for one run in 17.
  CHECK(now.displaced <= 6 + 6 * 3);
  CHECK(now.missed > 0);
}

TEST_CASE(
    "a task that comes for pages which are under way waits for those, and asks for the rest") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  const std::vector<Generation> all = prompts(1);
  settle(second);
  const testing::KeptAnswers want = run(first, prompts(1));
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    return from.machine != 0 || !is_answer(message);
  };
  CHECK(second.peers->preload({}, 0, 1000));
  REQUIRE(second.peers->holds_pages());
  std::vector<PageSource::Ready> ready;
  std::size_t waits = 0;
  for (const Generation& one : all)
    waits += second.peers->begin(one.id + 1, one.origin, one.history, {}, 1000) ? 1 : 0;
  CHECK(waits == all.size());
  CHECK(second.peers->is_waited_for());
  hub.on_way = {};
  second.peers->drop_preload();  // whoever waited for it asks by itself
  for (int i = 0; i < 100 && ready.size() < all.size(); ++i) second.peers->poll(2000, ready);
  CHECK(ready.size() == all.size());
  CHECK_FALSE(second.peers->is_waited_for());
  CHECK(run(second, prompts(1)).answers == want.answers);
}

TEST_CASE("a task is not kept from its pages by what is preloaded, however long that takes") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  settle(second);
  (void)run(first, prompts(1));
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    return from.machine != 0 || !is_answer(message);
  };
  CHECK(second.peers->preload({}, 0, 1000));
  REQUIRE(second.peers->holds_pages());
  hub.on_way = {};
  // The first prompt's pages are under way, and will not come.
  const std::vector<Generation> all = prompts(1);
  std::vector<PageSource::Ready> ready;
  REQUIRE(second.peers->begin(3, all[3].origin, all[3].history, {}, 1000));
  CHECK(second.peers->preload({}, 0, 1000));  // begins nothing more
  for (int i = 0; i < 10 && ready.empty(); ++i) second.peers->poll(2000, ready);
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tokens == 32);
  CHECK(second.peers->holds_pages());
  CHECK(ahead(second).taken == 0);
  // Until it has taken too long: it is missed.
  (void)second.peers->preload({}, 0, 1000 + 2 * PagePuller::page_patience);
  CHECK(ahead(second).missed > 0);
  CHECK(second.pool->pages_free() == second.pool->pages());
}

TEST_CASE("what a machine tells while it is left alone waits until it is asked again") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  settle(second);
  bool holds = true;
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    return from.machine != 0 || !holds || !is_answer(message);
  };
  (void)run(first, prompts(1));
  CHECK(second.peers->preload({}, 0, 1000));
  holds = false;
  std::int64_t now = 1000 + 2 * PagePuller::page_patience;
  CHECK(second.peers->preload({}, 0, now));  // that was late
  const std::uint64_t late = ahead(second).missed;
  CHECK((late > 0 && late < ahead(second).told));
  (void)run(first, prompts(2));
  CHECK(second.peers->preload({}, 0, now));
  CHECK(ahead(second).missed == late);
  now += PagePuller::first_pause;
  for (int i = 0; i < 1000 && second.peers->preload({}, 0, now); ++i) continue;
  CHECK(ahead(second).taken >= 4 * 8);
  CHECK(ahead(second).told == ahead(second).taken + ahead(second).missed);
}

TEST_CASE("a task does not wait for what a look between two turns has taken for it") {
  PeerHub hub;
  KeptPool first = among(port_of(hub, 0, false)), second = among(port_of(hub, 1, true));
  (void)run(first, prompts(1));
  hub.on_way = [](PeerLife, PeerLife, std::vector<std::byte>& message) {
    const auto read = pages::decode(message);
    return !read || !std::get_if<pages::Published>(&*read);  // nothing comes before it is asked for
  };
  const std::vector<Generation> all = prompts(1);
  REQUIRE(second.peers->begin(1, all[0].origin, all[0].history, {}, 1000));
  std::vector<PageSource::Ready> ready;
  for (int i = 0; i < 10 && ready.empty(); ++i) {
    (void)second.peers->preload({}, 0, 1000);
    CHECK(second.peers->unheard() == 0);  // so a poll that waits would wait for ever
    second.peers->poll(1000, ready, std::chrono::hours(1));
  }
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tokens == 32);
}

TEST_CASE(
    "nothing is preloaded of a machine with another secret, nor taken that was not asked for") {
  PeerHub hub;
  auto& right = port_of(hub, 0, true);
  auto& other = hub.add(1, 1, 9);
  KeptPool first = among(right), second = among(other);
  (void)run(second, prompts(1));
  settle(first);
  CHECK(ahead(first).told == 0);
  const std::uint64_t channel = sha256_prefix("pages of kv");
  const pages::Bytes told = encode(pages::Published{1, 1, {{PageKey{{1, 2, 3, 4}}, {}}}});
  other.send(channel, right.self(), told);
  other.send(channel, right.self(), encode(pages::Follow{}));
  const std::uint64_t before = first.peers->counts().served.refused;
  CHECK(before >= 2);
  // One that has met, and says what it was not asked for.
  auto& third = port_of(hub, 2, false);
  KeptPool met = among(third);
  settle(first);
  third.send(channel, right.self(), told);
  settle(first);
  CHECK(ahead(first).told == 1);            // it was asked
  third.send(channel, right.self(), told);  // a number that is no later one
  third.send(channel, right.self(), told);
  settle(first);
  CHECK(ahead(first).told == 1);
  CHECK(ahead(first).refused == 2);
}
