// Pages in a folder: written behind, found by the next process, and a disk that does what disks do.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/random.h"
#include "engine/storage/page_store.h"
#include "engine/storage/store_report.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t page_bytes = 5000;
constexpr std::int64_t second = 1'000'000'000;

/// Where the pages of a test stand.
struct Scratch : ScratchFolder {
  std::string pages() const { return path() + "/pages"; }
};

PageKey key_of(std::uint64_t n) {
  SplitMix64 random(n + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

std::vector<std::byte> content_of(std::uint64_t n, std::uint32_t bytes = page_bytes) {
  std::vector<std::byte> made(bytes);
  SplitMix64 random(n);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.next());
  return made;
}

PageStoreOptions options_of(const Scratch& scratch, std::uint64_t most = 1U << 20) {
  PageStoreOptions options;
  options.folder = scratch.pages();
  options.bytes_most = most;
  options.page_bytes = page_bytes;
  options.layout = "test";
  options.segment_bytes = 40'000;  // four records
  return options;
}

/// A store, and what came of reads.
struct Store {
  explicit Store(Result<std::unique_ptr<PageStore>> opened) : store(std::move(opened).value()) {
    store->on_read = [this](const PageKey& key, const std::byte* content) {
      auto& got = results[key];
      got.reset();
      if (content != nullptr) got.emplace(content, content + page_bytes);
      store->release(key);
    };
  }
  void drain() {
    while (store->is_busy()) store->poll(now, std::chrono::seconds(10));
  }
  /// Page n behind page n - 1, but every tenth one, which begins a history.
  bool write(std::uint64_t n) {
    const PageKey parent = n % 10 == 0 ? PageKey{} : key_of(n - 1);
    if (!store->wants(key_of(n), parent, now)) return false;
    while (!store->can_write()) store->poll(now, std::chrono::seconds(10));
    store->write(key_of(n), parent, content_of(n), now);
    return true;
  }
  /// None: it is not there, or not whole.
  std::optional<std::vector<std::byte>> read(std::uint64_t n) {
    results.clear();
    if (!store->read(key_of(n), now)) return std::nullopt;
    drain();
    return results.at(key_of(n));
  }
  std::unique_ptr<PageStore> store;
  std::map<PageKey, std::optional<std::vector<std::byte>>> results;
  std::int64_t now = 0;
};

/// Refuses what the test says.
class FaultyPort final : public BlockPort {
 public:
  struct Faults {
    int writes = 0, reads = 0;  // errno's number of all that follow
    int heads = 0;              // of segments' heads alone
  };
  explicit FaultyPort(Faults& faults) : faults_(faults), inner_(make_thread_port()) {}

  std::string_view name() const override { return "faulty"; }
  void submit(Job job) override {
    const bool is_head = job.kind == Kind::write && job.offset == 0;
    const int error = job.kind == Kind::read           ? faults_.reads
                      : is_head && faults_.writes == 0 ? faults_.heads
                                                       : faults_.writes;
    if (error != 0)
      ended_.push_back({job.id, error});
    else
      inner_->submit(std::move(job));
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) override {
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    if (!ended_.empty()) most = {};
    ended_.clear();
    inner_->wait(ended, most);
  }

 private:
  Faults& faults_;
  std::vector<Ended> ended_;
  std::unique_ptr<BlockPort> inner_;
};

std::vector<std::unique_ptr<BlockPort>> ports() {
  std::vector<std::unique_ptr<BlockPort>> made;
  made.push_back(make_thread_port());
  for (const unsigned depth : {BlockPort::usual_depth, 2U}) made.push_back(make_uring_port(depth));
  if (std::erase(made, nullptr) > 0) WARN("the kernel gives no io_uring: it is not tested");
  return made;
}

fs::path segment_file(const Scratch& scratch, const char* digits) {
  return fs::path(scratch.pages()) / ("segment-000000000000000" + std::string(digits));
}

}  // namespace

