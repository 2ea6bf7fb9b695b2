// Prompts whose beginnings another machine has computed: fewer rows are computed, and nobody's
// answer changes, whatever the other machine and the way to it do.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/sha256.h"
#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/page_window.h"
#include "engine/tasks/generator.h"
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

std::vector<Generation> requests(std::uint64_t seed) {
  std::vector<Generation> made;
  for (std::uint64_t id = 0; id < 10; ++id) {
    Generation one;
    one.id = id;
    one.options.tokens_max = 4 + id % 3;
    one.options.sampling.temperature = id % 3 == 0 ? 0.8F : 0;
    one.options.seed = id;
    SplitMix64 begin(id % 2), rest(seed + id % 4);
    for (int i = 0; i < 26; ++i) one.history.push_back(static_cast<int>(begin.next() % 128));
    for (std::uint64_t i = 0; i < 3 + 5 * (id % 3); ++i)
      one.history.push_back(static_cast<int>(rest.next() % 128));
    one.origin.model = "qwen2";
    model().text().embed(one.history, one.rows);
    made.push_back(std::move(one));
  }
  return made;
}

testing::KeptAnswers run(KeptPool& kept, std::size_t at_once, std::uint64_t seed = 4) {
  return testing::answer_over(model(), kept, requests(seed), at_once);
}

KeptPool alone() {
  return std::move(KeptPool::make(model().text().kv_shape(4), 400, "", 0)).value();
}

KeptPool among(PeerPort& port, std::size_t pages = 400) {
  return std::move(KeptPool::make_among(model().text().kv_shape(4), pages, port, "kv")).value();
}

const std::uint64_t channel_of_kv = sha256_prefix("pages of kv");

}  // namespace

TEST_CASE("what one machine has computed another pulls, with the same answers") {
  KeptPool own = alone();
  const testing::KeptAnswers want = run(own, 1);
  for (const std::size_t at_once : {1U, 4U}) {
    PeerHub hub;
    KeptPool first = among(hub.add(0)), second = among(hub.add(1));
    CHECK(run(first, at_once).answers == want.answers);
    const testing::KeptAnswers pulled = run(second, at_once);
    CHECK(pulled.answers == want.answers);
    CHECK(pulled.computed < want.computed);
    const KvPeers::Counts counts = second.peers->counts();
    CHECK(counts.pulled > 0);
    CHECK(counts.pulled == first.peers->counts().served.pages);
    CHECK(counts.ends[static_cast<std::size_t>(PullEnd::broken)] == 0);
    // What was pulled is given on.
    KeptPool third = among(hub.add(2));
    const testing::KeptAnswers again = run(third, at_once);
    CHECK(again.answers == want.answers);
    CHECK(third.peers->counts().pulled > 0);
    // And of pages that both have none is pulled.
    CHECK(run(second, at_once).answers == want.answers);
    CHECK(second.peers->counts().pulled == counts.pulled);
    CHECK(second.peers->is_waited_for() == false);
    CHECK(second.pool->pages_free() == second.pool->pages());
  }
}

TEST_CASE(
    "a pool among machines whose name is taken, or whose pages no message holds, is refused") {
  PeerHub hub;
  PeerPort& port = hub.add(0);
  const KeptPool first = among(port);
  const auto second = KeptPool::make_among(model().text().kv_shape(4), 4, port, "kv");
  REQUIRE_FALSE(second.ok());
  CHECK(second.error().code == ErrorCode::invalid_argument);
  CHECK(second.error().message.find("'kv'") != std::string::npos);
  CHECK(KeptPool::make_among(model().text().kv_shape(4), 4, port, "other").ok());
  // 32 MiB and one token more.
  constexpr std::size_t tokens = pages::page_bytes_most / (8 * 64 * 2 * sizeof(float));
  const auto large = KeptPool::make_among({8, 64, tokens + 1}, 1, port, "large");
  REQUIRE_FALSE(large.ok());
  CHECK(large.error().message.find("page_tokens") != std::string::npos);
  CHECK(KeptPool::make_among({8, 64, tokens}, 1, port, "large").ok());
}

