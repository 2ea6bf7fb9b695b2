// Files, ports, folders and tiers at their limits, each beside what is plainly so.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "base/random.h"
#include "engine/checkpoint/mapped_file.h"
#include "engine/storage/kept_pool.h"
#include "engine/storage/page_window.h"
#include "engine/storage/storage_clock.h"
#include "engine/storage/store_report.h"
#include "tests/outcomes.h"
#include "tests/peer_hub.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

namespace fs = std::filesystem;
constexpr std::int64_t second = 1'000'000'000;

/// A folder whose secret is always the same, for the order of keys follows from it.
struct Scratch : ScratchFolder {
  Scratch() {
    fs::create_directory(pages());
    fs::permissions(pages(), fs::perms::owner_all);
    std::ofstream(pages() + "/secret") << std::string(32, 's');
  }
  std::string pages() const { return path() + "/pages"; }
  std::string said(std::string text) const {
    for (std::size_t at; (at = text.find(path())) != std::string::npos;)
      text.replace(at, path().size(), "SCRATCH");
    return text;
  }
};

PageKey key_of(std::uint64_t n) {
  SplitMix64 random(n + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

/// Ends as many jobs as the test lets it, in order; says how long it was told to wait.
class StepPort final : public BlockPort {
 public:
  struct Control {
    std::size_t may_end = ~std::size_t{0};
    std::vector<std::int64_t> waits;
    std::deque<Job> jobs;
  };
  explicit StepPort(Control& control) : control_(control) {}
  ~StepPort() override { control_.jobs.clear(); }
  std::string_view name() const override { return "steps"; }
  void submit(Job job) override { control_.jobs.push_back(std::move(job)); }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) override {
    control_.waits.push_back(most.count());
    for (; control_.may_end > 0 && !control_.jobs.empty(); --control_.may_end) {
      const Job job = std::move(control_.jobs.front());
      control_.jobs.pop_front();
      const auto offset = static_cast<off_t>(job.offset);
      const int file = job.file->descriptor();
      ssize_t moved = 0;
      if (job.kind == Kind::read) moved = ::pread(file, job.bytes.data(), job.bytes.size(), offset);
      if (job.kind == Kind::write)
        moved = ::pwrite(file, job.bytes.data(), job.bytes.size(), offset);
      ended.push_back({job.id, moved == static_cast<ssize_t>(job.bytes.size()) ? 0 : cut_short});
    }
  }

 private:
  Control& control_;
};

/// Pages so large that a store has two buffers for each way.
struct LargeTier {
  static KvShape shape() { return {1, 720'000, 2}; }
  explicit LargeTier(const Scratch& scratch) {
    PageStoreOptions options = KvTier::options_for(shape(), scratch.pages(), 1U << 30U);
    options.segment_bytes = 1;  // a page each
    auto store = PageStore::open(options, std::make_unique<StepPort>(control));
    pool = std::make_unique<KvPool>(shape(), 5, (*store)->secret());
    tier = std::make_unique<KvTier>(*pool, std::move(store).value());
  }
  ~LargeTier() {
    control.may_end = ~std::size_t{0};
    tier.reset();
  }
  static RowsOrigin origin() {
    RowsOrigin made;
    made.model = "m";
    return made;
  }
  std::string poll(std::int64_t now) {
    std::vector<PageSource::Ready> ready;
    tier->poll(now, ready);
    std::string text = std::to_string(tier->pages_awaited()) + " awaited, " +
                       std::to_string(control.jobs.size()) + " under way";
    for (const PageSource::Ready& one : ready)
      text += ", " + std::to_string(one.task) + " has " + std::to_string(one.tokens);
    return text;
  }
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};  // four pages, and one more
  StepPort::Control control;
  std::unique_ptr<KvPool> pool;
  std::unique_ptr<KvTier> tier;
};

void fill(LargeTier& large) {
  KvSequence sequence;
  REQUIRE(large.pool->extend(sequence, 8).ok());
  large.pool->publish(sequence, LargeTier::origin(), large.tokens);
  for (int i = 0; i < 8; ++i) (void)large.poll(0);
  REQUIRE(large.tier->store().counts().written == 4);
}

}  // namespace

TEST_CASE("a file is mapped whole, and what is no file or empty is named as that") {
  const Scratch scratch;
  const auto said = [&](const std::string& path) {
    const Result<MappedFile> file = MappedFile::open(path);
    return file.ok() ? std::to_string(file->bytes.size()) + " bytes"
                     : std::string(to_string(file.error().code)) + ", " +
                           scratch.said(file.error().message);
  };
  const std::string path = scratch.path() + "/f";
  CHECK(said(path) == "not_found, SCRATCH/f: No such file or directory");
  CHECK(said(scratch.path()) == "corrupt, SCRATCH: empty, or not a regular file");
  CHECK(said("/dev/zero") == "corrupt, /dev/zero: empty, or not a regular file");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK(said(path) == "corrupt, SCRATCH/f: empty, or not a regular file");
  fs::remove(path);
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U, 100'000U}) {
    std::string text;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>(i * 7 + i / 256);
    std::ofstream(path, std::ios::binary) << text;
    if (size == 0) {
      CHECK(said(path) == "corrupt, SCRATCH/f: empty, or not a regular file");
      continue;
    }
    Result<MappedFile> file = MappedFile::open(path);
    REQUIRE(file.ok());
    REQUIRE(file->bytes.size() == size);
    const std::shared_ptr<const void> owner = file->owner;
    const std::span<const std::byte> bytes = file->bytes;
    file = Error{};  // the bytes stay for as long as somebody owns them
    fs::remove(path);
    CHECK(std::memcmp(bytes.data(), text.data(), size) == 0);
  }
}

