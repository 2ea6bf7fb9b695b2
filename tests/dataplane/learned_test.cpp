// What the learned policy estimates, that it takes leaves only, and how it does on generated
// workloads.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "dataplane/optimum.h"
#include "dataplane/replay.h"
#include "dataplane/reuse_times.h"
#include "tests/dataplane/workloads.h"

using namespace sluice;

namespace {

double hit_rate(std::string_view name, std::uint32_t capacity,
                const std::vector<TraceRequest>& requests) {
  const PoolSize size{capacity, capacity + 512};
  Replay replay(size, std::move(make_eviction(name, size).value()));
  double hits = 0, blocks = 0;
  for (const TraceRequest& request : requests) {
    hits += replay.request(request.timestamp_ms, request.blocks);
    blocks += static_cast<double>(request.blocks.size());
  }
  return hits / blocks;
}

}  // namespace

TEST_CASE("steps of idle time meet without gaps and hold what begins in them") {
  for (std::uint32_t step = 0; step + 1 < reuse_ages; ++step) {
    REQUIRE(age_begin(step) < age_begin(step + 1));
    CHECK(age_step(age_begin(step)) == step);
    CHECK(age_step(age_begin(step + 1) - 1) == step);
  }
  CHECK(age_step(~0ULL) == reuse_ages - 1);
}

TEST_CASE("old habits fade for all classes alike, and new ones count for more from then on") {
  constexpr std::uint64_t halved_after = std::uint64_t{1} << 18;
  ReuseTimes times, fresh;
  const auto teach = [](ReuseTimes& to, std::uint32_t kind, std::uint64_t age,
                        std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      to.survived(kind, 0, age);
      to.returned(kind, age);
    }
  };
  // Two classes with the same habits, as many returns as are remembered whole, and one with half.
  const std::uint32_t one = reuse_classes / 2, other = reuse_classes - reuse_details;
  for (const std::uint32_t kind : {one, other}) {
    teach(times, kind, 5000, halved_after / 2);
    teach(fresh, kind, 5000, halved_after / 4);
  }
  times.learn();
  fresh.learn();
  for (std::uint32_t step = 0; step < reuse_ages; ++step) {
    CHECK(times.rank(one, step) == times.rank(other, step));
    CHECK(times.rank(one, step) == fresh.rank(one, step));  // half of it is left
  }
}

TEST_CASE("blocks that return sooner, surer or at a known time rank higher") {
  ReuseTimes times;
  SplitMix64 random(1);
  const auto teach = [&](std::uint32_t kind, double chance, double mean_ms) {
    for (int i = 0; i < 20000; ++i) {
      const bool returns = random.uniform() < chance;
      const auto age =
          returns ? static_cast<std::uint64_t>(-mean_ms * std::log(random.uniform())) : 1000000ULL;
      times.survived(kind, 0, age);
      if (returns) times.returned(kind, age);
    }
  };
  teach(0, 1.0, 60000);
  teach(1, 1.0, 10000);
  teach(2, 0.1, 60000);
  for (int i = 0; i < 20000; ++i) {  // a loop of one minute
    times.survived(3, 0, 60000);
    times.returned(3, 60000);
  }
  times.learn();
  // Without memory the rank is the rate, at any age; per millisecond.
  CHECK(times.rank(0, age_step(5000)) == Approx(1.0 / 60000).epsilon(0.25));
  CHECK(times.rank(1, age_step(5000)) == Approx(1.0 / 10000).epsilon(0.25));
  CHECK(times.rank(0, age_step(30000)) == Approx(1.0 / 60000).epsilon(0.25));
  CHECK(times.rank(2, age_step(1000)) < 0.3 * times.rank(0, age_step(1000)));
  // One that did not come for long, and comes seldom, is not expected any more.
  CHECK(times.rank(2, age_step(500000)) < 0.2 * times.rank(2, age_step(1000)));
  // In a loop the longest idle is the next to come.
  CHECK(times.rank(3, age_step(40000)) > 1.5 * times.rank(3, age_step(2000)));
}

TEST_CASE("an observation that weighs three counts as three") {
  ReuseTimes heavy, often;
  for (int i = 0; i < 20; ++i) {
    heavy.survived(0, 0, 7000, 3);
    heavy.returned(0, 7000, 3);
    for (int time = 0; time < 3; ++time) {
      often.survived(0, 0, 7000);
      often.returned(0, 7000);
    }
  }
  heavy.learn();
  often.learn();
  for (std::uint32_t step = 0; step < reuse_ages; ++step)
    CHECK(heavy.rank(0, step) == Approx(often.rank(0, step)));
}