TEST_CASE("a port moves whole blocks, many at a time, and says what it could not") {
  for (auto& port : ports()) {
    INFO(port->name());
    Scratch scratch;
    StoreFolder folder = std::move(StoreFolder::open(scratch.pages())).value();
    for (const bool direct : {true, false}) {
      const std::uint64_t number = direct ? 1 : 2;
      const auto file = std::move(folder.create(number, direct)).value();
      constexpr std::size_t count = 100, size = 2 * segment_block;
      struct alignas(segment_block) Block {
        std::array<std::byte, size> bytes;
      };
      std::vector<Block> out(count), in(count);
      SplitMix64 random(3);
      for (Block& block : out)
        for (std::byte& byte : block.bytes) byte = static_cast<std::byte>(random.next());
      const auto all = [&](BlockPort::Kind kind, std::vector<Block>& blocks) {
        for (std::size_t i = 0; i < count; ++i)
          port->submit({i, kind, file, i * size, blocks[i].bytes});
        std::vector<BlockPort::Ended> ended;
        while (ended.size() < count) port->wait(ended, std::chrono::seconds(10));
        std::vector<int> seen(count);
        for (const BlockPort::Ended& one : ended) {
          CHECK(one.error == 0);
          ++seen.at(one.id);
        }
        CHECK(std::ranges::count(seen, 1) == static_cast<int>(count));
      };
      all(BlockPort::Kind::write, out);
      std::vector<BlockPort::Ended> ended;
      port->submit({7, BlockPort::Kind::sync, file, 0, {}});
      while (ended.empty()) port->wait(ended, std::chrono::seconds(10));
      CHECK(ended.front().error == 0);
      all(BlockPort::Kind::read, in);
      CHECK(std::memcmp(in.data(), out.data(), count * size) == 0);
      // Behind the end, and into a file that may not be written.
      ended.clear();
      port->submit({8, BlockPort::Kind::read, file, count * size, in[0].bytes});
      while (ended.empty()) port->wait(ended, std::chrono::seconds(10));
      CHECK(ended.front().error == BlockPort::cut_short);
      ended.clear();
      const auto only_read = std::move(folder.read(number, direct)).value();
      port->submit({9, BlockPort::Kind::write, only_read, 0, out[0].bytes});
      while (ended.empty()) port->wait(ended, std::chrono::seconds(10));
      CHECK(ended.front().error == EBADF);
      ended.clear();
      port->wait(ended, std::chrono::seconds(10));  // nothing will come: it does not wait
      CHECK(ended.empty());
    }
  }
}

TEST_CASE("a segment's file waits for the disk, past the page cache or not") {
  Scratch scratch;
  StoreFolder folder = std::move(StoreFolder::open(scratch.pages())).value();
  for (const bool direct : {true, false}) {
    const auto file = std::move(folder.create(direct ? 1 : 2, direct)).value();
    const int status = ::fcntl(file->descriptor(), F_GETFL);
    CHECK((status & O_NONBLOCK) == 0);
    CHECK(((status & O_DIRECT) != 0) == file->is_direct());
  }
}

TEST_CASE("pages are there for the next process, byte for byte") {
  for (const bool uring : {false, true}) {
    Scratch scratch;
    const auto port = [&] { return uring ? make_uring_port() : make_thread_port(); };
    PageKeys::Secret secret{};
    {
      Store first(PageStore::open(options_of(scratch), port()));
      secret = first.store->secret();
      for (std::uint64_t n = 0; n < 37; ++n) REQUIRE(first.write(n));
      CHECK_FALSE(first.write(5));  // it is known
      first.drain();
      CHECK((first.read(12) == content_of(12)));
      CHECK_FALSE(first.read(99).has_value());
    }
    Store second(PageStore::open(options_of(scratch), port()));
    CHECK(second.store->secret() == secret);
    CHECK(second.store->index().pages() == 37);
    std::vector<PageKey> keys;
    for (std::uint64_t n = 10; n < 20; ++n) keys.push_back(key_of(n));
    CHECK(second.store->index().match(keys, 0) == 10);
    CHECK(second.store->index().match(keys, 4) == 6);
    std::swap(keys[5], keys[6]);
    CHECK(second.store->index().match(keys, 0) == 5);
    for (std::uint64_t n = 0; n < 37; ++n) CHECK((second.read(n) == content_of(n)));
    CHECK(second.write(37));
    CHECK_FALSE(second.write(49));  // what it follows is not there
    second.drain();
    CHECK((second.read(37) == content_of(37)));
    CHECK(second.store->counts().broken == 0);
    second.store.reset();
    const StoreReport report = report_store(scratch.pages(), true).value();
    CHECK(report.pages == 38);
    CHECK(report.broken.empty());
    CHECK(report.unfinished == 0);
    CHECK_FALSE(report.is_held);
  }
}