TEST_CASE("pages that are changed, lost or cut on their way are computed") {
  KeptPool own = alone();
  const testing::KeptAnswers want = run(own, 4);
  for (const int fault : {0, 1, 2, 3}) {
    PeerHub hub;
    KeptPool first = among(hub.add(0)), second = among(hub.add(1));
    CHECK(run(first, 4).answers == want.answers);
    SplitMix64 random(static_cast<std::uint64_t>(fault) + 1);
    hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
      if (from.machine != 0 || message.size() < 128) return true;  // pages only
      if (fault == 0) message[random.next() % message.size()] ^= std::byte{4};
      if (fault == 1) message.resize(message.size() / 2);
      if (fault == 2) return false;
      if (fault == 3) std::swap(message[80], message.back());
      return true;
    };
    CHECK(run(second, 4).answers == want.answers);
    const KvPeers::Counts counts = second.peers->counts();
    CHECK(counts.pulled == 0);
    std::uint64_t failed = 0;
    for (std::size_t end = 1; end < pull_ends; ++end)
      if (static_cast<PullEnd>(end) != PullEnd::nobody) failed += counts.ends[end];
    CHECK(failed > 0);
    CHECK(counts.ends[static_cast<std::size_t>(PullEnd::done)] == 0);
  }
}

TEST_CASE("a pool that is too small for what comes goes on without it") {
  KeptPool own = alone();
  const testing::KeptAnswers want = run(own, 1);
  PeerHub hub;
  KeptPool first = among(hub.add(0)), second = among(hub.add(1), 13);
  CHECK(run(first, 1).answers == want.answers);
  CHECK(run(second, 1).answers == want.answers);
  CHECK(second.pool->pages_free() == 13);
  // Pages are given up here while others ask for them.
  KeptPool third = among(hub.add(2));
  CHECK(run(third, 2).answers == want.answers);
}

TEST_CASE("who waits for pages is forgotten, and who waits behind it asks by itself") {
  PeerHub hub;
  KeptPool first = among(hub.add(0)), second = among(hub.add(1));
  (void)run(first, 1);
  bool holds = true;
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>&) {
    return from.machine != 0 || !holds;
  };
  const std::vector<Generation> all = requests(4);
  const auto begin = [&](std::uint64_t task) {
    return second.peers->begin(task, all[task].origin, all[task].history, {}, 1000);
  };
  CHECK(begin(0));
  CHECK(begin(2));  // begins alike
  second.peers->forget(0);
  holds = false;
  std::vector<PageSource::Ready> ready;
  for (int i = 0; i < 50 && ready.empty(); ++i) second.peers->poll(2000, ready);
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].task == 2);
  CHECK(ready[0].tokens > 0);
  CHECK_FALSE(second.peers->is_waited_for());
}

TEST_CASE("computing is chosen where it costs less than pulling did") {
  PeerHub hub;
  KeptPool first = among(hub.add(0)), second = among(hub.add(1));
  (void)run(first, 1);
  const std::vector<Generation> all = requests(4);
  std::vector<PageSource::Ready> ready;
  CHECK(second.peers->begin(0, all[0].origin, all[0].history, 1e9, 0));
  for (int i = 0; i < 50 && ready.empty(); ++i)
    second.peers->poll(0, ready, std::chrono::milliseconds(1));
  REQUIRE(ready.size() == 1);
  CHECK(ready[0].tokens > 0);
  // A token costs nothing: not even the question is worth it.
  CHECK_FALSE(second.peers->begin(1, all[1].origin, all[1].history, 1e-9, 0));
  CHECK(second.peers->counts().not_worth == 1);
}

TEST_CASE("few pages that come with the answer are not what a question costs") {
  PeerHub hub;
  KeptPool first = among(hub.add(0)), second = among(hub.add(1));
  (void)run(first, 1);
  const std::vector<Generation> all = requests(4);
  const auto few = [](const Generation& one) { return std::span(one.history).first(17); };
  std::vector<PageSource::Ready> ready;
  REQUIRE(second.peers->begin(0, all[0].origin, few(all[0]), 1e9, 0));
  constexpr std::int64_t later = 100'000'000;
  while (ready.empty()) second.peers->poll(later, ready);
  CHECK(ready[0].tokens == 16);
  // Computing takes less than those took, and a question none that is known.
  CHECK(second.peers->begin(1, all[1].origin, few(all[1]), 1e6, later));
  CHECK(second.peers->counts().not_worth == 0);
}

