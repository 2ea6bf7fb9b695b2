// Each policy beside a plain model of it: vectors, searched from end to end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "base/random.h"
#include "dataplane/ghosts.h"
#include "dataplane/replay.h"

using namespace sluice;

namespace {

using Keys = std::vector<std::uint64_t>;

bool has(const Keys& keys, std::uint64_t key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}
void drop(Keys& keys, std::uint64_t key) { std::erase(keys, key); }
void to_front(Keys& keys, std::uint64_t key) {
  drop(keys, key);
  keys.insert(keys.begin(), key);
}
std::uint64_t pop(Keys& keys) {
  const std::uint64_t key = keys.back();
  keys.pop_back();
  return key;
}

/// A block is seen (from leaf to root), then victims are taken while too many are resident.
struct Model {
  virtual ~Model() = default;
  virtual bool resident(std::uint64_t key) const = 0;
  virtual std::size_t count() const = 0;
  virtual void see(std::uint64_t key) = 0;
  virtual void evict() = 0;
  virtual void settle() {}  // after a visit, before victims
};

struct PlainLru : Model {
  Keys order;
  bool resident(std::uint64_t key) const override { return has(order, key); }
  std::size_t count() const override { return order.size(); }
  void see(std::uint64_t key) override { to_front(order, key); }
  void evict() override { order.pop_back(); }
};

struct PlainLfuDa : Model {
  struct State {
    std::uint64_t rank, stamp, uses;
  };
  std::map<std::uint64_t, State> states;
  std::uint64_t age = 0, clock = 0;
  bool resident(std::uint64_t key) const override { return states.contains(key); }
  std::size_t count() const override { return states.size(); }
  void see(std::uint64_t key) override {
    State& state = states[key];
    state = {age + state.uses + 1, ++clock, state.uses + 1};
  }
  void evict() override {
    const auto least = std::min_element(states.begin(), states.end(), [](auto& a, auto& b) {
      return std::pair(a.second.rank, a.second.stamp) < std::pair(b.second.rank, b.second.stamp);
    });
    age = least->second.rank;
    states.erase(least);
  }
};

struct PlainSieve : Model {
  Keys order;
  std::map<std::uint64_t, bool> used;
  std::uint64_t hand = 0;  // a key, 0: none
  bool resident(std::uint64_t key) const override { return has(order, key); }
  std::size_t count() const override { return order.size(); }
  void see(std::uint64_t key) override {
    used[key] = resident(key);
    if (!resident(key)) order.insert(order.begin(), key);
  }
  void evict() override {
    std::size_t at =
        hand == 0 ? order.size() - 1 : std::find(order.begin(), order.end(), hand) - order.begin();
    while (used[order[at]]) {
      used[order[at]] = false;
      at = at == 0 ? order.size() - 1 : at - 1;
    }
    hand = at == 0 ? 0 : order[at - 1];
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
  }
};

struct PlainS3Fifo : Model {
  explicit PlainS3Fifo(std::size_t n) : capacity(n) {}
  std::size_t capacity;
  Keys small, main, ghosts;
  std::map<std::uint64_t, int> uses;
  bool resident(std::uint64_t key) const override { return has(small, key) || has(main, key); }
  std::size_t count() const override { return small.size() + main.size(); }
  void see(std::uint64_t key) override {
    if (resident(key)) {
      uses[key] = std::min(3, uses[key] + 1);
      return;
    }
    uses[key] = 0;
    to_front(has(ghosts, key) ? main : small, key);
    drop(ghosts, key);
  }
  void evict() override {
    while (true) {
      if (small.size() > std::max<std::size_t>(1, capacity / 10) || main.empty()) {
        const std::uint64_t key = pop(small);
        if (uses[key] > 1) {
          uses[key] = 0;
          to_front(main, key);
          continue;
        }
        to_front(ghosts, key);
        if (ghosts.size() > capacity - capacity / 10) ghosts.pop_back();
        return;
      }
      const std::uint64_t key = pop(main);
      if (uses[key]-- == 0) return;
      to_front(main, key);
    }
  }
};

struct PlainArc : Model {
  explicit PlainArc(std::size_t n) : capacity(n) {}
  std::size_t capacity, target = 0;
  Keys once, again, once_gone, again_gone;
  bool resident(std::uint64_t key) const override { return has(once, key) || has(again, key); }
  std::size_t count() const override { return once.size() + again.size(); }
  void see(std::uint64_t key) override {
    const std::size_t b1 = once_gone.size(), b2 = again_gone.size();
    if (has(once_gone, key)) {
      target = std::min(capacity, target + std::max<std::size_t>(1, b2 / b1));
    } else if (has(again_gone, key)) {
      const std::size_t less = std::max<std::size_t>(1, b1 / b2);
      target = target > less ? target - less : 0;
    } else if (!resident(key)) {
      to_front(once, key);
      return;
    }
    for (Keys* list : {&once, &once_gone, &again_gone}) drop(*list, key);
    to_front(again, key);
  }
  void evict() override {
    if (!once.empty() && (once.size() > target || again.empty()))
      to_front(once_gone, pop(once));
    else
      to_front(again_gone, pop(again));
    while (!once_gone.empty() && once.size() + once_gone.size() > capacity) once_gone.pop_back();
    while (!again_gone.empty() && count() + once_gone.size() + again_gone.size() > 2 * capacity)
      again_gone.pop_back();
  }
};

/// Exact counts, which the sketch gives too while few keys share its wide rows.
struct PlainCounts {
  std::map<std::uint64_t, int> counts;
  std::size_t period, seen = 0;
  void saw(std::uint64_t key) {
    counts[key] = std::min(15, counts[key] + 1);
    if (++seen < period) return;
    seen = 0;
    for (auto& [name, count] : counts) count /= 2;
  }
};

struct PlainWTinyLfu : Model {
  explicit PlainWTinyLfu(std::size_t n) : capacity(n), sketch{{}, 10 * n} {}
  std::size_t capacity;
  PlainCounts sketch;
  Keys window, probation, kept;
  std::size_t window_most() const { return std::max<std::size_t>(1, capacity / 100); }
  bool resident(std::uint64_t key) const override {
    return has(window, key) || has(probation, key) || has(kept, key);
  }
  std::size_t count() const override { return window.size() + probation.size() + kept.size(); }
  void see(std::uint64_t key) override {
    sketch.saw(key);
    if (!resident(key) || has(window, key)) return to_front(window, key);
    drop(probation, key);
    to_front(kept, key);
    if (kept.size() > (capacity - window_most()) * 4 / 5) to_front(probation, pop(kept));
  }
  void settle() override {
    while (count() <= capacity && window.size() > window_most()) to_front(probation, pop(window));
  }
  void evict() override {
    if (window.size() <= window_most()) {
      pop(!probation.empty() ? probation : kept);
      return;
    }
    const std::uint64_t candidate = pop(window);
    if (probation.empty() && kept.empty()) return;
    const std::uint64_t rival = pop(!probation.empty() ? probation : kept);
    if (sketch.counts[candidate] > sketch.counts[rival])
      to_front(probation, candidate);
    else
      probation.push_back(rival);
  }
};

struct PlainTemperatures : Model {
  explicit PlainTemperatures(std::size_t n) : sketch{{}, 10 * n} {}
  PlainCounts sketch;
  Keys lists[4];
  bool resident(std::uint64_t key) const override {
    return std::any_of(lists, lists + 4, [&](const Keys& list) { return has(list, key); });
  }
  std::size_t count() const override {
    return lists[0].size() + lists[1].size() + lists[2].size() + lists[3].size();
  }
  void see(std::uint64_t key) override {
    sketch.saw(key);
    for (Keys& list : lists) drop(list, key);
    const int uses = sketch.counts[key];
    to_front(lists[uses < 2 ? 0 : uses < 4 ? 1 : uses < 8 ? 2 : 3], key);
  }
  void evict() override {
    for (Keys& list : lists)
      if (!list.empty()) return void(pop(list));
  }
};

std::uint32_t request(Model& model, std::size_t capacity, const Keys& path) {
  std::uint32_t hits = 0;
  while (hits < path.size() && model.resident(path[hits])) ++hits;
  for (std::size_t i = path.size(); i > 0; --i) model.see(path[i - 1]);
  model.settle();
  while (model.count() > capacity) model.evict();
  return hits;
}

/// A path down a tree whose nodes have four children each; early children are popular.
Keys random_path(SplitMix64& random) {
  Keys path;
  std::uint64_t node = 0;
  for (std::uint64_t depth = 1 + random.next() % 5; depth > 0; --depth)
    path.push_back(node = 4 * node + 1 + std::min(random.next() % 4, random.next() % 4));
  return path;
}

void expect_equal(const char* name, std::uint32_t capacity, Model& model, std::uint64_t seed) {
  const PoolSize size{capacity, capacity + 8};
  Replay replay(size, std::move(make_eviction(name, size).value()));
  SplitMix64 random(seed);
  for (int step = 0; step < 3000; ++step) {
    const Keys path = random_path(random);
    const std::uint32_t expected = request(model, capacity, path);
    INFO(name << ", capacity " << capacity << ", step " << step);
    REQUIRE(replay.request(static_cast<std::uint64_t>(step) * 100, path) == expected);
    REQUIRE(replay.resident() == model.count());
  }
}

}  // namespace