TEST_CASE("a flipped bit is a page that is computed again, and the report names it") {
  Scratch scratch;
  {
    Store store(PageStore::open(options_of(scratch)));
    for (std::uint64_t n = 0; n < 6; ++n) REQUIRE(store.write(n));
    store.drain();
  }
  const int file = ::open(segment_file(scratch, "1").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  const auto at = static_cast<off_t>(segment_block + record_bytes(page_bytes) + 1000);
  char byte = 0;
  REQUIRE(::pread(file, &byte, 1, at) == 1);
  byte = static_cast<char>(byte ^ 4);
  REQUIRE(::pwrite(file, &byte, 1, at) == 1);
  ::close(file);
  Store store(PageStore::open(options_of(scratch)));
  CHECK_FALSE(store.read(1).has_value());
  CHECK(store.store->counts().broken == 1);
  CHECK((store.read(0) == content_of(0)));
  CHECK((store.read(2) == content_of(2)));
  CHECK(report_store(scratch.pages(), true)->broken ==
        std::vector<std::string>{"segment-0000000000000001, record 1: not what was written there"});
  CHECK(report_store(scratch.pages(), true)->is_held);
  CHECK(store.write(1));  // again
  store.drain();
  CHECK((store.read(1) == content_of(1)));
}

TEST_CASE("a segment that was cut short is a page that is computed again, and others are read on") {
  for (const bool uring : {false, true}) {
    Scratch scratch;
    {
      Store store(PageStore::open(options_of(scratch)));
      for (std::uint64_t n = 0; n < 8; ++n) REQUIRE(store.write(n));
      store.drain();
    }
    Store store(
        PageStore::open(options_of(scratch), uring ? make_uring_port() : make_thread_port()));
    // Within the third record, and at no whole block.
    fs::resize_file(segment_file(scratch, "1"), segment_block + 2 * record_bytes(page_bytes) + 100);
    CHECK_FALSE(store.read(3).has_value());
    CHECK_FALSE(store.read(2).has_value());
    CHECK(store.store->counts().broken == 2);
    CHECK(store.store->counts().failed == 0);
    CHECK(store.store->health().works());
    CHECK(store.store->reads());
    CHECK((store.read(0) == content_of(0)));  // before the cut
    CHECK((store.read(7) == content_of(7)));  // in another segment
    CHECK_FALSE(store.store->index().knows(key_of(2)));
  }
}

TEST_CASE("a folder's list follows chains, over segments and where their beginning is gone") {
  const Scratch scratch;
  {
    Store store(PageStore::open(options_of(scratch)));
    for (std::uint64_t n = 0; n < 25; ++n) REQUIRE(store.write(n));
    store.drain();
    const FolderPages held = list_store(scratch.pages()).value();
    CHECK(held.is_held);
  }
  const FolderPages all = list_store(scratch.pages()).value();
  CHECK_FALSE(all.is_held);
  REQUIRE(all.pages.size() == 25);
  for (std::uint64_t n = 0; n < 25; ++n) {
    CHECK(all.pages[n].key == key_of(n));
    CHECK(all.pages[n].depth == n % 10 + 1);
  }
  CHECK((all.chains == 3 && all.longest == 10 && all.cut == 0));
  std::uint32_t pages = 0;
  for (const FolderSegment& segment : all.segments) {
    CHECK((segment.is_segment && segment.page_bytes == page_bytes && segment.room == 4));
    CHECK(segment.layout == all.segments[0].layout);
    CHECK((segment.unfinished == 0 && segment.broken == 0));
    CHECK(segment.written_s < 3600);
    pages += segment.pages;
  }
  CHECK(pages == 25);

  // Without pages 0 to 3 nobody finds 4 to 9 by their beginning.
  REQUIRE(fs::remove(scratch.pages() + "/segment-0000000000000001"));
  const FolderPages cut = list_store(scratch.pages()).value();
  CHECK((cut.pages.size() == 21 && cut.cut == 6));
  CHECK((cut.chains == 2 && cut.longest == 10));
  // Written again they stand behind what follows them.
  {
    Store store(PageStore::open(options_of(scratch)));
    for (std::uint64_t n = 0; n < 4; ++n) REQUIRE(store.write(n));
    store.drain();
  }
  const FolderPages again = list_store(scratch.pages()).value();
  CHECK((again.pages.size() == 25 && again.chains == 3 && again.cut == 0));
  CHECK(again.pages[0].depth == 5);
  std::ofstream(scratch.pages() + "/segment-00000000000000ff") << "none of ours";
  const FolderPages other = list_store(scratch.pages()).value();
  CHECK_FALSE(other.segments.back().is_segment);
  CHECK(other.pages.size() == 25);
  CHECK_FALSE(list_store(scratch.pages() + "/nowhere").ok());
}

TEST_CASE("a full folder gives up segments that nobody reads, and stays within its size") {
  Scratch scratch;
  const std::uint64_t most = 200'000;
  Store store(PageStore::open(options_of(scratch, most)));
  for (std::uint64_t n = 0; n < 100; n += 10) {
    for (std::uint64_t m = n; m < n + 10; ++m) REQUIRE(store.write(m));
    store.drain();
    for (std::uint64_t m = 0; m < 4; ++m) CHECK((store.read(m) == content_of(m)));  // they stay
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(scratch.pages()))
      if (entry.path().filename().string().starts_with("segment-")) bytes += entry.file_size();
    CHECK(bytes <= most);
  }
  CHECK(store.store->counts().dropped > 10);
  CHECK_FALSE(store.read(11).has_value());
  CHECK((store.read(99) == content_of(99)));
}