TEST_CASE("where computing is quicker few pages are not asked for with the question") {
  PeerHub hub;
  KeptPool first = among(hub.add(0)), second = among(hub.add(1));
  (void)run(first, 1);
  const std::vector<Generation> all = requests(4);
  const auto few = [](const Generation& one) { return std::span(one.history).first(17); };
  std::size_t asked = 0, found = 0;
  hub.on_way = [&](PeerLife, PeerLife, const std::vector<std::byte>& bytes) {
    const std::optional<pages::Message> message = pages::decode(bytes);
    asked += message && std::holds_alternative<pages::Ask>(*message) ? 1 : 0;
    found += message && std::holds_alternative<pages::Find>(*message) ? 1 : 0;
    return true;
  };
  std::vector<PageSource::Ready> ready;
  REQUIRE(second.peers->begin(0, all[0].origin, few(all[0]), 1e9, 0));
  while (ready.empty()) second.peers->poll(0, ready, std::chrono::milliseconds(1));
  CHECK(ready[0].tokens == 16);
  CHECK(asked == 1);
  CHECK(found == 0);
  ready.clear();
  REQUIRE(second.peers->begin(1, all[1].origin, few(all[1]), 1e-9, 0));
  CHECK(asked == 1);
  CHECK(found == 1);
  while (ready.empty()) second.peers->poll(0, ready);
  CHECK(ready[0].tokens == 0);
  CHECK(second.peers->counts().not_worth == 1);
}

