// A page store, the tier over it and pools of several machines, driven by chance over a disk and
// links that do what chance says: what they do at each event, beside what they did before. Times
// stand on their limits often.
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/random.h"
#include "base/sha256.h"
#include "engine/storage/kept_pool.h"
#include "tests/journal.h"
#include "tests/outcomes.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

using Journal = std::vector<std::string>;
constexpr std::int64_t second = 1'000'000'000;

struct Chance {
  explicit Chance(std::uint64_t seed) : random(seed) {}
  std::uint64_t pick(std::uint64_t most) { return random.next() % (most + 1); }
  bool one_of(std::uint64_t count) { return random.next() % count == 0; }
  SplitMix64 random;
};

/// Moves blocks when it is asked what has ended; which, in which order, and what fails, is chance.
/// To the files, or where no later life reads them to memory, which is quicker.
class ChancePort final : public BlockPort {
 public:
  ChancePort(std::uint64_t seed, const bool& is_sound, bool to_files)
      : chance_(seed), is_sound_(is_sound), to_files_(to_files) {}
  std::string_view name() const override { return "chance"; }
  void submit(Job job) override { jobs_.push_back(std::move(job)); }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds) override {
    while (!jobs_.empty() && (is_sound_ || !chance_.one_of(3))) {
      const auto at = jobs_.begin() +
                      static_cast<std::ptrdiff_t>(is_sound_ ? 0 : chance_.pick(jobs_.size() - 1));
      ended.push_back({at->id, end(*at)});
      jobs_.erase(at);
    }
  }

 private:
  int end(const Job& job) {
    if (!is_sound_ && chance_.one_of(25)) return chance_.one_of(2) ? ENOSPC : EIO;
    if (job.kind == Kind::sync) return 0;
    if (to_files_) return move(job, static_cast<off_t>(job.offset));
    struct stat about {};
    ::fstat(job.file->descriptor(), &about);
    std::vector<std::byte>& file = files_[about.st_ino];
    if (job.kind == Kind::write) {
      file.resize(std::max(file.size(), job.offset + job.bytes.size()));
      std::ranges::copy(job.bytes, file.begin() + static_cast<std::ptrdiff_t>(job.offset));
      return 0;
    }
    if (job.offset + job.bytes.size() > file.size()) return cut_short;
    std::ranges::copy(std::span(file).subspan(job.offset, job.bytes.size()), job.bytes.begin());
    return 0;
  }
  static int move(const Job& job, off_t offset) {
    const int file = job.file->descriptor();
    const ssize_t moved = job.kind == Kind::read
                              ? ::pread(file, job.bytes.data(), job.bytes.size(), offset)
                              : ::pwrite(file, job.bytes.data(), job.bytes.size(), offset);
    return moved == static_cast<ssize_t>(job.bytes.size()) ? 0 : cut_short;
  }

  Chance chance_;
  const bool& is_sound_;
  bool to_files_;
  std::vector<Job> jobs_;
  std::map<ino_t, std::vector<std::byte>> files_;
};

struct Scratch : ScratchFolder {
  /// Its secret is always the same, for the order of keys follows from it.
  Scratch() {
    std::filesystem::create_directory(pages());
    std::filesystem::permissions(pages(), std::filesystem::perms::owner_all);
    std::ofstream(pages() + "/secret") << std::string(32, 's');
  }
  std::string pages() const { return path() + "/pages"; }
};

std::string words(const PageStore& store) {
  const PageStoreCounts& counts = store.counts();
  std::string text =
      "; " + std::to_string(counts.written) + " written, " + std::to_string(counts.read) +
      " read, " + std::to_string(counts.broken) + " broken, " + std::to_string(counts.failed) +
      " failed, " + std::to_string(counts.dropped) + " dropped, " +
      std::to_string(store.index().pages()) + " pages, " +
      std::to_string(store.health().failures()) + " failures " + store.health().reason();
  text += std::string(store.reads() ? "" : ", no reads") + (store.hangs() ? ", hangs" : "") +
          (store.can_read() ? "" : ", no buffer to read") +
          (store.can_write() ? "" : ", no buffer to write") + (store.is_busy() ? ", busy" : "") +
          (store.is_writing() ? ", writing" : "");
  if (const auto oldest = store.oldest_read()) text += ", reads since " + std::to_string(*oldest);
  if (const auto since = store.writes_stand_since())
    text += ", writes since " + std::to_string(*since);
  return text;
}

