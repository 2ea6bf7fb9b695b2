// Pools of several machines of which each has a folder, too: a prompt begins with what memory has,
// then the folder, then other machines. The disk here is one that a test holds up or breaks, so
// nothing depends on how quick it is.
#include "engine/storage/folder_and_peers.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "base/crc32c.h"
#include "base/random.h"
#include "engine/storage/kept_pool.h"
#include "made_pages.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

using namespace made_pages;

constexpr std::uint64_t folder_bytes = 8U << 20U;
constexpr std::int64_t ms = 1'000'000;

/// Of one machine, over its restarts.
struct Disk {
  bool holds = false;  // what was begun does not end
  bool fails = false;
  std::size_t reads = 0;
};

class DiskPort final : public BlockPort {
 public:
  explicit DiskPort(Disk& disk) : disk_(disk) {}
  std::string_view name() const override { return "a test's"; }
  void submit(Job job) override {
    ended_.push_back({job.id, disk_.fails ? EIO : move(job)});
    if (job.kind == Kind::read) ++disk_.reads;
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds) override {
    if (disk_.holds) return;
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  static int move(const Job& job) {
    if (job.kind == Kind::sync) return 0;
    const int file = job.file->descriptor();
    const auto size = static_cast<ssize_t>(job.bytes.size());
    const auto at = static_cast<off_t>(job.offset);
    const ssize_t moved = job.kind == Kind::read
                              ? ::pread(file, job.bytes.data(), job.bytes.size(), at)
                              : ::pwrite(file, job.bytes.data(), job.bytes.size(), at);
    return moved == size ? 0 : moved < 0 ? errno : cut_short;
  }

  Disk& disk_;
  std::vector<Ended> ended_;
};

bool is_answer(const std::vector<std::byte>& message) {
  const auto read = pages::decode(message);
  return read && (std::get_if<pages::Found>(&*read) || std::get_if<pages::PageContent>(&*read) ||
                  std::get_if<pages::Places>(&*read) || std::get_if<pages::End>(&*read));
}

/// One process after the other that is this machine.
class Machine {
 public:
  Machine(PeerHub& hub, std::uint32_t number, const std::string& folder, std::size_t pages)
      : hub_(hub), number_(number), folder_(folder), pages_(pages) {
    start();
  }
  ~Machine() { disk.holds = false; }  // at its end what waits is written

  void restart() {
    disk.holds = false;
    kept = KeptPool();
    ++life_;
    start();
  }
  std::string folder() const { return StoreFolder::of_machine(folder_, std::to_string(number_)); }

  /// As an engine does. False: there is no room.
  bool compute(const std::vector<std::int32_t>& tokens) {
    KvSequence sequence = kept.pool->open(origin(), tokens);
    const std::size_t had = sequence.tokens();
    if (!kept.pool->extend(sequence, tokens.size() - 1 - had).ok()) return false;
    const std::vector<PageKey> keys = kept.pool->keys_of(origin(), tokens);
    for (std::size_t at = had / tokens_per_page; at < keys.size(); ++at)
      std::ranges::copy(content(keys[at]), kept.pool->place(sequence.pages()[at]));
    kept.pool->publish(sequence, origin(), tokens);
    return true;
  }
  bool begin(std::uint64_t task, const std::vector<std::int32_t>& tokens, std::int64_t now,
             std::optional<double> per_token = {}) {
    return kept.source()->begin(task, origin(), tokens, per_token, now);
  }
  std::vector<PageSource::Ready> poll(std::int64_t now) {
    std::vector<PageSource::Ready> ready;
    kept.source()->poll(now, ready);
    return ready;
  }
  /// Until its pages have come. None: they do not.
  std::optional<PageSource::Ready> wait(std::int64_t now) {
    for (int i = 0; i < 100; ++i)
      if (const auto ready = poll(now); !ready.empty()) return ready.front();
    return std::nullopt;
  }
  std::size_t in_memory(const std::vector<std::int32_t>& tokens) const {
    return kept.pool->table().match(kept.pool->keys_of(origin(), tokens));
  }
  /// Behind so many that are elsewhere.
  std::size_t in_folder(const std::vector<std::int32_t>& tokens, std::size_t behind) const {
    return kept.tier->store().index().match(kept.pool->keys_of(origin(), tokens), behind);
  }
  /// All that others may find is what its key says.
  void check_all() const {
    const PageTable& table = kept.pool->table();
    for (Page page = 0; page < table.capacity(); ++page)
      if (table.is_published(page))
        CHECK(crc32c(kept.pool->content(page)) == crc32c(content(table.key(page))));
  }