TEST_CASE("a class of which little is known does as its group does, and its group as all do") {
  ReuseTimes times;
  const auto teach = [&](std::uint32_t kind, std::uint64_t age, int count) {
    for (int i = 0; i < count; ++i) {
      times.survived(kind, 0, age);
      times.returned(kind, age);
    }
  };
  teach(0, 10000, 20000);
  teach(reuse_details, 100000, 20000);
  teach(1, 12000, 2);
  teach(reuse_details + 1, 120000, 2);
  times.learn();
  const std::uint32_t age = age_step(5000);
  CHECK(times.rank(1, age) == Approx(times.rank(0, age)).epsilon(0.2));
  CHECK(times.rank(reuse_details + 1, age) == Approx(times.rank(reuse_details, age)).epsilon(0.2));
  CHECK(times.rank(2 * reuse_details, age) == times.rank(3 * reuse_details, age));
  CHECK(times.rank(2 * reuse_details, age) > times.rank(reuse_details, age));
}

TEST_CASE("what a detail says in one group it says in another of which little is known") {
  ReuseTimes times;
  const auto teach = [&](std::uint32_t kind, int returns, int others) {
    for (int i = 0; i < returns + others; ++i) {
      times.survived(kind, 0, i < returns ? 10000 : 600000);
      if (i < returns) times.returned(kind, 10000);
    }
  };
  // Both details of a class of the first groups; of the second group one class is not known.
  for (const std::uint32_t detail : {1U, 4U}) {
    teach(0, 300, 2700);
    teach(detail, 2700, 300);
    teach(reuse_details, 300, 2700);
    times.learn();
    const std::uint32_t age = age_step(8000);
    CHECK(times.rank(reuse_details + detail, age) > 2 * times.rank(reuse_details, age));
  }
}

TEST_CASE("of blocks used once those of first requests go, where what goes on comes back") {
  // Each second a text comes that never comes again, and one that is gone on with after a minute,
  // by as much again; what was added then comes once more, a minute later.
  std::vector<TraceRequest> requests;
  std::uint64_t next = 1;
  const auto add = [&](std::vector<std::uint64_t>& text) {
    for (int i = 0; i < 6; ++i) text.push_back(next++);
  };
  std::vector<std::vector<std::uint64_t>> texts;
  for (std::uint64_t second = 0; second < 1500; ++second) {
    for (int i = 0; i < 3; ++i) add(requests.emplace_back(TraceRequest{1000 * second, {}}).blocks);
    add(texts.emplace_back());
    requests.push_back({1000 * second, texts.back()});
    if (second >= 60) add(texts[second - 60]);
    if (second >= 60) requests.push_back({1000 * second, texts[second - 60]});
    if (second >= 120) requests.push_back({1000 * second, texts[second - 120]});
  }
  CHECK(hit_rate("learned", 900, requests) > 0.25);  // 0.196 where such blocks are one class
  CHECK(hit_rate("lru", 900, requests) == 0);
}

TEST_CASE("of blocks used once those of long texts go, where long ones never came back") {
  // Each second a long text comes once and a short one that is read again after a minute.
  std::vector<TraceRequest> requests;
  std::uint64_t next = 1;
  const auto text = [&](std::uint64_t length) {
    std::vector<std::uint64_t> blocks(length);
    for (std::uint64_t& block : blocks) block = next++;
    return blocks;
  };
  std::vector<std::vector<std::uint64_t>> texts;
  for (std::uint64_t second = 0; second < 1200; ++second) {
    texts.push_back(text(4));
    requests.push_back({1000 * second, text(12)});
    requests.push_back({1000 * second, texts.back()});
    if (second >= 60) requests.push_back({1000 * second, texts[second - 60]});
  }
  const double again = 1140.0 * 4 / (1200 * 16 + 1140 * 4);
  CHECK(hit_rate("learned", 260, requests) > 0.83 * again);
  CHECK(hit_rate("lru", 260, requests) == 0);
}

TEST_CASE("a long path is one observation, as a short one is") {
  // Documents of very different lengths: 0.188 where each block is one.
  CHECK(hit_rate("learned", 500, document_service(35)) > 0.196);
}

TEST_CASE("of blocks that are used often, those that are used less often go") {
  // Two texts a second by turns, of 20 and of 400: each comes again after 20 and after 400 s.
  std::vector<TraceRequest> requests;
  for (std::uint64_t i = 0; i < 16000; ++i) {
    const std::uint64_t first = 10 * (i % 2 == 0 ? i / 2 % 20 : 1000 + i / 2 % 400);
    requests.push_back({500 * i, {}});
    for (std::uint64_t block = first; block < first + 5; ++block)
      requests.back().blocks.push_back(block);
  }
  CHECK(hit_rate("learned", 110, requests) > 0.493);
  CHECK(hit_rate("lru", 110, requests) == 0);
}

TEST_CASE("blocks that come before anybody asks do not make those before them used ones") {
  // Half of the blocks grow by one each second, unasked; the other half is asked for each minute.
  for (const bool is_use : {true, false}) {
    const auto policy = make_learned({64, 128});
    std::vector<VisitedBlock> grown, asked;
    for (Slot slot = 0; slot < 30; ++slot) asked.push_back({slot, slot + 1, true});
    for (std::uint64_t second = 0; second < 600; ++second) {
      if (second % 60 == 0) policy->visit({1000 * second, asked});
      for (VisitedBlock& block : asked) block.fresh = false;
      for (VisitedBlock& block : grown) block.fresh = false;
      if (grown.size() < 30)
        grown.push_back({static_cast<Slot>(40 + grown.size()), 1000 + grown.size(), true});
      if (second < 30 || is_use) policy->visit({1000 * second, grown, is_use});
    }
    CHECK((policy->victim({}) < 40) == is_use);
  }
}