TEST_CASE("a disk that is full or broken switches the store off for a while") {
  for (const int error : {ENOSPC, EIO}) {
    Scratch scratch;
    FaultyPort::Faults faults;
    Store store(PageStore::open(options_of(scratch), std::make_unique<FaultyPort>(faults)));
    for (std::uint64_t n = 0; n < 5; ++n) REQUIRE(store.write(n));
    store.drain();
    faults.writes = error;
    REQUIRE(store.write(5));
    store.drain();
    CHECK_FALSE(store.store->health().works());
    CHECK(store.store->health().reason() == (error == ENOSPC
                                                 ? "the disk is full: No space left on device"
                                                 : "a page cannot be written: Input/output error"));
    CHECK_FALSE(store.write(10));
    CHECK((store.read(3) == content_of(3)));  // what is there is read on
    store.now += 29 * second;
    CHECK_FALSE(store.write(10));
    store.now += 2 * second;
    REQUIRE(store.write(10));  // one, to see
    CHECK_FALSE(store.write(20));
    store.drain();
    CHECK_FALSE(store.store->health().works());
    store.now += 59 * second;
    CHECK_FALSE(store.write(10));  // twice as long
    store.now += 2 * second;
    faults.writes = 0;
    REQUIRE(store.write(10));
    store.drain();
    CHECK(store.store->health().works());
    REQUIRE(store.write(11));
    store.drain();
    CHECK((store.read(11) == content_of(11)));
    faults.reads = EIO;
    CHECK_FALSE(store.read(2).has_value());
    CHECK_FALSE(store.store->reads());
    CHECK_FALSE(store.read(3).has_value());
  }
}