TEST_CASE("a port that is asked without waiting tells what has ended, too") {
  for (const bool uring : {false, true}) {
    const std::unique_ptr<BlockPort> port = uring ? make_uring_port() : make_thread_port();
    if (port == nullptr) continue;  // store_test says so
    CHECK(port->name() == (uring ? "io_uring" : "threads"));
    const Scratch scratch;
    StoreFolder folder = std::move(StoreFolder::open(scratch.pages())).value();
    const auto file = std::move(folder.create(1, false)).value();
    struct alignas(segment_block) Block {
      std::byte bytes[segment_block];
    };
    Block block{};
    std::vector<BlockPort::Ended> ended;
    port->wait(ended, std::chrono::seconds(10));  // nothing is under way
    CHECK(ended.empty());
    for (std::uint64_t id = 1; id < 200; ++id) {
      port->submit({id, BlockPort::Kind::write, file, id * segment_block, block.bytes});
      const auto began = std::chrono::steady_clock::now();
      while (ended.empty() && std::chrono::steady_clock::now() - began < std::chrono::seconds(10))
        port->wait(ended, {});
      REQUIRE(ended.size() == 1);
      CHECK((ended[0].id == id && ended[0].error == 0));
      ended.clear();
    }
    // A file that ends within a block, at a block, and one that is empty.
    for (const off_t size : {off_t{5000}, off_t{4096}, off_t{0}}) {
      REQUIRE(::ftruncate(file->descriptor(), size) == 0);
      std::vector<Block> two(2);
      const std::span<std::byte> bytes(two[0].bytes, 2 * segment_block);
      port->submit({7, BlockPort::Kind::read, file, 0, bytes});
      port->wait(ended, std::chrono::seconds(10));
      REQUIRE(ended.size() == 1);
      CHECK(ended[0].error == BlockPort::cut_short);
      ended.clear();
    }
    const auto full = std::make_shared<SegmentFile>(::open("/dev/full", O_RDWR | O_CLOEXEC), false);
    port->submit({8, BlockPort::Kind::write, full, 0, block.bytes});
    port->wait(ended, std::chrono::seconds(10));
    port->submit({9, BlockPort::Kind::sync, full, 0, {}});
    if (ended.size() == 1) port->wait(ended, std::chrono::seconds(10));
    REQUIRE(ended.size() == 2);
    CHECK((ended[0].id == 8 && ended[0].error == ENOSPC));
    CHECK((ended[1].id == 9 && ended[1].error == EINVAL));
  }
}