TEST_CASE("what a machine cost that has gone does not keep others from sending with the answer") {
  PeerHub hub;
  std::optional<KeptPool> first = among(hub.add(0));
  KeptPool second = among(hub.add(1));
  (void)run(*first, 1);
  const std::vector<Generation> all = requests(4);
  const auto few = [](const Generation& one) { return std::span(one.history).first(17); };
  std::vector<PageSource::Ready> ready;
  REQUIRE(second.peers->begin(0, all[0].origin, few(all[0]), 1e9, 0));
  while (ready.empty()) second.peers->poll(1'000'000'000, ready, std::chrono::milliseconds(1));
  REQUIRE(ready[0].tokens == 16);
  first.reset();
  KeptPool third = among(hub.add(2));
  (void)run(third, 1);
  std::size_t asked = 0;
  hub.on_way = [&](PeerLife, PeerLife to, const std::vector<std::byte>& bytes) {
    const std::optional<pages::Message> message = pages::decode(bytes);
    asked += message && std::holds_alternative<pages::Ask>(*message) && to.machine == 2 ? 1 : 0;
    return true;
  };
  ready.clear();
  second.peers->poll(1'000'000'000, ready);
  REQUIRE(second.peers->begin(1, all[1].origin, few(all[1]), 1e-9, 1'000'000'000));
  CHECK(asked == 1);
}

TEST_CASE("machines tell each other something, and know whether it has arrived") {
  PeerHub hub;
  KeptPool first = among(hub.add(0));
  const pages::Bytes text(3, std::byte{5});
  {
    auto second = std::make_unique<KeptPool>(among(hub.add(1)));
    const std::uint64_t number = second->peers->tell(first.peers->self(), text);
    CHECK(second->peers->told(number) == KvPeers::Told::arrived);
    const auto words = first.peers->take_words();
    REQUIRE(words.size() == 1);
    CHECK(words[0].text == text);
    CHECK(words[0].from == second->peers->self());
    CHECK(second->peers->told(second->peers->tell({0, 0}, text)) == KvPeers::Told::failed);
    // Who has not joined yet hears of it when it does.
    const std::uint64_t early = second->peers->tell({7, 1}, text);
    CHECK(second->peers->told(early) == KvPeers::Told::waiting);
    const KeptPool later = among(hub.add(7));
    CHECK(second->peers->told(early) == KvPeers::Told::arrived);
    CHECK(later.peers->take_words().size() == 1);
    hub.on_way = [](PeerLife, PeerLife, std::vector<std::byte>&) { return false; };
    const std::uint64_t lost = first.peers->tell(second->peers->self(), text);
    CHECK(first.peers->told(lost) == KvPeers::Told::waiting);
    hub.on_way = {};
    second.reset();
    CHECK(first.peers->told(lost) == KvPeers::Told::unsure);
  }
}

TEST_CASE("what nobody waits for any more is not said later, and what was on its way is not sure") {
  PeerHub hub;
  const KeptPool first = among(hub.add(0)), second = among(hub.add(1));
  const pages::Bytes text(3, std::byte{5});
  CHECK(first.peers->has_met(1));
  CHECK_FALSE(first.peers->has_met(7));
  const std::uint64_t early = first.peers->tell({7, 1}, text);
  CHECK(first.peers->give_up(early) == KvPeers::Told::failed);
  CHECK(first.peers->told(early) == KvPeers::Told::failed);
  const KeptPool later = among(hub.add(7));
  CHECK(first.peers->has_met(7));
  CHECK(later.peers->take_words().empty());
  // Its receipt is lost on the way.
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>&) { return from.machine != 1; };
  const std::uint64_t slow = first.peers->tell({1, 1}, text);
  CHECK(first.peers->give_up(slow) == KvPeers::Told::unsure);
  CHECK(first.peers->told(slow) == KvPeers::Told::unsure);
  CHECK(second.peers->take_words().size() == 1);
}

TEST_CASE("who has another secret or other pages hears nothing, which is known at once") {
  PeerHub hub;
  const KeptPool first = among(hub.add(0));
  const pages::Bytes text(3, std::byte{5});
  const std::uint64_t early = first.peers->tell({1, 1}, text);
  CHECK(first.peers->told(early) == KvPeers::Told::waiting);
  CHECK(first.peers->mismatch({1, 1}) == std::nullopt);
  {
    const KeptPool second = among(hub.add(1, 1, 8));
    const auto third = KeptPool::make_among(model().text().kv_shape(8), 40, hub.add(2), "kv");
    REQUIRE(third.ok());
    CHECK(first.peers->mismatch({1, 1}) == PageMismatch::secret);
    CHECK(first.peers->mismatch({2, 1}) == PageMismatch::layout);
    CHECK(first.peers->told(early) == KvPeers::Told::failed);
    for (const std::uint32_t machine : {1U, 2U})
      CHECK(first.peers->told(first.peers->tell({machine, 1}, text)) == KvPeers::Told::failed);
    CHECK(second.peers->told(second.peers->tell({0, 1}, text)) == KvPeers::Told::failed);
  }
  // It may come again with the right one.
  CHECK(first.peers->mismatch({1, 1}) == std::nullopt);
  const std::uint64_t late = first.peers->tell({1, 2}, text);
  const KeptPool again = among(hub.add(1, 2));
  CHECK(first.peers->told(late) == KvPeers::Told::arrived);
}

TEST_CASE("who has read a prompt is asked for its pages, of however many machines") {
  for (const bool is_told : {false, true}) {
    PeerHub hub;
    std::vector<KeptPool> others;
    for (std::uint32_t machine = 1; machine < 12; ++machine)
      others.push_back(among(hub.add(machine), 8));
    KeptPool reader = among(hub.add(12)), first = among(hub.add(0));
    (void)run(reader, 1);
    const std::vector<Generation> all = requests(4);
    if (is_told) first.peers->ask_first(reader.peers->self());
    REQUIRE(first.peers->begin(0, all[0].origin, all[0].history, {}, 1000));
    std::vector<PageSource::Ready> ready;
    for (int i = 0; i < 50 && ready.empty(); ++i) first.peers->poll(2000, ready);
    REQUIRE(ready.size() == 1);
    CHECK((ready[0].tokens > 0) == is_told);
  }
}

TEST_CASE("the receipt of what was given up is still answered") {
  PeerHub hub;
  auto& port = hub.add(1);
  const KeptPool first = among(hub.add(0)), second = among(port);
  std::vector<std::vector<std::byte>> late;
  bool holds = true;
  std::size_t receipts = 0;
  hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
    if (holds && from.machine == 1) late.push_back(message);
    const auto read = pages::decode(message);
    receipts += read.has_value() && std::get_if<pages::Took>(&*read) != nullptr ? 1 : 0;
    return !holds || from.machine != 1;
  };
  const std::uint64_t slow = first.peers->tell({1, 1}, pages::Bytes(3));
  CHECK(first.peers->give_up(slow) == KvPeers::Told::unsure);
  holds = false;
  REQUIRE(late.size() == 1);
  port.send(channel_of_kv, {0, 1}, late[0]);
  CHECK(receipts == 1);
  port.send(channel_of_kv, {0, 1}, late[0]);  // said again
  CHECK(receipts == 1);
}

TEST_CASE("people are told why two machines exchange no pages, on both") {
  PeerHub hub;
  auto &right = hub.add(0), &other = hub.add(1, 1, 9), &small = hub.add(2);
  const KeptPool first = among(right), second = among(other);
  CHECK_FALSE(first.peers->has_met(1));
  REQUIRE(right.notices.size() == 1);
  CHECK(right.notices[0].first == 1);
  CHECK(right.notices[0].second.find("another kv-pages.secret") != std::string::npos);
  REQUIRE(other.notices.size() == 1);
  CHECK(other.notices[0].first == 0);
  const KeptPool third =
      std::move(KeptPool::make_among(model().text().kv_shape(8), 40, small, "kv")).value();
  REQUIRE(right.notices.size() == 2);
  CHECK(right.notices[1].first == 2);
  CHECK(right.notices[1].second.find("another layout") != std::string::npos);
  CHECK(small.notices.at(0).first == 0);
}

TEST_CASE("what waits of one machine is bounded, however many lives it says that it has") {
  PeerHub hub;
  const KeptPool first = among(hub.add(0));
  const PeerLife self = first.peers->self();
  SECTION("words to its users") {
    const pages::Bytes text(pages::note_bytes_most);
    std::size_t arrived = 0;
    for (std::uint32_t life = 1; life <= 2; ++life) {
      const KeptPool other = among(hub.add(1, life));
      for (int i = 0; i < 20; ++i)
        arrived += other.peers->told(other.peers->tell(self, text)) == KvPeers::Told::arrived;
    }
    CHECK(arrived == KvPeers::words_bytes_most / pages::note_bytes_most);
  }
  SECTION("messages for the pool") {
    const pages::Bytes content(1U << 20U);
    pages::PageHead head;
    head.length = 1U << 20U;
    const pages::Bytes page = encode(pages::PageContent{head, content});
    const std::vector<Generation> all = requests(4);
    const Generation& one = all[0];
    for (std::uint32_t life = 1; life <= 2; ++life) {
      auto& port = hub.add(1, life);
      const KeptPool other = among(port);
      if (life == 1) (void)first.peers->begin(1, one.origin, one.history, {}, 0);  // it was met
      for (int i = 0; i < 15; ++i) port.send(channel_of_kv, self, page);
      CHECK(first.peers->unheard() >= 15);
      CHECK(first.peers->unheard() < 25);
    }
  }
  SECTION("that it came and went") {
    for (std::uint32_t life = 1; life <= 50; ++life) {
      auto& port = hub.add(1, life);
      const KeptPool other = among(port);
      port.send(channel_of_kv, self, encode(pages::Found{1, 1, 1}));
      CHECK(first.peers->unheard() == 2);
    }
    CHECK(first.peers->unheard() == 0);
    // What the owner has heard of it hears of its end.
    const std::vector<Generation> all = requests(4);
    const Generation& one = all[0];
    {
      const KeptPool other = among(hub.add(1, 51));
      (void)first.peers->begin(1, one.origin, one.history, {}, 0);
      CHECK(first.peers->unheard() == 1);  // what it has answered
    }
    CHECK(first.peers->unheard() == 2);
  }
}

TEST_CASE("what pools owe to a machine that takes nothing fits the window of their one link") {
  const KvShape shape{8, 64, 16};  // 64 KiB
  constexpr std::size_t of_one_ask = pages::ask_bytes_most / (std::size_t{64} << 10U);
  for (const std::size_t pools : {1U, 3U}) {
    PeerHub hub;
    auto &here = hub.add(0), &there = hub.add(1);
    std::vector<KeptPool> kept;
    std::vector<PageKey> keys;
    for (std::size_t i = 0; i < pools; ++i) {
      const std::string name = "pool " + std::to_string(i);
      kept.push_back(std::move(KeptPool::make_among(shape, 80, here, name)).value());
      RowsOrigin origin;
      origin.model = "m";
      keys = kept.back().pool->keys_of(origin, std::vector<std::int32_t>(of_one_ask * 16 + 1, 1));
      REQUIRE(keys.size() == of_one_ask);
      const std::vector<float> content(shape.page_values());
      const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
      REQUIRE(kept.back().pool->put(keys, 0, std::vector<const std::byte*>(of_one_ask, bytes)) ==
              of_one_ask);
      kept.push_back(std::move(KeptPool::make_among(shape, 80, there, name)).value());
    }
    std::size_t owed = 0;
    hub.on_way = [&](PeerLife from, PeerLife, std::vector<std::byte>& message) {
      owed += from.machine == 0 ? message.size() : 0;
      const auto read = pages::decode(message);
      return !read.has_value() || std::get_if<pages::Took>(&*read) == nullptr;
    };
    for (std::size_t i = 0; i < pools; ++i)
      for (std::uint64_t ask = 1; ask <= 400; ++ask)
        there.send(sha256_prefix("pages of pool " + std::to_string(i)), {0, 1},
                   encode(pages::Ask{ask, keys}));
    CHECK(owed > pools * PageServer::owed_most * 3 / 4);
    CHECK(owed <= page_window(pools));
  }
}

TEST_CASE("pages that are copied while their owner gives them to others are whole, or not there") {
  const KvShape shape{8, 64, 16};  // 64 KiB
  KvPool pool(shape, 24);
  PageExport shared(pool);
  constexpr std::uint64_t chains = 64;
  std::vector<std::vector<PageKey>> keys;
  for (std::uint64_t chain = 0; chain < chains; ++chain) {
    RowsOrigin origin;
    origin.model = "model " + std::to_string(chain);
    keys.push_back(pool.keys_of(origin, std::vector<std::int32_t>(4 * 16 + 1, 1)));
  }
  const auto number_of = [](const PageKey& key) { return static_cast<float>(key.words[0] >> 40U); };
  std::atomic<std::uint64_t> puts{0}, copies{0};
  std::uint64_t wrong = 0, misses = 0;
  std::thread reader([&] {
    SplitMix64 random(1);
    std::vector<float> to(shape.page_values());
    pages::Bytes copied;
    while (copies < 3000) {
      const PageKey& key = keys[random.next() % chains][random.next() % 4];
      copied.clear();
      const auto page = shared.append(key, copied);
      if (!page.has_value()) {
        ++misses;
        continue;
      }
      wrong += copied.size() != shape.page_bytes() ? 1 : 0;
      std::memcpy(to.data(), copied.data(), std::min(copied.size(), shape.page_bytes()));
      const float want = number_of(key);
      const bool whole = std::ranges::all_of(to, [&](float one) { return one == want; });
      wrong += !whole || page->crc32c != crc32c(std::as_bytes(std::span(to))) ? 1 : 0;
      ++copies;
    }
  });
  SplitMix64 random(2);
  std::vector<float> content(shape.page_values());
  while (copies < 3000) {
    const std::vector<PageKey>& chain = keys[random.next() % chains];
    for (std::size_t at = 0; at < chain.size(); ++at) {
      if (pool.table().match(chain) > at) continue;
      std::ranges::fill(content, number_of(chain[at]));
      const auto* bytes = reinterpret_cast<const std::byte*>(content.data());
      puts += pool.put(chain, at, {&bytes, 1});
    }
  }
  reader.join();
  CHECK(wrong == 0);
  CHECK(misses > 0);
  CHECK(puts > 24);
}