  Disk disk;
  KeptPool kept;
  bool does_preload = false;

 private:
  void start() {
    PeerHub::Port& port = hub_.add(number_, life_);
    port.does_preload = does_preload;
    REQUIRE(StoreFolder::make_common(folder_).ok());
    PageStoreOptions options = KvTier::options_for(shape, folder(), folder_bytes);
    options.secret = port.secret();
    auto store = PageStore::open(options, std::make_unique<DiskPort>(disk));
    REQUIRE(store.ok());
    kept.secret = port.secret();
    kept.pool = std::make_unique<KvPool>(shape, pages_, kept.secret);
    kept.tier = std::make_unique<KvTier>(*kept.pool, std::move(store).value());
    kept.peers = std::make_unique<KvPeers>(*kept.pool, port, "kv");
    kept.both = std::make_unique<FolderAndPeers>(*kept.tier, *kept.peers);
  }

  PeerHub& hub_;
  std::uint32_t number_, life_ = 1;
  std::string folder_;
  std::size_t pages_;
};

/// Two machines of one computer.
struct Pair {
  explicit Pair(std::size_t pages = 32)
      : first(hub, 0, scratch.path() + "/pages", pages),
        second(hub, 1, scratch.path() + "/pages", pages) {}
  ScratchFolder scratch;
  PeerHub hub;
  Machine first, second;
};

}  // namespace

TEST_CASE("a prompt begins with memory, then the folder, then what other machines have") {
  Pair world;
  const auto all = history(1, 9);
  REQUIRE(world.first.compute(history(1, 6)));
  world.first.restart();  // what it had is in its folder
  CHECK(world.first.in_memory(all) == 0);
  CHECK(world.first.in_folder(all, 0) == 6);
  REQUIRE(world.first.compute(history(1, 2)));
  REQUIRE(world.second.compute(all));

  REQUIRE(world.first.begin(1, all, ms));
  const auto come = world.first.wait(ms);
  REQUIRE(come.has_value());
  CHECK(come->task == 1);
  CHECK(come->tokens == 7 * tokens_per_page);
  CHECK(come->of_folder == 4 * tokens_per_page);
  CHECK(world.first.in_memory(all) == 9);
  CHECK(world.first.kept.tier->store().counts().read == 4);
  CHECK(world.first.kept.peers->counts().pulled == 3);
  world.first.check_all();
  CHECK_FALSE(world.first.begin(2, all, ms));  // it is all there
  CHECK_FALSE(world.first.kept.source()->is_waited_for());
  CHECK(world.first.kept.pool->pages_free() == 32);

  // What was pulled is in the folder, too.
  world.first.restart();
  CHECK(world.first.in_folder(all, 0) == 9);
}

TEST_CASE("where the folder is gone, broken or slower than computing, machines are asked") {
  Pair world;
  const auto all = history(1, 6);
  REQUIRE(world.first.compute(all));
  REQUIRE(world.second.compute(all));
  SECTION("gone") {
    world.first.kept = KeptPool();
    std::filesystem::remove_all(world.first.folder());
    world.first.restart();
    CHECK(world.first.in_folder(all, 0) == 0);
  }
  SECTION("broken") {
    world.first.restart();
    world.first.disk.fails = true;
  }
  SECTION("it hangs") {
    world.first.restart();
    world.first.disk.holds = true;
    REQUIRE(world.first.begin(7, all, ms));
    CHECK(world.first.poll(ms).empty());
    // For its task, and for one that comes later.
    const auto late = world.first.poll(ms + KvTier::patience + 1);
    const auto come =
        late.empty() ? world.first.wait(ms + KvTier::patience + 1) : std::optional(late.front());
    REQUIRE(come.has_value());
    CHECK((come->tokens == 6 * tokens_per_page && come->of_folder == 0));
    world.first.disk.holds = false;
    CHECK(world.first.in_memory(all) == 6);
    world.first.check_all();
    return;
  }
  REQUIRE(world.first.begin(1, all, ms));
  const auto come = world.first.wait(ms);
  REQUIRE(come.has_value());
  CHECK((come->tokens == 6 * tokens_per_page && come->of_folder == 0));
  CHECK(world.first.kept.peers->counts().pulled == 6);
  world.first.check_all();
}