TEST_CASE("a folder that was removed, or its lock, switches the store off until it is back") {
  for (const bool whole : {true, false}) {
    Scratch scratch;
    const fs::path pages = scratch.pages(), elsewhere = scratch.path() + "/elsewhere";
    const fs::path taken = whole ? pages : pages / "lock";
    Store store(PageStore::open(options_of(scratch)));
    REQUIRE(store.write(0));
    store.drain();
    fs::rename(taken, elsewhere);
    if (whole) fs::create_directory(pages);  // another in its place is no better
    REQUIRE(store.write(1));
    CHECK_FALSE(store.store->is_busy());  // nothing was written
    CHECK(store.store->health().reason() == "the folder, or the lock in it, was removed");
    CHECK((store.read(0) == content_of(0)));  // what is open is read on
    fs::remove(taken);
    fs::rename(elsewhere, taken);
    store.now += 31 * second;
    REQUIRE(store.write(1));
    store.drain();
    CHECK((store.store->health().works() && store.read(1) == content_of(1)));
  }
}

TEST_CASE("many that give up on one disk are one failure; then one read shows whether it works") {
  Scratch scratch;
  FaultyPort::Faults faults;
  Store store(PageStore::open(options_of(scratch), std::make_unique<FaultyPort>(faults)));
  for (std::uint64_t n = 0; n < 8; ++n) REQUIRE(store.write(n));
  store.drain();
  for (int i = 0; i < 5; ++i) store.store->give_up(store.now, "hangs");
  CHECK(store.store->health().failures() == 1);
  CHECK_FALSE(store.read(1).has_value());
  store.now += 31 * second;  // the first pause, not one doubled five times
  faults.reads = EIO;
  CHECK_FALSE(store.read(1).has_value());
  CHECK(store.store->health().failures() == 2);
  faults.reads = 0;
  store.now += 59 * second;
  CHECK_FALSE(store.read(2).has_value());  // twice as long
  store.now += 2 * second;
  CHECK((store.read(2) == content_of(2)));
  CHECK(store.store->reads());
  CHECK(store.store->health().works());
  CHECK((store.read(3) == content_of(3)));
}

TEST_CASE("a segment whose head could not be written takes no more pages") {
  Scratch scratch;
  {
    FaultyPort::Faults faults;
    Store store(PageStore::open(options_of(scratch), std::make_unique<FaultyPort>(faults)));
    faults.heads = EIO;
    REQUIRE(store.write(0));
    store.drain();
    CHECK_FALSE(store.store->health().works());
    faults.heads = 0;
    store.now += 31 * second;
    REQUIRE(store.write(10));
    store.drain();
    CHECK(store.store->health().works());
  }
  Store next(PageStore::open(options_of(scratch)));
  CHECK((next.read(10) == content_of(10)));
  CHECK_FALSE(next.read(0).has_value());
}

