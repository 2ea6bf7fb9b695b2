// The folder of pages (engine/storage) beside the disk it lies on: the same records, files and
// depth of queue, by the kernel's rings alone.
//
// Usage: bench_ssd FOLDER [MIB [ROUNDS]]
// For pages of 64 KiB and 1 MiB: MIB (1,024) are written, synchronised file by file, and read back
// in random order; by turns with the raw loop, medians of ROUNDS (5). FOLDER is made and removed.
// Both go past the page cache where the file system can. Printed too: what the checks of pages
// cost.
#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "dataplane/segment_format.h"
#include "engine/storage/page_store.h"

using namespace sluice;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

double median(std::vector<double> of) {
  std::ranges::sort(of);
  return of[of.size() / 2];
}

void fail(const std::string& what) {
  std::fprintf(stderr, "bench_ssd: %s\n", what.c_str());
  std::exit(1);
}

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Block = std::unique_ptr<std::byte, FreeBytes>;

Block block_of(std::size_t bytes) {
  Block made(static_cast<std::byte*>(std::aligned_alloc(segment_block, bytes)));
  if (made == nullptr) fail("no memory");
  std::memset(made.get(), 0x5a, bytes);
  return made;
}

struct Pattern {
  std::size_t page_bytes = 0, record_bytes = 0, pages = 0, per_file = 0, depth = 0;
};

struct Times {
  double write = 0, read = 0;
};

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  SplitMix64 random(seed);
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.next() % i]);
  return order;
}

