// The folder of pages (engine/storage) beside the disk it lies on: the same records, files and
// depth of queue, by the kernel's rings alone and by fio, where it is installed.
//
// Usage: bench_ssd FOLDER [MIB [ROUNDS]]
// For pages of 64 KiB and 1 MiB, and 8, 32 and 64 transfers that the kernel has at once, at most as
// many as the store has buffers (as fio counts them; what the store takes beyond waits there): MIB
// (1,024) are written, synchronised file by file, and read back in random order; by turns with the
// raw loop and fio, medians of ROUNDS (5). FOLDER is made and removed. All go past the page cache
// where the file system can. Printed too: what the checks of pages cost, and a prompt's pages that
// come back through `KvTier` beside the same reads of the store alone.
#include <fcntl.h>
#include <liburing.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "bench/usage.h"
#include "dataplane/segment_format.h"
#include "engine/storage/kv_tier.h"
#include "engine/storage/storage_clock.h"

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
  auto store = PageStore::open(options, make_uring_port(static_cast<unsigned>(pattern.depth)));
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

#ifndef SLUICE_FIO  // where CMake found it
#define SLUICE_FIO ""
#endif
const std::string fio_program = SLUICE_FIO;

bool has_fio() { return !fio_program.empty() && ::access(fio_program.c_str(), X_OK) == 0; }

/// The bandwidth of one job, in bytes a second.
double fio_job(const std::string& folder, std::vector<std::string> options, const char* kind) {
  const std::string said = folder + "/said.json";
  options.insert(options.begin(), fio_program);
  options.push_back("--output=" + said);
  std::vector<char*> words;
  for (std::string& one : options) words.push_back(one.data());
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) fail("fio fails");
  std::ifstream file(said);
  const auto json = nlohmann::json::parse(file, nullptr, false);
  if (json.is_discarded()) fail("fio says no JSON: " + said);
  std::filesystem::remove(said);
  return json["jobs"][0][kind]["bw_bytes"].get<double>();
}

Times by_fio(const std::string& folder, const Pattern& pattern, std::uint64_t seed) {
  std::filesystem::create_directory(folder);
  const std::size_t all = pattern.pages * pattern.record_bytes;
  const auto job = [&](const char* kind, std::vector<std::string> more) {
    more.insert(more.end(),
                {"--name=pages", "--directory=" + folder,
                 "--nrfiles=" + std::to_string(pattern.pages / pattern.per_file),
                 "--size=" + std::to_string(all), "--bs=" + std::to_string(pattern.record_bytes),
                 "--iodepth=" + std::to_string(pattern.depth),
                 "--randseed=" + std::to_string(seed + 1), "--direct=1", "--ioengine=io_uring",
                 "--thread", "--fallocate=none", "--output-format=json"});
    return static_cast<double>(all) / fio_job(folder, std::move(more), kind);
  };
  Times times;
  times.write = job("write", {"--rw=write", "--file_service_type=sequential",
                              "--fdatasync=" + std::to_string(pattern.per_file)});
  times.read = job("read", {"--rw=randread", "--file_service_type=random:1"});
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

struct Medians {
  std::vector<double> write, read;

  void add(const Times& times) {
    write.push_back(times.write);
    read.push_back(times.read);
  }
};

void bench(const std::string& folder, std::size_t page_bytes, std::size_t depth, std::size_t all,
           std::size_t rounds) {
  Pattern pattern;
  pattern.page_bytes = page_bytes;
  pattern.record_bytes = record_bytes(static_cast<std::uint32_t>(page_bytes));
  pattern.depth = std::min(depth, PageStore::buffer_bytes / pattern.record_bytes);
  pattern.per_file = ((std::size_t{64} << 20U) - segment_block) / pattern.record_bytes;
  pattern.pages = std::max<std::size_t>(all / page_bytes / pattern.per_file, 1) * pattern.per_file;
  const bool beside_fio = has_fio();
  Medians ours, raw_loop, fio;
  for (std::size_t round = 0; round <= rounds; ++round) {
    const Times first = through_store(folder, pattern, round);
    const Times second = raw(folder, pattern, round);
    const Times third = beside_fio ? by_fio(folder, pattern, round) : Times{};
    if (round == 0) continue;  // the first of each warms up
    ours.add(first);
    raw_loop.add(second);
    fio.add(third);
  }
  const auto line = [&](const char* what, std::vector<double> Medians::*which) {
    const auto rate = [&](const Medians& of) {
      return static_cast<double>(pattern.pages * page_bytes) / median(of.*which) / 1e9;
    };
    std::printf("%zu KiB, depth %zu, %s: %.3f GB/s, raw %.3f (ratio %.2f)", page_bytes >> 10U,
                pattern.depth, what, rate(ours), rate(raw_loop), rate(ours) / rate(raw_loop));
    if (beside_fio)
      std::printf(", fio %.3f (ratio %.2f, wanted 0.85)\n", rate(fio), rate(ours) / rate(fio));
    else
      std::printf("; fio: skipped, it is not installed\n");
  };
  line("written", &Medians::write);
  line("read", &Medians::read);
  const double check = check_seconds(pattern);
  std::printf("  CRC-32C %.1f GB/s, %.1f us a page, %.1f %% of a page's time when it is read\n",
              static_cast<double>(page_bytes) / check / 1e9, check * 1e6,
              100 * check * static_cast<double>(pattern.pages) / median(ours.read));
}

constexpr KvShape prompt_shape{8, 64, 16};  // pages of 64 KiB

std::unique_ptr<PageStore> open_prompt(const std::string& folder) {
  auto store = PageStore::open(KvTier::options_for(prompt_shape, folder, std::uint64_t{4} << 30U));
  if (!store.ok()) fail(store.error().message);
  return std::move(store).value();
}

std::vector<PageKey> write_prompt(const std::string& folder, const RowsOrigin& origin,
                                  const std::vector<std::int32_t>& tokens) {
  auto store = open_prompt(folder);
  const KvPool pool(prompt_shape, 1, store->secret());
  std::vector<PageKey> keys = pool.keys_of(origin, tokens);
  const Block content = block_of(prompt_shape.page_bytes());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    while (!store->can_write()) store->poll(0, std::chrono::seconds(1));
    store->write(keys[i], i == 0 ? PageKey{} : keys[i - 1],
                 {content.get(), prompt_shape.page_bytes()}, 0);
  }
  while (store->is_busy()) store->poll(0, std::chrono::seconds(1));
  return keys;
}