TEST_CASE("one folder is one process's, its user's alone, and no link") {
  Scratch scratch;
  const auto open = [&](const std::string& path) {
    PageStoreOptions options = options_of(scratch);
    options.folder = path;
    const auto opened = PageStore::open(options);
    return opened.ok() ? std::string() : opened.error().message;
  };
  const auto held = std::move(PageStore::open(options_of(scratch))).value();
  CHECK_THAT(open(scratch.pages()), Catch::Matchers::Contains("in use by another paged_kv"));
  struct stat about {};
  REQUIRE(::stat(scratch.pages().c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0700);
  for (const char* name : {"/secret", "/lock"}) {
    REQUIRE(::stat((scratch.pages() + name).c_str(), &about) == 0);
    CHECK((about.st_mode & 0777) == 0600);
  }
  const std::string wide = scratch.path() + "/wide";
  REQUIRE(::mkdir(wide.c_str(), 0755) == 0);
  REQUIRE(::chmod(wide.c_str(), 0755) == 0);
  CHECK_THAT(open(wide), Catch::Matchers::Contains("chmod 700"));
  fs::create_directory_symlink(scratch.pages(), scratch.path() + "/link");
  CHECK_THAT(open(scratch.path() + "/link"), Catch::Matchers::Contains("or a link"));
  CHECK_THAT(open(scratch.path() + "/no/where"), Catch::Matchers::Contains("cannot be made"));
  REQUIRE(::chmod(wide.c_str(), 0700) == 0);
  { std::ofstream(wide + "/secret") << "short"; }
  CHECK_THAT(open(wide), Catch::Matchers::Contains("32 bytes"));
  PageStoreOptions small = options_of(scratch, 10'000);
  CHECK_THAT(PageStore::open(small).error().message, Catch::Matchers::Contains("are too few"));
  CHECK(report_store(scratch.path() + "/nothing", false).error().code == ErrorCode::not_found);
}

TEST_CASE("a folder may be as small as two segments of a page, and how large that is is said") {
  Scratch scratch;
  const std::uint64_t least = 2 * (segment_block + record_bytes(page_bytes));
  CHECK_FALSE(PageStore::open(options_of(scratch, least - 1)).ok());
  CHECK(PageStore::open(options_of(scratch, least)).ok());
  PageStoreOptions large = options_of(scratch);
  large.page_bytes = 3U << 20U;
  CHECK(PageStore::open(large).error().message ==
        scratch.pages() +
            ": its 1024 KiB are too few: a page of this model takes 3076 KiB, "
            "give at least 6160 KiB");
}

TEST_CASE("a process killed while it writes leaves a subset of the pages, and none that is wrong") {
  // A child writes pages and is killed when as many of its writes as said have ended.
  for (std::size_t kill_after : {0U, 1U, 2U, 5U, 9U, 14U, 23U}) {
    Scratch scratch;
    std::array<int, 2> ready{};
    REQUIRE(::pipe2(ready.data(), O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Store store(PageStore::open(options_of(scratch), make_thread_port()));
      for (std::uint64_t n = 0; n < 30; ++n) {
        (void)store.write(n);
        store.store->poll(0);
        if (n >= kill_after) break;
      }
      (void)::write(ready[1], "x", 1);
      for (;;) ::pause();  // what it has asked for goes on
    }
    ::close(ready[1]);
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    ::close(ready[0]);
    Store store(PageStore::open(options_of(scratch)));
    std::size_t whole = 0;
    for (std::uint64_t n = 0; n < 30; ++n)
      if (const auto got = store.read(n)) {
        CHECK((*got == content_of(n)));
        CHECK(n <= kill_after);
        ++whole;
      }
    CHECK(store.store->index().pages() == whole);
    REQUIRE(store.write(50));
    store.drain();
    CHECK((store.read(50) == content_of(50)));
  }
}

TEST_CASE("random histories with restarts read what a plain map says, or nothing") {
  std::size_t hits = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SplitMix64 random(seed);
    Scratch scratch;
    FaultyPort::Faults faults;
    const std::uint64_t most = 100'000 + random.next() % 400'000;
    auto store = std::make_unique<Store>(
        PageStore::open(options_of(scratch, most), std::make_unique<FaultyPort>(faults)));
    std::map<std::uint64_t, bool> written;
    std::map<std::uint64_t, std::uint64_t> generations;
    for (int event = 0; event < 400; ++event) {
      const std::uint64_t n = random.next() % 60;
      switch (random.next() % 12) {
        case 0:
          store->drain();
          store = nullptr;  // the folder is let go before it is opened again
          faults = {};
          store = std::make_unique<Store>(
              PageStore::open(options_of(scratch, most), std::make_unique<FaultyPort>(faults)));
          break;
        case 1:
          faults.writes = random.next() % 2 == 0 ? EIO : 0;
          store->now += 700 * second;
          break;
        case 2:
        case 3:
        case 4:
        case 5:
          if (!store->store->is_reading(key_of(n))) {
            const auto got = store->read(n);
            if (got.has_value()) {
              REQUIRE(written[n]);
              REQUIRE((*got == content_of(n)));
              ++hits;
            }
          }
          break;
        default:
          written[n] = store->write(n) || written[n];
      }
      if (const StoredPage* page = store->store->index().find(key_of(n))) {
        REQUIRE(page->head.generation >= generations[n]);  // K3
        generations[n] = page->head.generation;
      }
      if (random.next() % 3 == 0) store->drain();
      REQUIRE(store->store->index().bytes() <= most + 40'000);
    }
    store->drain();
    CHECK(store->store->counts().broken == 0);
  }
  CHECK(hits > 50);
}