TEST_CASE("where nobody is there the folder is read, and where nothing is anywhere nobody waits") {
  Pair world;
  const auto all = history(1, 6);
  REQUIRE(world.first.compute(all));
  world.second.kept = KeptPool();
  world.first.restart();
  REQUIRE(world.first.begin(1, all, ms));
  const auto come = world.first.wait(ms);
  REQUIRE(come.has_value());
  CHECK((come->tokens == 6 * tokens_per_page && come->of_folder == come->tokens));
  CHECK_FALSE(world.first.begin(2, history(2, 6), ms));
}

TEST_CASE("a page that machines are giving is not read from the folder beside") {
  Pair world(16);
  const auto all = history(1, 6);
  REQUIRE(world.second.compute(all));
  bool is_slow = true;  // no answer comes
  world.hub.on_way = [&](PeerLife, PeerLife, std::vector<std::byte>& message) {
    return !is_slow || !is_answer(message);
  };
  REQUIRE(world.first.begin(1, all, ms));  // asks the other machine
  CHECK(world.first.poll(ms).empty());
  // Meanwhile it is computed, written, and given up again.
  REQUIRE(world.first.compute(all));
  for (int i = 0; i < 4; ++i) CHECK(world.first.poll(2 * ms).empty());
  REQUIRE(world.first.compute(history(2, 16)));
  CHECK(world.first.in_memory(all) == 0);
  CHECK(world.first.in_folder(all, 0) == 6);

  REQUIRE(world.first.begin(2, all, 3 * ms));
  CHECK(world.first.disk.reads == 0);
  CHECK(world.first.poll(3 * ms).empty());
  CHECK(world.first.disk.reads == 0);
  // The machine never answers: who waited has the folder's, and one who asks later.
  std::map<std::uint64_t, PageSource::Ready> come;
  for (std::int64_t now = 10'000 * ms; now < 10'100 * ms && come.size() < 2; now += ms)
    for (const PageSource::Ready& one : world.first.poll(now)) come[one.task] = one;
  REQUIRE(come.size() == 2);
  CHECK(come[2].of_folder == 6 * tokens_per_page);
  CHECK(world.first.disk.reads == 6);
  world.first.check_all();
}

TEST_CASE("a task that is taken out while it waits in either place leaves nothing behind") {
  Pair world;
  const auto all = history(1, 9);
  REQUIRE(world.first.compute(history(1, 4)));
  REQUIRE(world.second.compute(all));
  world.first.restart();
  world.first.disk.holds = true;
  REQUIRE(world.first.begin(1, all, ms));
  CHECK(world.first.poll(ms).empty());
  CHECK(world.first.kept.source()->pages_awaited() == 4);
  world.first.kept.source()->forget(1);
  CHECK_FALSE(world.first.kept.source()->is_waited_for());
  world.first.disk.holds = false;
  world.hub.on_way = [](PeerLife, PeerLife, std::vector<std::byte>& message) {
    return !is_answer(message);
  };
  REQUIRE(world.first.begin(2, all, ms));
  for (int i = 0; i < 4; ++i) CHECK(world.first.poll(ms).empty());
  CHECK(world.first.kept.tier->store().counts().read == 4);
  CHECK(world.first.kept.peers->is_waited_for());
  world.first.kept.source()->forget(2);
  CHECK_FALSE(world.first.kept.source()->is_waited_for());
  CHECK_FALSE(world.first.kept.peers->is_waited_for());
  for (int i = 0; i < 4; ++i) CHECK(world.first.poll(ms).empty());
  CHECK(world.first.kept.pool->pages_free() == 32);
}

