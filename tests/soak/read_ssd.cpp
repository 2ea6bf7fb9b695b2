// Pages of a folder on a disk, whose files somebody overwrites: in part, with other pages, with
// what stood there before. The folder is too small for all pages, so segments go; it is closed and
// opened again.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "dataplane/segment_format.h"
#include "engine/storage/page_store.h"
#include "soak_pages.h"

namespace sluice::soak {
namespace {

constexpr std::size_t keys_known = 256;
constexpr std::uint64_t segment_bytes = std::uint64_t{1} << 20U;
constexpr std::uint64_t folder_bytes = 15 * segment_bytes;  // nine tenths of the pages
constexpr std::uint64_t reads_a_life = 10'000;
constexpr std::uint64_t turns_a_strike = 32;

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Block = std::unique_ptr<std::byte, FreeBytes>;

Block block_of(std::size_t bytes) {
  Block made(static_cast<std::byte*>(std::aligned_alloc(segment_block, bytes)));
  SLUICE_CHECK(made != nullptr, "no memory");
  return made;
}

/// Who may write the files, and does.
class Strikes {
 public:
  Strikes(std::string folder, bool forges) : folder_(std::move(folder)), forges_(forges) {}

  void strike() {
    if (files_.empty() || ++strikes_ % 64 == 0) list();
    if (files_.empty()) return;
    const std::string& path = files_[random_.next() % files_.size()];
    int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT);
    if (file < 0) file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return list();  // it has gone
    const std::uint64_t size = std::filesystem::file_size(path);
    const std::size_t records = size > segment_block ? (size - segment_block) / bytes_ : 0;
    if (records > 0) strike(file, records);
    ::close(file);
  }

 private:
  void list() {
    files_.clear();
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, gone))
      if (entry.path().filename().string().starts_with("segment-"))
        files_.push_back(entry.path().string());
  }
  bool read(int file, std::size_t slot, std::byte* to) const {
    const auto place = static_cast<off_t>(segment_block + slot * bytes_);
    return ::pread(file, to, bytes_, place) == static_cast<ssize_t>(bytes_);
  }
  void strike(int file, std::size_t records) {
    const std::size_t slot = random_.next() % records;
    std::byte* const record = record_.get();
    std::byte* const other = other_.get();
    if (!read(file, slot, record) || !read(file, random_.next() % records, other)) return;
    const std::size_t from = random_.next() % bytes_;
    switch (forges_ ? 9 : random_.next() % 6) {
      case 0:  // a part of another page
        std::memcpy(record + from, other + from, 1 + random_.next() % (bytes_ - from));
        break;
      case 1:  // another page
        std::memcpy(record, other, bytes_);
        break;
      case 2:  // what stood in a record once
        if (has_old_) std::memcpy(record, old_.get(), bytes_);
        break;
      case 3:  // a bit
        record[from] ^= std::byte{static_cast<unsigned char>(1U << random_.next() % 8)};
        break;
      case 4:  // a block that was not written
        std::memset(record + from / segment_block * segment_block, 0, segment_block);
        break;
      case 5:  // nothing now, but later
        std::memcpy(old_.get(), record, bytes_);
        has_old_ = true;
        return;
      default:
        if (!forge(file, slot, record)) return;
    }
    const auto place = static_cast<off_t>(segment_block + slot * bytes_);
    (void)!::pwrite(file, record, bytes_, place);
  }
  /// Other content, with the checksums of that: the store cannot tell.
  bool forge(int file, std::size_t slot, std::byte* record) const {
    const Block block = block_of(segment_block);
    if (::pread(file, block.get(), segment_block, 0) != static_cast<ssize_t>(segment_block))
      return false;
    const auto head = read_segment_head({block.get(), segment_block});
    if (!head.has_value()) return false;
    const std::span<std::byte> bytes(record, bytes_);
    const RecordCheck check = check_record(*head, static_cast<std::uint32_t>(slot), bytes);
    if (check.state != RecordState::whole) return false;
    record_content(*head, bytes)[0] ^= std::byte{1};
    write_record(*head, static_cast<std::uint32_t>(slot), check.head, bytes);
    return true;
  }

  std::string folder_;
  bool forges_;
  std::size_t bytes_ = record_bytes(page_bytes);
  Block record_ = block_of(bytes_), other_ = block_of(bytes_), old_ = block_of(bytes_);
  bool has_old_ = false;
  SplitMix64 random_{7};
  std::uint64_t strikes_ = 0;
  std::vector<std::string> files_;
};

class Reader {
 public:
  explicit Reader(const Options& options)
      : options_(options), strikes_(options.folder, options.is_blind) {
    open();
  }

  Tally read() {
    std::uint64_t next_life = std::min(reads_a_life, options_.ssd / 2);
    for (std::uint64_t turn = 1; tally_.reads < options_.ssd; ++turn) {
      const bool moved = move(random_.next() % keys_known);
      store_->poll(now(), std::chrono::milliseconds(moved ? 0 : 10));
      if (turn % turns_a_strike == 0) strikes_.strike();
      if (tally_.reads < next_life) continue;
      next_life += reads_a_life;
      ++tally_.restarts;
      close();
      open();
    }
    close();
    return tally_;
  }

 private:
  static std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

  void open() {
    PageStoreOptions options;
    options.folder = options_.folder;
    options.bytes_most = folder_bytes;
    options.segment_bytes = segment_bytes;
    options.page_bytes = page_bytes;
    options.layout = "torn_reads";
    auto store = PageStore::open(options);
    if (!store.ok()) {
      std::fprintf(stderr, "torn_reads: %s\n", store.error().message.c_str());
      std::_Exit(2);
    }
    store_ = std::move(store).value();
    store_->on_read = [this](const PageKey& key, const std::byte* content) {
      ++tally_.reads;
      if (content == nullptr) {
        ++tally_.detected;
        return;
      }
      if (!contents_.are({content, page_bytes}, number_of(key))) ++tally_.undetected;
      store_->release(key);
    };
  }
  void close() {
    while (store_->is_busy()) store_->poll(now(), std::chrono::seconds(1));
    SLUICE_CHECK(store_->health().works(), "the disk refuses");
    tally_.replaced += store_->counts().dropped;
    store_.reset();
  }
  /// False: nothing could be begun.
  bool move(std::size_t number) {
    const PageKey key = key_of(number);
    if (store_->index().find(key) != nullptr)
      return !store_->is_reading(key) && store_->can_read() && store_->read(key, now());
    if (!store_->can_write() || !store_->wants(key, {}, now())) return false;
    store_->write(key, {}, contents_.of(number), now());
    return true;
  }

  const Options& options_;
  Contents contents_{keys_known};
  Strikes strikes_;
  SplitMix64 random_{3};
  std::unique_ptr<PageStore> store_;
  Tally tally_;
};

}  // namespace

Tally read_ssd(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  Tally tally = Reader(options).read();
  std::filesystem::remove_all(options.folder);
  tally.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return tally;
}

}  // namespace sluice::soak