TEST_CASE("each classic policy hits exactly as its plain model does") {
  for (const std::uint32_t capacity : {3u, 10u, 47u, 100u}) {
    const std::uint64_t seed = capacity;
    PlainLru lru;
    expect_equal("lru", capacity, lru, seed);
    PlainLfuDa lfu_da;
    expect_equal("lfu-da", capacity, lfu_da, seed);
    PlainSieve sieve;
    expect_equal("sieve", capacity, sieve, seed);
    PlainS3Fifo s3_fifo(capacity);
    expect_equal("s3-fifo", capacity, s3_fifo, seed);
    PlainArc arc(capacity);
    expect_equal("arc", capacity, arc, seed);
  }
}

TEST_CASE(
    "policies with a sketch hit as their plain models with exact counts do, while it is wide") {
  // 1,364 keys in four rows of 16,384 and 32,768: rarely do two share all four places.
  for (const std::uint32_t capacity : {10000u, 20000u}) {
    PlainWTinyLfu w_tinylfu(capacity);
    expect_equal("w-tinylfu", capacity, w_tinylfu, capacity);
    PlainTemperatures temperatures(capacity);
    expect_equal("temperatures", capacity, temperatures, capacity);
  }
}

TEST_CASE("a policy never gives a held slot, gives every other one once, and then none") {
  for (const std::string_view name : eviction_names()) {
    INFO(name);
    const PoolSize size{60, 80};
    auto policy = std::move(make_eviction(name, size).value());
    SplitMix64 random(7);
    std::vector<VisitedBlock> path;
    for (Slot slot = 0; slot < 60; slot += 4) {
      path.clear();
      for (Slot at = slot; at < slot + 4; ++at) path.push_back({at, at + 1000ULL, true});
      policy->visit({slot * 1000ULL, path});
    }
    std::vector<std::uint8_t> held(size.slots, 0), gone(size.slots, 0);
    for (Slot slot = 0; slot < 60; ++slot) held[slot] = random.next() % 3 == 0;
    for (Slot slot = 59; slot > 0; --slot)  // with a block its parent
      if (held[slot] && slot % 4 != 0) held[slot - 1] = 1;
    policy->removed(5);
    gone[5] = 1;
    const auto free_ones = std::count(held.begin(), held.begin() + 60, 0) - (held[5] ? 0 : 1);
    for (std::ptrdiff_t i = 0; i < free_ones; ++i) {
      const Slot slot = policy->victim(held);
      REQUIRE(slot < 60);
      CHECK(held[slot] == 0);
      CHECK(gone[slot] == 0);
      gone[slot] = 1;
    }
    CHECK(policy->victim(held) == no_slot);
    const auto rest = 60 - std::count(gone.begin(), gone.begin() + 60, 1);
    for (std::ptrdiff_t i = 0; i < rest; ++i) {
      const Slot slot = policy->victim({});
      REQUIRE(slot < 60);
      CHECK(gone[slot] == 0);
      gone[slot] = 1;
    }
    CHECK(policy->victim({}) == no_slot);
  }
}

TEST_CASE("a policy that is not there is refused with the names of those that are") {
  const auto made = make_eviction("clairvoyant", {10, 20});
  REQUIRE(!made);
  CHECK(made.error().message.find("\"clairvoyant\"; there are chosen, learned, lru") !=
        std::string::npos);
}

TEST_CASE("a table of keys says what a map says, whatever was erased") {
  KeyTable table(100);
  std::map<std::uint64_t, std::uint32_t> model;
  SplitMix64 random(3);
  for (int step = 0; step < 20000; ++step) {
    const std::uint64_t key = random.next() % 150;
    const auto known = model.find(key);
    REQUIRE(table.find(key) == (known == model.end() ? KeyTable::none : known->second));
    if (known != model.end()) {
      REQUIRE(table.erase(key));
      model.erase(known);
    } else if (model.size() < 100) {
      table.insert(key, static_cast<std::uint32_t>(step));
      model[key] = static_cast<std::uint32_t>(step);
    } else {
      REQUIRE(!table.erase(key));
    }
    REQUIRE(table.size() == model.size());
  }
}