double prompt_by_tier(const std::string& folder, const RowsOrigin& origin,
                      const std::vector<std::int32_t>& tokens) {
  auto store = open_prompt(folder);
  const std::size_t pages = tokens.size() / prompt_shape.page_tokens;
  KvPool pool(prompt_shape, pages + 8, store->secret());
  KvTier tier(pool, std::move(store));
  std::vector<PageSource::Ready> ready;
  const auto start = Clock::now();
  if (!tier.begin(1, origin, tokens, {}, storage_clock())) fail("no page is in the folder");
  while (ready.empty()) tier.poll(storage_clock(), ready, std::chrono::milliseconds(100));
  const double took = seconds_since(start);
  if (ready[0].tokens != pages * prompt_shape.page_tokens) fail("not all pages came back");
  return took;
}

double prompt_by_store(const std::string& folder, const std::vector<PageKey>& keys) {
  auto store = open_prompt(folder);
  std::size_t done = 0;
  store->on_read = [&](const PageKey& key, const std::byte*) {
    ++done;
    store->release(key);
  };
  const auto start = Clock::now();
  for (const PageKey& key : keys) {
    while (!store->can_read()) store->poll(0, std::chrono::seconds(1));
    if (!store->read(key, 0)) fail("a page is not there");
    store->poll(0);
  }
  while (done < keys.size()) store->poll(0, std::chrono::seconds(1));
  return seconds_since(start);
}

/// A prompt's pages, in the order of their chain.
void bench_prompt(const std::string& folder, std::size_t pages, std::size_t rounds) {
  RowsOrigin origin;
  origin.model = "bench";
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i <= pages * prompt_shape.page_tokens; ++i)
    tokens.push_back(static_cast<std::int32_t>(i));
  const std::vector<PageKey> keys = write_prompt(folder, origin, tokens);
  std::vector<double> by_tier, by_store;
  for (std::size_t round = 0; round <= rounds; ++round) {
    const double tier = prompt_by_tier(folder, origin, tokens);
    const double store = prompt_by_store(folder, keys);
    if (round == 0) continue;
    by_tier.push_back(tier);
    by_store.push_back(store);
  }
  std::printf(
      "a prompt of %zu pages of 64 KiB: %.1f ms through the tier, %.1f ms by the store alone "
      "(ratio %.2f)\n",
      pages, 1e3 * median(by_tier), 1e3 * median(by_store), median(by_tier) / median(by_store));
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int count, char** arguments) {
  constexpr const char* usage = "usage: bench_ssd FOLDER [MIB [ROUNDS]]";
  if (const auto status = usage_status(count, arguments, usage)) return *status;
  if (count < 2) {
    std::fprintf(stderr, "%s\n", usage);
    return 2;
  }
  const auto number = [&](int at, std::size_t otherwise) {
    return count > at ? static_cast<std::size_t>(std::atol(arguments[at])) : otherwise;
  };
  const std::string folder = arguments[1];
  if (std::filesystem::exists(folder)) fail(folder + " is there already: name one that is not");
  const std::size_t bytes = number(2, 1024) << 20U, rounds = std::max<std::size_t>(number(3, 5), 1);
  for (const std::size_t page : {std::size_t{64} << 10U, std::size_t{1} << 20U})
    for (const std::size_t depth : {8U, 32U, 64U})
      if (page < (1U << 20U) || depth < 64)  // the store has 31 of those at most
        bench(folder, page, depth, bytes, rounds);
  bench_prompt(folder, bytes >> 16U, rounds);
  return 0;
}