TEST_CASE("a block that has been idle for as long as time can be is a leaf as others are") {
  const PoolSize size{2, 4};
  const auto policy = make_learned(size);
  const std::array<VisitedBlock, 1> old = {VisitedBlock{0, 7, true}};
  std::array<VisitedBlock, 1> young = {VisitedBlock{1, 8, true}};
  policy->visit({0, old});
  for (const std::uint64_t now : {1ULL << 40, ~0ULL - 1, ~0ULL}) {
    policy->visit({now, young});
    young[0].fresh = false;
  }
  CHECK(policy->victim({}) == 0);
  CHECK(policy->victim({}) == 1);
  CHECK(policy->victim({}) == no_slot);
}

TEST_CASE("the learned policy leaves no block behind whose parent is gone") {
  SplitMix64 random(5);
  const PoolSize size{50, 64};
  auto policy = make_learned(size);
  std::vector<std::uint64_t> key_of(size.slots, 0);  // 0: free
  const auto slot_of = [&](std::uint64_t key) {
    return static_cast<Slot>(std::find(key_of.begin(), key_of.end(), key) - key_of.begin());
  };
  for (int step = 0; step < 5000; ++step) {
    std::vector<VisitedBlock> path;
    std::uint64_t node = 0;
    for (std::uint64_t depth = 1 + random.next() % 6; depth > 0; --depth) {
      node = 3 * node + 1 + std::min(random.next() % 3, random.next() % 3);
      Slot slot = slot_of(node);
      const bool fresh = slot == size.slots;
      if (fresh) key_of[slot = slot_of(0)] = node;
      path.push_back({slot, node, fresh});
    }
    policy->visit({static_cast<std::uint64_t>(step) * 700, path});
    while (std::count(key_of.begin(), key_of.end(), 0) < 14) key_of[policy->victim({})] = 0;
    for (const std::uint64_t key : key_of) {
      const std::uint64_t parent = key == 0 ? 0 : (key - 1) / 3;
      REQUIRE((parent == 0 || slot_of(parent) != size.slots));
    }
  }
}

TEST_CASE("the optimum is what trying all victims finds") {
  SplitMix64 random(11);
  for (int round = 0; round < 40; ++round) {
    std::vector<std::vector<std::uint64_t>> paths;
    Optimum optimum;
    for (int i = 0; i < 9; ++i) {
      std::vector<std::uint64_t> path;
      std::uint64_t node = 0;
      for (std::uint64_t depth = 1 + random.next() % 3; depth > 0; --depth)
        path.push_back(node = 2 * node + 1 + random.next() % 2);
      paths.push_back(path);
      optimum.add(path);
    }
    const std::uint32_t capacity = 1 + static_cast<std::uint32_t>(random.next() % 4);
    // All sets that may be resident, each with the most hits so far.
    std::map<std::set<std::uint64_t>, std::uint64_t> best = {{{}, 0}};
    for (const auto& path : paths) {
      std::map<std::set<std::uint64_t>, std::uint64_t> next;
      for (const auto& [resident, hits] : best) {
        std::uint64_t now = hits;
        for (std::size_t i = 0; i < path.size() && resident.contains(path[i]); ++i) ++now;
        std::vector<std::uint64_t> all(resident.begin(), resident.end());
        for (const std::uint64_t key : path)
          if (!resident.contains(key)) all.push_back(key);
        for (std::uint32_t mask = 0; mask < 1u << all.size(); ++mask) {
          if (static_cast<std::uint32_t>(__builtin_popcount(mask)) > capacity) continue;
          std::set<std::uint64_t> kept;
          for (std::size_t i = 0; i < all.size(); ++i)
            if (mask >> i & 1) kept.insert(all[i]);
          next[kept] = std::max(next[kept], now);
        }
      }
      best = std::move(next);
    }
    std::uint64_t most = 0;
    for (const auto& [resident, hits] : best) most = std::max(most, hits);
    REQUIRE(optimum.hits(capacity) == most);
  }
}

TEST_CASE("on generated workloads ours is never far below the best classic") {
  for (const Workload& workload : workloads()) {
    const std::vector<TraceRequest> requests = workload.make(17);
    for (const std::uint32_t capacity : {700u, 2500u}) {
      double best = 0;
      for (const std::string_view name : eviction_names())
        if (name != "chosen" && name != "learned")
          best = std::max(best, hit_rate(name, capacity, requests));
      INFO(workload.name << ", capacity " << capacity << ", best classic " << best);
      CHECK(hit_rate("chosen", capacity, requests) >= 0.95 * best);
    }
  }
}