TEST_CASE("a tier waits for its disk where somebody waits for pages, and never else") {
  const Scratch scratch;
  {
    LargeTier writes(scratch);
    fill(writes);
  }
  LargeTier large(scratch);
  std::vector<PageSource::Ready> ready;
  large.control.may_end = 0;
  large.tier->poll(5, ready, std::chrono::nanoseconds(77));
  REQUIRE(large.tier->begin(1, LargeTier::origin(), large.tokens, std::nullopt, 0));
  large.tier->poll(storage_clock(), ready, std::chrono::nanoseconds(78));
  large.tier->poll(6, ready);
  CHECK(large.control.waits == std::vector<std::int64_t>{0, 78, 0});
}

TEST_CASE("a task has what came before a page that is gone, once that is there") {
  const Scratch scratch;
  {
    LargeTier writes(scratch);
    fill(writes);
  }
  {
    LargeTier large(scratch);
    large.control.may_end = 0;
    REQUIRE(large.tier->begin(1, LargeTier::origin(), large.tokens, std::nullopt, 0));
    CHECK(large.poll(1) == "4 awaited, 2 under way");
    large.control.may_end = 1;
    CHECK(large.poll(2) == "3 awaited, 2 under way");
    fs::remove(scratch.pages() + "/segment-0000000000000004");
    large.control.may_end = 1;
    CHECK(large.poll(3) == "1 awaited, 1 under way");
    large.control.may_end = 1;
    CHECK(large.poll(4) == "0 awaited, 0 under way, 1 has 6");
    CHECK_FALSE(large.tier->is_waited_for());
  }
  LargeTier again(scratch);
  again.control.may_end = 0;
  REQUIRE(again.tier->begin(1, LargeTier::origin(), again.tokens, std::nullopt, 0));
  fs::remove(scratch.pages() + "/segment-0000000000000003");
  again.control.may_end = 2;
  CHECK(again.poll(1) == "0 awaited, 0 under way, 1 has 4");  // at once
}

TEST_CASE("a task waits for its pages for as long as patience lasts, to the nanosecond") {
  const Scratch scratch;
  {
    LargeTier writes(scratch);
    fill(writes);
  }
  LargeTier large(scratch);
  large.control.may_end = 0;
  REQUIRE(large.tier->begin(1, LargeTier::origin(), large.tokens, std::nullopt, 100));
  CHECK(large.poll(100 + KvTier::patience) == "4 awaited, 2 under way");
  CHECK(large.tier->store().reads());
  CHECK(large.poll(101 + KvTier::patience) == "0 awaited, 2 under way, 1 has 0");
  CHECK_FALSE(large.tier->store().reads());
  CHECK(large.tier->store().health().reason() == "a read took longer than 5 s");
}