std::int64_t some_time(Chance& chance) {
  constexpr std::int64_t times[] = {0,
                                    1,
                                    second,
                                    KvTier::patience,
                                    KvTier::patience + 1,
                                    KvTier::write_patience,
                                    StoreHealth::first_pause,
                                    StoreHealth::first_pause - 1};
  return !chance.one_of(12) ? 0 : times[chance.pick(std::size(times) - 1)];
}

PageKey key_of(std::uint64_t n) {
  SplitMix64 random(n + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

Journal play_store(std::uint64_t seed, int steps, std::uint32_t page_bytes, bool holds_reads) {
  Scratch scratch;
  Chance chance(seed);
  PageStoreOptions options;
  options.folder = scratch.pages();
  options.page_bytes = page_bytes;
  options.layout = "test";
  options.segment_bytes = segment_block + 4 * record_bytes(page_bytes);
  options.bytes_most = 7 * options.segment_bytes + chance.pick(1);
  Journal journal;
  bool is_sound = false;
  std::int64_t now = 0;
  const auto open = [&](std::uint64_t life) {
    auto store =
        PageStore::open(options, std::make_unique<ChancePort>(seed + life, is_sound, true));
    REQUIRE(store.ok());
    return std::move(store).value();
  };
  std::unique_ptr<PageStore> store;
  std::vector<PageKey> held;  // read, and not released
  std::string heard;
  const auto begin_life = [&](std::uint64_t life) {
    store.reset();
    store = open(life);
    held.clear();
    store->on_read = [&](const PageKey& key, const std::byte* content) {
      for (std::uint64_t n = 0; n < 40; ++n)
        if (key_of(n) == key)
          heard += ", " + std::to_string(n) +
                   (content == nullptr ? " is not there"
                                       : " is " + std::to_string(std::to_integer<int>(*content)));
      if (content != nullptr && holds_reads)
        held.push_back(key);
      else
        store->release(key);
    };
  };
  begin_life(1);
  for (int i = 0; i < steps; ++i) {
    now += some_time(chance);
    const std::uint64_t n = chance.pick(39);
    std::string line;
    switch (chance.pick(12)) {
      case 0:
        if (!held.empty()) {
          store->release(held.back());
          held.pop_back();
        }
        line = "releases";
        break;
      case 1:
        if (chance.one_of(6)) store->give_up(now, "given up");
        line = "gives up at times";
        break;
      case 2:
        if (chance.one_of(6)) store->give_up_writes(now, "writes given up");
        line = "gives up writes at times";
        break;
      case 3:
        if (chance.one_of(10)) store->sync(now);
        if (chance.one_of(30)) begin_life(2 + static_cast<std::uint64_t>(i));
        line = "begins anew at times";
        break;
      case 4:
      case 5:
      case 6:
        line = "reads " + std::to_string(n);
        if (!store->can_read() || store->is_reading(key_of(n)))
          line += " not";
        else
          line += store->read(key_of(n), now) ? "" : ": not there";
        break;
      case 7:
      case 8:
      case 9: {
        const PageKey parent = n % 5 == 0 ? PageKey{} : key_of(n - 1);
        line = "writes " + std::to_string(n);
        if (!store->wants(key_of(n), parent, now)) {
          line += ": unwanted";
          break;
        }
        if (!store->can_write()) break;
        store->write(key_of(n), parent,
                     std::vector<std::byte>(page_bytes, static_cast<std::byte>(n)), now);
        break;
      }
      default:
        line = "polls";
        heard.clear();
        store->poll(now);
        line += heard;
    }
    journal.push_back(std::to_string(now) + ": " + line + words(*store));
  }
  is_sound = true;
  return journal;
}

/// Histories of few kinds, in pages of two tokens.
struct Pool {
  static KvShape shape() { return {1, 2, 2}; }
  static std::vector<std::int32_t> some_tokens(Chance& chance) {
    std::vector<std::int32_t> tokens;
    const std::uint64_t kind = chance.pick(2), own = chance.pick(2), cut = chance.pick(8);
    for (std::uint64_t i = 0, most = 1 + chance.pick(11); i < most; ++i)
      tokens.push_back(static_cast<std::int32_t>(i < cut ? kind : 10 + own));
    return tokens;
  }
  static RowsOrigin origin() {
    RowsOrigin made;
    made.model = "m";
    return made;
  }
  /// Computes and publishes them, as far as there is room.
  static std::string compute(KvPool& pool, const std::vector<std::int32_t>& tokens) {
    KvSequence sequence = pool.open(origin(), tokens);
    const std::size_t there = sequence.tokens();
    if (!pool.extend(sequence, tokens.size() - there).ok()) return "no room";
    for (std::size_t at = there / 2; at < sequence.pages().size(); ++at)
      *pool.keys(sequence.pages()[at], 0) = static_cast<float>(tokens[2 * at]);
    pool.publish(sequence, origin(), tokens);
    return "computes " + std::to_string(tokens.size() - there) + " of " +
           std::to_string(tokens.size());
  }
};

std::string words(const std::vector<PageSource::Ready>& ready) {
  std::string text;
  for (const PageSource::Ready& one : ready)
    text += ", ready " + std::to_string(one.task) + " with " + std::to_string(one.tokens);
  return text;
}

std::optional<double> some_cost(Chance& chance) {
  if (chance.one_of(3)) return std::nullopt;
  constexpr double costs[] = {0, 0.5, 1, 1e3, 1e8, 2.5e9, 1e12};
  return costs[chance.pick(std::size(costs) - 1)];
}

Journal play_tier(std::uint64_t seed, int steps) {
  Scratch scratch;
  Chance chance(seed);
  bool is_sound = false;
  PageStoreOptions options = KvTier::options_for(Pool::shape(), scratch.pages(), 1U << 20U);
  options.segment_bytes = 9 * segment_block;
  options.bytes_most = (20 + chance.pick(100)) * segment_block;
  auto store = PageStore::open(options, std::make_unique<ChancePort>(seed, is_sound, false));
  REQUIRE(store.ok());
  KvPool pool(Pool::shape(), 8 + chance.pick(20), (*store)->secret());
  std::deque<KvSequence> used;  // of somebody who goes on
  Journal journal{options.layout};
  KvTier tier(pool, std::move(store).value());
  std::int64_t now = 0;
  std::uint64_t task = 0;
  for (int i = 0; i < steps; ++i) {
    now += some_time(chance);
    std::string line;
    const std::vector<std::int32_t> tokens = Pool::some_tokens(chance);
    switch (chance.pick(11)) {
      case 0:
        tier.forget(task - std::min(task, chance.pick(3)));
        line = "forgets";
        break;
      case 1:
        used.push_back(pool.open(Pool::origin(), tokens));
        line = "uses " + std::to_string(used.back().pages().size());
        break;
      case 2:
        if (!used.empty()) used.pop_front();
        line = "uses no more";
        break;
      case 3:
      case 4:
        line = Pool::compute(pool, tokens);
        break;
      case 5:
      case 6:
      case 7:
        line = "begins " + std::to_string(++task);
        if (!tier.begin(task, Pool::origin(), tokens, some_cost(chance), now)) line += ": no";
        break;
      default: {
        std::vector<PageSource::Ready> ready;
        tier.poll(now, ready);
        line = "polls" + words(ready);
      }
    }
    line += "; awaits " + std::to_string(tier.pages_awaited()) +
            (tier.is_waited_for() ? ", is waited for" : "") + ", backlog " +
            std::to_string(tier.backlog()) + ", not worth " + std::to_string(tier.not_worth()) +
            ", " + std::to_string(pool.pages_free()) + " free, " +
            std::to_string(pool.pages_cached()) + " cached";
    for (Page page = 0; page < pool.pages(); ++page)
      line += pool.table().is_published(page)
                  ? ' ' + std::to_string(static_cast<int>(*pool.keys(page, 0)))
                  : " .";
    journal.push_back(std::to_string(now) + ": " + line + words(tier.store()));
  }
  is_sound = true;  // all is written before it goes, or its end would wait for that
  for (int i = 0; i < 50 && tier.backlog() > 0; ++i) {
    std::vector<PageSource::Ready> ready;
    tier.poll(now += StoreHealth::longest_pause, ready);
  }
  journal.push_back("in the end " + std::to_string(tier.backlog()) + words(tier.store()));
  return journal;
}

/// Three machines whose messages wait until chance delivers them.
struct Cluster {
  explicit Cluster(std::uint64_t seed) : chance(seed) {
    hub.on_way = [this](PeerLife from, PeerLife to, std::vector<std::byte>& message) {
      if (std::exchange(passes, false)) return true;
      on_way.push_back({from, to, std::move(message)});
      return false;
    };
    for (std::uint32_t machine = 0; machine < 3; ++machine) ports.push_back(&hub.add(machine));
    pools.resize(3);
    for (std::uint32_t machine = 0; machine < 3; ++machine) join(machine);
  }
  void join(std::uint32_t machine) {
    pools[machine].reset();  // it has the channel that the next one opens
    pools[machine] = std::move(KeptPool::make_among(Pool::shape(), 8 + chance.pick(30),
                                                    *ports[machine], "kv"))
                         .value();
  }
  std::string deliver() {
    if (on_way.empty()) return "";
    // Links keep the order between two machines.
    Sent sent = on_way[chance.one_of(3) ? chance.pick(on_way.size() - 1) : 0];
    const auto first = std::ranges::find_if(
        on_way, [&](const Sent& one) { return one.from == sent.from && one.to == sent.to; });
    sent = std::move(*first);
    on_way.erase(first);
    const std::string text = std::to_string(sent.from.machine) + " to " +
                             std::to_string(sent.to.machine) + ": " +
                             std::to_string(sent.message.size()) + " bytes";
    if (chance.one_of(60)) return "loses " + text;
    if (chance.one_of(60)) sent.message.pop_back();
    for (int times = chance.one_of(60) ? 2 : 1; times > 0; --times) pass(sent);
    return "delivers " + text;
  }
  struct Sent {
    PeerLife from, to;
    std::vector<std::byte> message;
  };
  /// It arrives, and what is said to it waits.
  void pass(const Sent& sent) {
    passes = true;
    ports[sent.from.machine]->send(channel, sent.to, sent.message);
  }
  std::string step() {
    constexpr std::int64_t times[] = {0,
                                      1,
                                      1000,
                                      PagePuller::find_patience,
                                      PagePuller::find_patience + 1,
                                      PagePuller::page_patience,
                                      PagePuller::first_pause,
                                      PagePuller::pull_patience};
    if (chance.one_of(12)) now += times[chance.pick(std::size(times) - 1)];
    const auto machine = static_cast<std::uint32_t>(chance.pick(2));
    KeptPool& kept = *pools[machine];
    KvPeers& peers = *kept.peers;
    const std::vector<std::int32_t> tokens = Pool::some_tokens(chance);
    std::string line = std::to_string(machine) + ' ';
    switch (chance.pick(34)) {
      case 0:
        if (!chance.one_of(12)) return "";
        pools[machine].reset();
        std::erase_if(on_way, [&](const Sent& one) {
          return one.from.machine == machine || one.to.machine == machine;
        });
        join(machine);
        return line + "begins anew";
      case 1:
        peers.forget(task - std::min(task, chance.pick(3)));
        line += "forgets";
        break;
      case 2:
      case 3:
        line += Pool::compute(*kept.pool, tokens);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        line += "begins " + std::to_string(++task);
        if (!peers.begin(task, Pool::origin(), tokens, some_cost(chance), now)) line += ": no";
        break;
      case 8: {
        const PeerLife to{static_cast<std::uint32_t>(chance.pick(3)),
                          static_cast<std::uint32_t>(chance.pick(2))};
        constexpr std::size_t sizes[] = {0, 3, pages::note_bytes_most};
        const std::uint64_t number =
            peers.tell(to, pages::Bytes(sizes[chance.one_of(9) ? 2 : chance.pick(1)]));
        notes.emplace_back(machine, number);
        line += "tells " + std::to_string(number) + " to " + std::to_string(to.machine) + '/' +
                std::to_string(to.incarnation);
        break;
      }
      case 9:
        for (const auto& [from, number] : notes)
          line += " " + std::to_string(number) + ":" +
                  std::to_string(static_cast<int>(pools[from]->peers->told(number)));
        break;
      case 10:
        for (const KvPeers::Word& word : peers.take_words())
          line += "hears " + std::to_string(word.text.size()) + " bytes of " +
                  std::to_string(word.from.machine) + "; ";
        break;
      case 11:
      case 12:
      case 13:
      case 14: {
        std::vector<PageSource::Ready> ready;
        peers.poll(now, ready);
        line += "polls" + words(ready);
        break;
      }
      default:
        line = deliver();
        if (line.empty()) return "";
    }
    for (const std::optional<KeptPool>& one : pools) {
      const KvPeers::Counts counts = one->peers->counts();
      line += "; awaits " + std::to_string(one->peers->pages_awaited()) +
              (one->peers->is_waited_for() ? ", is waited for, " : ", ") +
              std::to_string(counts.pulled) + ' ' + std::to_string(counts.pulled_bytes) + ' ' +
              std::to_string(counts.not_worth) + ' ' + std::to_string(counts.stale) + " ends";
      for (const std::uint64_t end : counts.ends) line += ' ' + std::to_string(end);
      line += " serves " + std::to_string(counts.served.pages) + ' ' +
              std::to_string(counts.served.bytes) + ' ' + std::to_string(counts.served.missing) +
              ' ' + std::to_string(counts.served.busy) + ' ' +
              std::to_string(counts.served.refused) + ", " +
              std::to_string(one->pool->pages_cached()) + " cached";
    }
    return std::to_string(now) + ": " + line;
  }

  Chance chance;
  bool passes = false;  // the next message
  PeerHub hub;
  std::vector<PeerHub::Port*> ports;
  std::deque<Sent> on_way;
  std::vector<std::optional<KeptPool>> pools;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> notes;
  const std::uint64_t channel = sha256_prefix("pages of kv");
  std::int64_t now = 0;
  std::uint64_t task = 0;
};

}  // namespace

TEST_CASE("a store over a disk that does what chance says does what it did before") {
  test::Outcomes outcomes("page_store");
  const Journal first = play_store(1, 60, 5000, false);
  for (const std::string& line : first) outcomes.add("chance 1", line);
  for (std::uint64_t seed = 1; seed <= 24; ++seed)
    outcomes.add("small pages", test::digest_of(play_store(seed, 500, 5000, seed % 2 == 0)));
  for (std::uint64_t seed = 1; seed <= 2; ++seed)  // few buffers
    outcomes.add("large pages", test::digest_of(play_store(seed, 120, 6U << 20U, true)));
  outcomes.require_as_kept();
}

TEST_CASE("a tier over a disk that does what chance says does what it did before") {
  test::Outcomes outcomes("kv_tier");
  const Journal first = play_tier(1, 60);
  for (const std::string& line : first) outcomes.add("chance 1", line);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Journal journal = play_tier(seed, 500);
    outcomes.add("digests", test::digest_of(journal));
    outcomes.add("ends", journal.back());
  }
  outcomes.require_as_kept();
}

TEST_CASE("pools of three machines whose messages chance delivers do what they did before") {
  test::Outcomes outcomes("kv_peers");
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Cluster cluster(seed);
    Journal journal;
    for (int i = 0; i < 1000; ++i)
      if (std::string line = cluster.step(); !line.empty()) journal.push_back(std::move(line));
    if (seed == 1)
      for (std::size_t at = 0; at < 60; ++at) outcomes.add("chance 1", journal[at]);
    outcomes.add("digests", test::digest_of(journal));
    std::string pulled;
    for (const std::optional<KeptPool>& one : cluster.pools)
      pulled += ' ' + std::to_string(one->peers->counts().pulled);
    outcomes.add("pages pulled", pulled);
  }
  outcomes.require_as_kept();
}