TEST_CASE("who is asked first is remembered until the folder has given what it has") {
  Pair world;
  Machine third(world.hub, 2, world.scratch.path() + "/pages", 32);
  const auto all = history(1, 9);
  REQUIRE(world.first.compute(history(1, 4)));
  world.first.restart();
  REQUIRE(third.compute(all));
  std::vector<std::uint32_t> asked;
  world.hub.on_way = [&](PeerLife from, PeerLife to, std::vector<std::byte>& message) {
    const auto read = pages::decode(message);
    if (from.machine == 0 && read && std::get_if<pages::Find>(&*read)) asked.push_back(to.machine);
    return true;
  };
  world.first.kept.peers->ask_first(third.kept.peers->self());
  REQUIRE(world.first.begin(1, all, ms));
  world.first.kept.peers->ask_first({});
  REQUIRE(world.first.wait(ms).has_value());
  REQUIRE_FALSE(asked.empty());
  CHECK(asked.front() == 2);
  CHECK(world.first.in_memory(all) == 9);
  CHECK_FALSE(world.first.kept.peers->asked_first().has_value());
}

TEST_CASE("what comes before it is asked for is written at rest, as what is computed is") {
  Pair world;
  world.second.does_preload = true;
  world.second.restart();
  (void)world.second.kept.peers->preload({}, 0, ms);
  const auto all = history(1, 6);
  REQUIRE(world.first.compute(all));
  for (int i = 0; i < 20; ++i) (void)world.second.kept.peers->preload({}, 0, ms);
  REQUIRE(world.second.in_memory(all) == 6);
  CHECK(world.second.in_folder(all, 0) == 0);
  world.second.kept.source()->rest();
  CHECK(world.second.kept.tier->backlog() == 0);
  (void)world.second.poll(ms);
  CHECK(world.second.in_folder(all, 0) == 6);
}