TEST_CASE("a folder that is damaged anywhere is listed and reported as before") {
  test::Outcomes outcomes("damaged_folders");
  constexpr std::uint32_t page_bytes = 5000;
  PageStoreOptions options;
  options.page_bytes = page_bytes;
  options.layout = "test";
  options.segment_bytes = segment_block + 3 * record_bytes(page_bytes);
  const Scratch sound;
  options.folder = sound.pages();
  {
    auto store = std::move(PageStore::open(options, make_thread_port())).value();
    store->on_read = [](const PageKey&, const std::byte*) {};
    for (std::uint64_t n = 0; n < 11; ++n) {
      store->write(key_of(n), n % 4 == 0 ? PageKey{} : key_of(n - 1),
                   std::vector<std::byte>(page_bytes, static_cast<std::byte>(n)), 0);
      while (store->is_busy()) store->poll(0, std::chrono::seconds(10));
    }
  }
  const auto file = [](const Scratch& scratch, std::uint64_t number) {
    return scratch.pages() + "/segment-000000000000000" + std::to_string(number);
  };
  const auto look = [&](const std::string& title, const auto& damage) {
    const Scratch scratch;
    fs::copy(sound.pages(), scratch.pages(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    damage(scratch);
    for (const bool verify : {false, true}) {
      const Result<StoreReport> report = report_store(scratch.pages(), verify);
      REQUIRE(report.ok());
      std::string text =
          std::to_string(report->segments) + " segments, " + std::to_string(report->pages) +
          " pages, " + std::to_string(report->bytes) + " bytes, " +
          std::to_string(report->unfinished) + " unfinished" + (report->is_held ? ", held" : "");
      for (const std::string& one : report->broken) text += "; " + one;
      outcomes.add(title + (verify ? ", verified" : ""), text);
    }
    const Result<FolderPages> list = list_store(scratch.pages());
    REQUIRE(list.ok());
    std::string text = std::to_string(list->chains) + " chains, longest " +
                       std::to_string(list->longest) + ", cut " + std::to_string(list->cut) + ":";
    for (const FolderPage& page : list->pages)
      text += ' ' + std::to_string(page.segment) + '/' + std::to_string(page.slot) + '/' +
              std::to_string(page.generation) + '/' + std::to_string(page.depth);
    for (const FolderSegment& one : list->segments) {
      CHECK((one.written_s >= 0 && one.written_s < 3600));
      text += "; " + std::to_string(one.number) + ' ' + std::to_string(one.bytes) + ' ' +
              std::to_string(one.layout % 1000) + ' ' + std::to_string(one.page_bytes) + ' ' +
              std::to_string(one.room) + ' ' + std::to_string(one.pages) + ' ' +
              std::to_string(one.unfinished) + ' ' + std::to_string(one.broken) +
              (one.is_segment ? "" : " no segment");
    }
    outcomes.add(title + ", listed", text);
    PageStoreOptions here = options;
    here.folder = scratch.pages();
    auto store = PageStore::open(here, make_thread_port());
    REQUIRE(store.ok());
    outcomes.add(title + ", opened", std::to_string((*store)->index().pages()) + " pages, " +
                                         std::to_string((*store)->index().bytes()) + " bytes");
  };
  look("sound", [](const Scratch&) {});
  const std::size_t record = record_bytes(page_bytes);
  for (std::uint64_t number = 1; number <= 4; ++number)
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, segment_block - 1, segment_block, segment_block + 1,
          segment_block + 100, segment_block + record - 1, segment_block + record,
          segment_block + record + 1, segment_block + 2 * record + 4096})
      look("cut", [&](const Scratch& scratch) {
        if (fs::file_size(file(scratch, number)) > size)
          fs::resize_file(file(scratch, number), size);
      });
  for (std::uint64_t number = 1; number <= 4; ++number)
    look("gone", [&](const Scratch& scratch) { fs::remove(file(scratch, number)); });
  for (std::size_t at = 0; at < segment_block + 2 * record; at += at < 128 ? 8 : 487)
    look("flipped", [&](const Scratch& scratch) {
      std::fstream bytes(file(scratch, 2), std::ios::in | std::ios::out | std::ios::binary);
      bytes.seekg(static_cast<std::streamoff>(at));
      const int was = bytes.get();
      bytes.seekp(static_cast<std::streamoff>(at));
      bytes.put(static_cast<char>(was ^ 0x10));
    });
  look("another's", [&](const Scratch& scratch) {
    fs::copy_file(file(scratch, 1), scratch.pages() + "/segment-0000000000000009");
    fs::create_directory(scratch.pages() + "/segment-000000000000000a");
    std::ofstream(scratch.pages() + "/segment-000000000000000B") << "x";
    std::ofstream(scratch.pages() + "/segment-0000000000000000") << "x";
  });
  outcomes.require_as_kept();
}

