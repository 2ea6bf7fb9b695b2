// The sample that says how good the choice of pages to keep was, beside all requests.
#include "dataplane/hit_watch.h"

#include <catch2/catch.hpp>
#include <utility>

#include "base/random.h"
#include "dataplane/optimum.h"
#include "dataplane/replay.h"

using namespace sluice;

namespace {

/// LRU, whose visits the watch sees, as a table of pages shows them.
class Watched final : public EvictionPolicy {
 public:
  Watched(PoolSize size, HitWatch& watch) : policy_(make_lru(size)), watch_(watch) {}
  void visit(const Visit& visit) override {
    policy_->visit(visit);
    watch_.visit(visit.path);
  }
  Slot victim(Held held) override { return policy_->victim(held); }
  void removed(Slot slot) override { policy_->removed(slot); }

 private:
  std::unique_ptr<EvictionPolicy> policy_;
  HitWatch& watch_;
};

struct Run {
  explicit Run(std::uint32_t capacity)
      : size{capacity, capacity + 64},
        watch(capacity),
        replay(size, std::make_unique<Watched>(size, watch)) {}
  std::uint32_t ask(const std::vector<std::uint64_t>& path) { return replay.request(++now, path); }

  PoolSize size;
  HitWatch watch;
  Replay replay;
  std::uint64_t now = 0;
};

/// Chats: each asks again with one block more, or ends and another begins.
std::vector<std::vector<std::uint64_t>> chats(std::size_t requests, std::size_t open) {
  SplitMix64 random(5);
  std::vector<std::vector<std::uint64_t>> all, going(open);
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    std::vector<std::uint64_t>& chat = going[random.next() % open];
    if (chat.size() > 6 || random.uniform() < 0.2) chat.clear();
    chat.push_back(++blocks);
    all.push_back(chat);
  }
  return all;
}

}  // namespace

TEST_CASE("what is counted is the later half of what is remembered, block for block") {
  Run run(100);
  std::vector<std::pair<std::size_t, std::uint32_t>> asked;  // blocks, hits
  Optimum optimum;
  std::uint64_t all = 0;
  for (const auto& path : chats(600, 40)) {
    asked.emplace_back(path.size(), run.ask(path));
    optimum.add(path);
    all += path.size();
  }
  REQUIRE(all < 4096);
  std::uint64_t blocks = 0, hits = 0, seen = 0;
  std::size_t before = 0;
  for (const auto& [count, there] : asked) {
    if (2 * seen >= all) {
      blocks += count;
      hits += there;
    } else {
      ++before;
    }
    seen += count;
  }
  const HitWindow window = run.watch.look();
  CHECK((window.blocks == blocks && window.hits == hits));
  CHECK(window.optimum == optimum.hits(100, before));
  CHECK((window.hits > 0 && window.hits < window.optimum && window.optimum < window.blocks));
}

TEST_CASE("a loop larger than the pool is where LRU has nothing and the best choice most") {
  Run run(64);
  for (int round = 0; round < 200; ++round)
    for (std::uint64_t block = 1; block <= 80; ++block) run.ask({block});
  const HitWindow window = run.watch.look();
  CHECK(window.hits == 0);
  CHECK(window.blocks >= 2000);
  CHECK(window.optimum > window.blocks * 3 / 4);
  CHECK(window.optimum <= window.blocks);
}

TEST_CASE("with room for all there is nothing to choose") {
  Run run(4000);
  for (int round = 0; round < 300; ++round)
    for (std::uint64_t block = 1; block <= 200; ++block) run.ask({block});
  const HitWindow window = run.watch.look();
  CHECK(window.blocks > 0);
  CHECK((window.hits == window.blocks && window.optimum == window.blocks));
}

TEST_CASE("a sample says of a large pool what all of its requests say") {
  Run run(4096);
  const auto paths = chats(60'000, 1500);
  std::uint64_t blocks = 0, hits = 0;
  Optimum optimum;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::uint32_t there = run.ask(paths[i]);
    optimum.add(paths[i]);
    if (2 * i < paths.size()) continue;
    blocks += paths[i].size();
    hits += there;
  }
  const HitWindow window = run.watch.look();
  const auto part = [](std::uint64_t of, std::uint64_t count) {
    return static_cast<double>(of) / static_cast<double>(count);
  };
  CHECK(window.blocks < blocks / 16);
  CHECK(part(window.hits, window.blocks) == Approx(part(hits, blocks)).margin(0.05));
  CHECK(part(window.optimum, window.blocks) ==
        Approx(part(optimum.hits(4096, paths.size() / 2), blocks)).margin(0.05));
}

TEST_CASE("what was never asked is no window") {
  const HitWindow window = HitWatch(1).look();
  CHECK((window.blocks == 0 && window.hits == 0 && window.optimum == 0));
}