PageKey key_of(std::size_t number) {
  SplitMix64 random(number + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

std::unique_ptr<PageStore> open_store(const std::string& folder, const Pattern& pattern) {
  PageStoreOptions options;
  options.folder = folder;
  options.bytes_most = std::uint64_t{4} * pattern.pages * pattern.record_bytes + (1U << 30U);
  options.page_bytes = static_cast<std::uint32_t>(pattern.page_bytes);
  options.layout = "bench";
  auto store = PageStore::open(options);
  if (!store.ok()) fail(store.error().message);
  return std::move(store).value();
}

Times through_store(const std::string& folder, const Pattern& pattern, std::uint64_t seed) {
  Times times;
  const Block content = block_of(pattern.page_bytes);
  auto store = open_store(folder, pattern);
  auto start = Clock::now();
  for (std::size_t i = 0; i < pattern.pages; ++i) {
    if (!store->wants(key_of(i), {}, 0)) fail("a page is not wanted: " + store->health().reason());
    while (!store->can_write()) store->poll(0, std::chrono::seconds(1));
    store->write(key_of(i), {}, {content.get(), pattern.page_bytes}, 0);
    store->poll(0);
  }
  while (store->is_writing()) store->poll(0, std::chrono::seconds(1));
  store->sync(0);
  while (store->is_busy()) store->poll(0, std::chrono::seconds(1));
  times.write = seconds_since(start);
  std::size_t whole = 0;
  store->on_read = [&](const PageKey& key, const std::byte* bytes) {
    whole += bytes != nullptr ? 1 : 0;
    store->release(key);
  };
  const std::vector<std::size_t> order = shuffled(pattern.pages, seed);
  start = Clock::now();
  for (const std::size_t i : order) {
    while (!store->can_read()) store->poll(0, std::chrono::seconds(1));
    if (!store->read(key_of(i), 0)) fail("a page is not there");
    store->poll(0);
  }
  while (store->is_busy()) store->poll(0, std::chrono::seconds(1));
  times.read = seconds_since(start);
  if (whole != pattern.pages) fail("pages are missing");
  store.reset();
  std::filesystem::remove_all(folder);
  return times;
}

/// Reads, writes and synchronisations, so many at a time.
class Ring {
 public:
  Ring(std::size_t depth, std::size_t bytes) {
    if (io_uring_queue_init(static_cast<unsigned>(2 * depth), &ring_, 0) != 0) fail("no io_uring");
    for (std::size_t i = 0; i < depth; ++i) free_.push_back(block_of(bytes).release());
  }
  ~Ring() {
    for (std::byte* bytes : free_) std::free(bytes);
    io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void move(bool writes, int file, std::size_t bytes, std::size_t offset) {
    while (free_.empty()) reap();
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    std::byte* buffer = free_.back();
    free_.pop_back();
    if (writes)
      io_uring_prep_write(entry, file, buffer, static_cast<unsigned>(bytes), offset);
    else
      io_uring_prep_read(entry, file, buffer, static_cast<unsigned>(bytes), offset);
    io_uring_sqe_set_data(entry, buffer);
    submit(bytes);
  }
  void sync(int file) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    io_uring_prep_fsync(entry, file, IORING_FSYNC_DATASYNC);
    io_uring_sqe_set_data(entry, nullptr);
    submit(0);
  }
  void drain() {
    while (under_way_ > 0) reap();
  }

 private:
  void submit(std::size_t bytes) {
    bytes_ = std::max(bytes, bytes_);
    if (io_uring_submit(&ring_) != 1) fail("a transfer was not taken");
    ++under_way_;
  }
  void reap() {
    io_uring_cqe* done = nullptr;
    if (io_uring_wait_cqe(&ring_, &done) != 0) fail("the ring is broken");
    auto* buffer = static_cast<std::byte*>(io_uring_cqe_get_data(done));
    const bool whole = buffer == nullptr ? done->res == 0 : done->res == static_cast<int>(bytes_);
    if (!whole) fail(std::string("a transfer failed: ") + std::strerror(-done->res));
    if (buffer != nullptr) free_.push_back(buffer);
    io_uring_cqe_seen(&ring_, done);
    --under_way_;
  }
  io_uring ring_{};
  std::vector<std::byte*> free_;
  std::size_t under_way_ = 0, bytes_ = 0;
};

Times raw(const std::string& folder, const Pattern& pattern, std::uint64_t seed) {
  std::filesystem::create_directory(folder);
  std::vector<int> files;
  Ring ring(pattern.depth, pattern.record_bytes);
  Times times;
  const auto place = [&](std::size_t page) {
    return segment_block + page % pattern.per_file * pattern.record_bytes;
  };
  auto start = Clock::now();
  for (std::size_t i = 0; i < pattern.pages; ++i) {
    if (i % pattern.per_file == 0) {
      const std::string path = folder + "/" + std::to_string(files.size());
      constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC;
      int file = ::open(path.c_str(), flags | O_DIRECT, 0600);
      if (file < 0 && errno == EINVAL) file = ::open(path.c_str(), flags, 0600);
      if (file < 0) fail(path + ": " + std::strerror(errno));
      files.push_back(file);
    }
    ring.move(true, files.back(), pattern.record_bytes, place(i));
    if ((i + 1) % pattern.per_file == 0) ring.sync(files.back());
  }
  ring.drain();
  ring.sync(files.back());
  ring.drain();
  times.write = seconds_since(start);
  start = Clock::now();
  for (const std::size_t i : shuffled(pattern.pages, seed))
    ring.move(false, files[i / pattern.per_file], pattern.record_bytes, place(i));
  ring.drain();
  times.read = seconds_since(start);
  for (const int file : files) ::close(file);
  std::filesystem::remove_all(folder);
  return times;
}

/// Of one page, in memory that the cache does not hold.
double check_seconds(const Pattern& pattern) {
  const std::size_t count = std::max<std::size_t>((std::size_t{64} << 20U) / pattern.page_bytes, 1);
  const Block bytes = block_of(count * pattern.page_bytes);
  std::uint32_t sum = 0;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < count; ++i)
    sum ^= crc32c({bytes.get() + i * pattern.page_bytes, pattern.page_bytes});
  const double took = seconds_since(start) / static_cast<double>(count);
  if (sum == 1) std::puts("");  // it is computed
  return took;
}

void bench(const std::string& folder, std::size_t page_bytes, std::size_t all, std::size_t rounds) {
  Pattern pattern;
  pattern.page_bytes = page_bytes;
  pattern.record_bytes = record_bytes(static_cast<std::uint32_t>(page_bytes));
  pattern.pages = all / page_bytes;
  constexpr std::size_t of_port = 64;  // so many the store's own ring moves at once
  pattern.depth = std::min(of_port, PageStore::buffer_bytes / pattern.record_bytes);
  pattern.per_file = ((std::size_t{64} << 20U) - segment_block) / pattern.record_bytes;
  std::vector<double> ours_write, ours_read, raw_write, raw_read;
  for (std::size_t round = 0; round <= rounds; ++round) {
    const Times ours = through_store(folder, pattern, round);
    const Times theirs = raw(folder, pattern, round);
    if (round == 0) continue;  // the first of each warms up
    ours_write.push_back(ours.write);
    ours_read.push_back(ours.read);
    raw_write.push_back(theirs.write);
    raw_read.push_back(theirs.read);
  }
  const auto rate = [&](const std::vector<double>& of) {
    return static_cast<double>(pattern.pages * page_bytes) / median(of) / 1e9;
  };
  std::printf("%zu KiB, depth %zu, written: %.3f GB/s, raw %.3f (ratio %.2f)\n", page_bytes >> 10U,
              pattern.depth, rate(ours_write), rate(raw_write), rate(ours_write) / rate(raw_write));
  const double check = check_seconds(pattern);
  std::printf(
      "%zu KiB, depth %zu, read: %.3f GB/s, raw %.3f (ratio %.2f); CRC-32C %.1f GB/s, %.1f us a "
      "page, %.1f %% of a page's time\n",
      page_bytes >> 10U, pattern.depth, rate(ours_read), rate(raw_read),
      rate(ours_read) / rate(raw_read), static_cast<double>(page_bytes) / check / 1e9, check * 1e6,
      100 * check * static_cast<double>(pattern.pages) / median(ours_read));
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: bench_ssd FOLDER [MIB [ROUNDS]]\n");
    return 2;
  }
  const auto number = [&](int at, std::size_t otherwise) {
    return count > at ? static_cast<std::size_t>(std::atol(arguments[at])) : otherwise;
  };
  const std::string folder = arguments[1];
  if (std::filesystem::exists(folder)) fail(folder + " is there already: name one that is not");
  for (const std::size_t page : {std::size_t{64} << 10U, std::size_t{1} << 20U})
    bench(folder, page, number(2, 1024) << 20U, std::max<std::size_t>(number(3, 5), 1));
  return 0;
}