TEST_CASE("a page is as large as a message holds, and a store as large as its pages need") {
  PeerHub hub;
  PeerHub::Port& port = hub.add(1);
  KvShape shape{1, pages::page_bytes_most / 8, 1};
  REQUIRE(shape.page_bytes() == pages::page_bytes_most);
  CHECK(KeptPool::make_among(shape, 1, port, "large").ok());
  shape.row += 1;
  CHECK(KeptPool::make_among(shape, 1, port, "too large").error().message ==
        "a page of 1 tokens has 33554440 bytes, and machines exchange pages of at most 33554432: "
        "give it fewer `page_tokens`");
  const auto kept = KeptPool::make_among({1, 2, 2}, 1, port, "one name");
  REQUIRE(kept.ok());
  CHECK(kept->source() == kept->peers.get());
  const auto second_of_name = KeptPool::make_among({1, 2, 2}, 1, port, "one name");
  REQUIRE_FALSE(second_of_name.ok());
  CHECK(second_of_name.error().message ==
        "another pool of this machine has the name 'one name' among other machines");
  CHECK(KeptPool::make({1, 2, 2}, 1, "", 0)->source() == nullptr);

  const Scratch scratch;
  PageStoreOptions options;
  options.folder = scratch.pages();
  const auto said = [&] {
    const auto store = PageStore::open(options, make_thread_port());
    return store.ok() ? "opened" : scratch.said(store.error().message);
  };
  options.bytes_most = 1;
  options.page_bytes = 1;
  CHECK(said() ==
        "SCRATCH/pages: its 1 byte are too few: a page of this model takes 4 KiB, give at least "
        "16 KiB");
  options.bytes_most = std::uint64_t{64} << 30U;
  options.page_bytes = record_content_most + 1;
  CHECK(said() ==
        "SCRATCH/pages: a page of this model takes 1025 MiB, and a folder has pages of at most "
        "1024 MiB: fewer page_tokens");
  options.page_bytes = record_content_most;
  CHECK(said() == "opened");
}

TEST_CASE("pulling is weighed by the bytes of all pages, as it took the last time") {
  PeerHub hub;
  std::vector<KeptPool> pools;
  for (std::uint32_t machine = 0; machine < 2; ++machine)
    pools.push_back(std::move(KeptPool::make_among({1, 2, 2}, 40, hub.add(machine), "kv")).value());
  RowsOrigin origin;
  origin.model = "m";
  const auto tokens = [](std::int32_t first) {  // five pages, and one token more
    return std::vector<std::int32_t>{first, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  };
  for (const std::int32_t first : {1, 2, 3}) {
    KvSequence sequence;
    REQUIRE(pools[0].pool->extend(sequence, 10).ok());
    pools[0].pool->publish(sequence, origin, tokens(first));
  }
  KvPeers& peers = *pools[1].peers;
  const std::int64_t before = storage_clock() - 10 * second;
  std::vector<PageSource::Ready> ready;
  const auto pull = [&](std::int32_t first, std::optional<double> per_token) {
    ready.clear();
    REQUIRE(
        peers.begin(static_cast<std::uint64_t>(first), origin, tokens(first), per_token, before));
    peers.poll(before, ready);  // it is found: from here on its time counts
    for (int i = 0; i < 20 && ready.empty(); ++i)
      peers.poll(before, ready, std::chrono::seconds(1));
    REQUIRE(ready.size() == 1);
    return ready[0].tokens;
  };
  CHECK(pull(1, std::nullopt) == 10);  // ten seconds
  CHECK(peers.counts().not_worth == 0);
  CHECK(pull(2, 0.9e9 * 10 / 10) == 0);
  CHECK(peers.counts().not_worth == 1);
  CHECK(pull(3, 2e9 * 10 / 10) == 10);
  CHECK(peers.counts().not_worth == 1);
}

TEST_CASE("a store's segments are of 64 MiB, or larger so that there are at most 256") {
  for (const auto& [gibibytes, mebibytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {1, 64}, {16, 64}, {17, 68}, {32, 128}}) {
    const Scratch scratch;
    PageStoreOptions options;
    options.folder = scratch.pages();
    options.page_bytes = 1U << 20U;
    options.bytes_most = gibibytes << 30U;
    auto store = std::move(PageStore::open(options, make_thread_port())).value();
    store->write(key_of(1), PageKey{}, std::vector<std::byte>(options.page_bytes), 0);
    const std::uint64_t room =
        ((mebibytes << 20U) - segment_block) / record_bytes(options.page_bytes);
    while (store->is_busy()) store->poll(0, std::chrono::seconds(10));
    CHECK(list_store(scratch.pages())->segments.at(0).room == room);
  }
}

TEST_CASE("the window to a machine has room for what all pools' links may owe each other") {
  const std::size_t way = std::size_t{16} << 20U;
  const std::size_t questions = std::size_t{64} * (4096 * 32 + 64);
  const std::size_t pool =
      (std::size_t{32} << 20U) + (std::size_t{8} << 20U) + 256 * 128 + questions;
  for (const std::size_t pools : {0U, 1U, 2U, 7U}) CHECK(page_window(pools) == pools * pool + way);
}
