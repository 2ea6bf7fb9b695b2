// A process that is killed at each of its writes in turn, before it, after each block of it and
// behind it: what the next process finds is whole, and all that had ended.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/random.h"
#include "engine/storage/page_store.h"
#include "engine/storage/store_report.h"
#include "tests/sanitized.h"
#include "tests/scratch_folder.h"

using namespace sluice;

namespace {

constexpr std::uint32_t page_bytes = 5000;
constexpr std::uint64_t pages = 30;

PageKey key_of(std::uint64_t n) {
  SplitMix64 random(n + 1);
  return {{random.next(), random.next(), random.next(), random.next()}};
}

std::vector<std::byte> content_of(std::uint64_t n) {
  std::vector<std::byte> made(page_bytes);
  SplitMix64 random(n);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.next());
  return made;
}

/// Where the process is to die: at its write number `write`, when so many blocks of it are there.
struct Death {
  std::size_t write = 0, blocks = 0;
};

/// Does at once what it is asked for, in order.
class InOrder final : public BlockPort {
 public:
  explicit InOrder(std::optional<Death> death = {}) : death_(death) {}
  std::string_view name() const override { return "in order"; }
  void submit(Job job) override {
    const int file = job.file->descriptor();
    // Through the page cache, which is as sure to survive a process and does not wait for the disk.
    (void)::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) & ~O_DIRECT);
    const auto offset = static_cast<off_t>(job.offset);
    const auto size = static_cast<ssize_t>(job.bytes.size());
    bool done = false;
    if (job.kind == Kind::read) {
      done = ::pread(file, job.bytes.data(), job.bytes.size(), offset) == size;
    } else if (job.kind == Kind::sync) {
      die_at(0);
      done = true;  // the kernel has it all: who is killed loses none of that
    } else {
      for (std::size_t at = 0; at < job.bytes.size(); at += segment_block) {
        die_at(at / segment_block);
        done = ::pwrite(file, job.bytes.data() + at, segment_block,
                        offset + static_cast<off_t>(at)) == segment_block;
      }
      die_at(job.bytes.size() / segment_block);
    }
    if (job.kind != Kind::read) ++writes_;
    ended_.push_back({job.id, done ? 0 : EIO});
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds) override {
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  void die_at(std::size_t blocks) const {
    if (death_.has_value() && death_->write == writes_ && death_->blocks == blocks)
      ::kill(::getpid(), SIGKILL);
  }
  std::optional<Death> death_;
  std::size_t writes_ = 0;
  std::vector<Ended> ended_;
};

std::unique_ptr<PageStore> open_store(const ScratchFolder& scratch, std::uint64_t most,
                                      std::optional<Death> death = {}) {
  PageStoreOptions options;
  options.folder = scratch.path() + "/pages";
  options.bytes_most = most;
  options.page_bytes = page_bytes;
  options.layout = "test";
  options.segment_bytes = 40'000;  // four records
  return std::move(PageStore::open(options, std::make_unique<InOrder>(death))).value();
}

/// What has been written, as the process saw it before it died.
struct Progress {
  bool written[pages];
};

void write_all(PageStore& store, Progress& progress) {
  for (std::uint64_t n = 0; n < pages; ++n) {
    const PageKey parent = n % 10 == 0 ? PageKey{} : key_of(n - 1);
    if (!store.wants(key_of(n), parent, 0)) continue;
    store.write(key_of(n), parent, content_of(n), 0);
    while (store.is_busy()) store.poll(0);
    progress.written[n] = true;
  }
}

/// None: it is not there.
std::optional<std::vector<std::byte>> read(PageStore& store, std::uint64_t n) {
  std::optional<std::vector<std::byte>> got;
  store.on_read = [&](const PageKey& key, const std::byte* content) {
    if (content != nullptr) got.emplace(content, content + page_bytes);
    store.release(key);
  };
  if (store.read(key_of(n), 0))
    while (store.is_busy()) store.poll(0);
  return got;
}

/// A folder with the secret of another: making one waits for the disk.
void begin_folder(const ScratchFolder& scratch, const ScratchFolder& other) {
  namespace fs = std::filesystem;
  fs::create_directory(scratch.path() + "/pages");
  fs::permissions(scratch.path() + "/pages", fs::perms::owner_all);
  fs::copy_file(other.path() + "/pages/secret", scratch.path() + "/pages/secret");
  fs::permissions(scratch.path() + "/pages/secret", fs::perms(0600));
}

/// False: it ended before.
bool dies(const ScratchFolder& scratch, std::uint64_t most, Death death, Progress& progress) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto store = open_store(scratch, most, death);
    write_all(*store, progress);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0));
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("a process may be killed at any block of any write: whole pages come back, no others") {
  constexpr std::size_t step = testing::sanitized ? 7 : 1;
  const ScratchFolder first;
  (void)open_store(first, 1U << 20U);
  // Where there is room for all, and where old segments go.
  for (const std::uint64_t most : {std::uint64_t{1} << 20U, std::uint64_t{130'000}}) {
    const bool has_room = most > 1'000'000;
    std::size_t deaths = 0, found = 0;
    bool walks = true;
    for (std::size_t write = 0; walks; write += step) {
      for (std::size_t blocks = 0; blocks <= 2; ++blocks) {
        void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE,
                                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
        Progress& progress = *static_cast<Progress*>(shared);
        const ScratchFolder scratch;
        begin_folder(scratch, first);
        INFO("write " << write << ", " << blocks << " blocks");
        const bool died = dies(scratch, most, {write, blocks}, progress);
        if (!died && blocks == 0) walks = false;  // there is no such write
        deaths += died ? 1 : 0;
        {
          const auto store = open_store(scratch, most);
          for (std::uint64_t n = 0; n < pages; ++n) {
            const auto got = read(*store, n);
            if (got.has_value()) {
              REQUIRE((*got == content_of(n)));
              ++found;
            } else if (has_room) {
              REQUIRE_FALSE(progress.written[n]);
            }
          }
          REQUIRE(store->counts().broken == 0);
          // And it goes on: what is missing is written again, where there is no room for all of the
          // last chain its beginning.
          Progress again{};
          write_all(*store, again);
          const std::uint64_t last = has_room ? pages - 1 : pages - 10;
          REQUIRE((read(*store, last) == content_of(last)));
        }
        REQUIRE(report_store(scratch.path() + "/pages", true)->broken.empty());
        ::munmap(shared, sizeof(Progress));
        if (!walks) break;
      }
    }
    CHECK(deaths > 90 / step);  // 30 pages and their segments' heads and synchronisations
    CHECK(found > 1000 / step);
  }
}