TEST_CASE("machines of a computer have a folder each in the one that is named, and one secret") {
  ScratchFolder scratch;
  const std::string folder = scratch.path() + "/pages";
  PeerHub hub;
  const auto among = [&](std::uint32_t machine, std::uint8_t secret) {
    return KeptPool::make_among(shape, 32, hub.add(machine, 1, secret), "kv", folder, folder_bytes);
  };
  {
    const auto first = among(0, 7), second = among(1, 7);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    CHECK(first->source() == first->both.get());
    CHECK(first->tier->store().path() == folder + "/machine-0");
    CHECK(second->tier->store().path() == folder + "/machine-1");
    CHECK(first->tier->store().secret() == first->secret);
    // Another process of that name.
    PeerHub other;
    CHECK(KeptPool::make_among(shape, 32, other.add(0), "kv", folder, folder_bytes).error().code ==
          ErrorCode::unavailable);
  }
  const auto changed = among(0, 8);
  REQUIRE_FALSE(changed.ok());
  CHECK(changed.error().code == ErrorCode::invalid_argument);
  CHECK(changed.error().message.find(folder + "/machine-0/secret: ") == 0);
  CHECK(changed.error().message.find("kv-pages.secret") != std::string::npos);
  CHECK(among(2, 8).ok());
  std::filesystem::permissions(folder, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  CHECK(among(3, 7).error().message.find("others may enter it") != std::string::npos);
}

namespace {

/// Three machines, random events, and what each task must find.
class Chance {
 public:
  Chance(std::uint64_t seed, bool is_calm) : random_(seed), is_calm_(is_calm) {
    for (std::uint32_t i = 0; i < 3; ++i)
      machines_.push_back(std::make_unique<Machine>(hub_, i, scratch_.path() + "/pages", 24));
    hub_.on_way = [this](PeerLife, PeerLife, std::vector<std::byte>& message) {
      return !is_lossy_ || random_.next() % 3 != 0 || !is_answer(message);
    };
    machines_[2]->does_preload = true;
    machines_[2]->restart();
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      event();
      for (const auto& machine : machines_) machine->check_all();
    }
    settle();
  }

  std::size_t of_folder = 0, of_machines = 0;  // tokens

 private:
  struct Task {
    std::size_t machine = 0, had = 0;
    std::vector<std::int32_t> tokens;
  };

  void event() {
    const std::size_t at = random_.next() % machines_.size();
    Machine& machine = *machines_[at];
    const auto tokens = history(random_.next() % 5, 1 + random_.next() % 8);
    now_ += ms;
    switch (random_.next() % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
        return begin(at, tokens);
      case 4:
      case 5:
        (void)machine.compute(tokens);
        return;
      case 6:
        (void)machine.kept.peers->preload({}, 0, now_);
        return;
      case 7:
        if (random_.next() % 4 == 0) restart(at);
        return;
      case 8:
        if (tasks_.empty() || random_.next() % 4 != 0) return;
        machines_[tasks_.begin()->second.machine]->kept.source()->forget(tasks_.begin()->first);
        tasks_.erase(tasks_.begin());
        return;
      case 9:
        return is_calm_ ? void() : trouble(machine);
      default:
        return poll(at);
    }
  }

  void trouble(Machine& machine) {
    const std::uint64_t what = random_.next() % 6;
    if (what == 0) machine.disk.holds = !machine.disk.holds;
    if (what == 1) machine.disk.fails = !machine.disk.fails;
    if (what == 2) is_lossy_ = !is_lossy_;
    if (what == 3) now_ += 300 * ms;
    if (what == 4) now_ += 6'000 * ms;
    if (what == 5) now_ += 60'000 * ms;
  }

  void restart(std::size_t at) {
    std::erase_if(tasks_, [&](const auto& one) { return one.second.machine == at; });
    machines_[at]->restart();
  }

  void begin(std::size_t at, const std::vector<std::int32_t>& tokens) {
    Machine& machine = *machines_[at];
    const std::size_t had = machine.in_memory(tokens);
    const std::size_t best = best_of(at, tokens);
    const bool is_alone = tasks_.empty();
    const std::uint64_t task = next_task_++;
    const bool waits = machine.begin(task, tokens, now_);
    if (waits) tasks_[task] = {at, had, tokens};
    if (!is_calm_ || !is_alone) return;
    // Nobody else wants anything: all that there is comes.
    CHECK((waits || best <= had));  // nobody may have what machines are asked for
    for (int i = 0; i < 50 && tasks_.contains(task); ++i) poll(at);
    CHECK_FALSE(tasks_.contains(task));
    CHECK(machine.in_memory(tokens) == std::max(had, best));
  }

  /// Pages that a machine has, its folder behind them, or another machine.
  std::size_t best_of(std::size_t at, const std::vector<std::int32_t>& tokens) const {
    const std::size_t had = machines_[at]->in_memory(tokens);
    std::size_t best = had + machines_[at]->in_folder(tokens, had);
    for (const auto& one : machines_) best = std::max(best, one->in_memory(tokens));
    return best;
  }

  void poll(std::size_t at) {
    Machine& machine = *machines_[at];
    for (const PageSource::Ready& one : machine.poll(now_)) {
      const auto it = tasks_.find(one.task);
      REQUIRE(it != tasks_.end());  // it waits, here, and hears of it once
      CHECK(it->second.machine == at);
      CHECK(one.of_folder <= one.tokens);
      CHECK(one.tokens % tokens_per_page == 0);
      CHECK(one.tokens < it->second.tokens.size());
      of_folder += one.of_folder;
      of_machines += one.tokens - one.of_folder;
      tasks_.erase(it);
    }
  }

  /// Everybody's wait ends, and nothing is held.
  void settle() {
    is_lossy_ = false;
    for (const auto& machine : machines_) machine->disk.holds = machine->disk.fails = false;
    for (int i = 0; i < 2000; ++i) {
      now_ += 10 * ms;
      for (std::size_t at = 0; at < machines_.size(); ++at) {
        poll(at);
        (void)machines_[at]->kept.peers->preload({}, 0, now_);
      }
      if (tasks_.empty() && i > 1000) break;
    }
    CHECK(tasks_.empty());
    for (const auto& machine : machines_) {
      CHECK_FALSE(machine->kept.source()->is_waited_for());
      CHECK_FALSE(machine->kept.source()->holds_pages());
      CHECK(machine->kept.pool->pages_free() == 24);
      machine->check_all();
    }
  }

  ScratchFolder scratch_;
  PeerHub hub_;
  SplitMix64 random_;
  bool is_calm_, is_lossy_ = false;
  std::int64_t now_ = 0;
  std::uint64_t next_task_ = 1;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<std::uint64_t, Task> tasks_;
};

}  // namespace

TEST_CASE("random prompts and restarts and troubles: what is found is what its key says") {
  std::size_t of_folder = 0, of_machines = 0;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO(seed);
    Chance chance(seed, seed % 2 == 0);
    chance.run(400);
    of_folder += chance.of_folder;
    of_machines += chance.of_machines;
  }
  CHECK(of_folder > 0);
  CHECK(of_machines > 0);
}
