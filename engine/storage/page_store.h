// Pages in a folder on a disk: written behind, found again after a restart, checked when they are
// read.
//
// Joins what decides (`SegmentIndex`, `StoreHealth`) with what does (`StoreFolder`, a `BlockPort`).
// A page is written once, whole, and is there for a reader when the write has ended. A segment is
// synchronised when it is full and at `flush`; nothing else waits for that, for a page that a crash
// took or tore is not found or not whole, and is computed again. A disk that is full, broken or
// hangs, or a folder that was removed, switches the store off: nothing is written, reading goes on
// where it works; it is tried again later. Thread: one. Owns: the folder, buffers (`buffer_bytes`
// for each way). Units: bytes; time in nanoseconds, given by the caller. Errors: of opening;
// afterwards none: what is not there is computed. Source: omni-flow, section 4.1 (tiers).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/pool_report.h"
#include "dataplane/segment_index.h"
#include "dataplane/store_health.h"
#include "engine/storage/block_port.h"

namespace sluice {

struct PageStoreOptions {
  std::string folder;
  std::uint64_t bytes_most = std::uint64_t{4} << 30U;
  std::uint32_t page_bytes = 0;
  std::string layout;               // what the bytes of a page mean
  std::uint64_t segment_bytes = 0;  // 0: by `bytes_most`
  // Of the pages' keys, and so of the folder. None: the folder's own, made with it.
  std::optional<PageKeys::Secret> secret = {};
};

struct PageStoreCounts {
  std::uint64_t written = 0, read = 0;  // pages, since it was opened
  std::uint64_t broken = 0;             // read back other than written, or cut short: not used
  std::uint64_t failed = 0;             // transfers that the disk refused
  std::uint64_t dropped = 0;            // segments removed to make room
  PoolTimes read_times, write_times;    // of those read and written
};

class PageStore {
 public:
  static constexpr std::size_t buffer_bytes = std::size_t{32} << 20U;

  /// Whether a folder that grows to `bytes_most` has room for pages of this size. Errors:
  /// invalid_argument, which names the folder and says how much it takes.
  static Result<void> check_size(const std::string& folder, std::size_t page_bytes,
                                 std::uint64_t bytes_most);
  /// `port` null: io_uring where the kernel gives rings, threads otherwise.
  static Result<std::unique_ptr<PageStore>> open(const PageStoreOptions& options,
                                                 std::unique_ptr<BlockPort> port = nullptr);
  /// Waits for what the port still moves.
  ~PageStore() = default;
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  const std::string& path() const { return folder_.path(); }
  const PageKeys::Secret& secret() const { return folder_.secret(); }
  const SegmentIndex& index() const { return index_; }
  const StoreHealth& health() const { return health_; }
  const PageStoreCounts& counts() const { return counts_; }
  std::string_view port() const { return port_->name(); }
  std::uint32_t page_bytes() const { return options_.page_bytes; }

  /// How many of these keys from `first` on are there, as of `SegmentIndex::match`. They are some
  /// prompt's, so one that was written as if it followed another page than here is forgotten.
  std::size_t match(std::span<const PageKey> keys, std::size_t first);
  /// It would be written: it is not there, what it follows is (zeros: it follows nothing) and can
  /// stay, and the disk takes it.
  bool wants(const PageKey& key, const PageKey& parent, std::int64_t now);
  /// There is a buffer for it.
  bool can_write() const { return writes_.size() < buffers_most_; }
  /// Takes a copy and begins to write it. Requires: `wants`, `can_write`.
  void write(const PageKey& key, const PageKey& parent, std::span<const std::byte> content,
             std::int64_t now);
  /// The disk is read; off: one page at a time, once in a while, to see whether it works again.
  bool reads() const { return !reads_off_; }
  /// Off, and a read is under way that may never end: nobody should wait for it.
  bool hangs() const { return reads_off_ && !reads_.empty(); }
  /// There is a buffer to read into.
  bool can_read() const { return reads_.size() < buffers_most_; }
  bool is_reading(const PageKey& key) const;
  /// Begins to read it. False: it is not there, or reads are off. Requires: `can_read`; it is not
  /// being read.
  bool read(const PageKey& key, std::int64_t now);
  /// When the oldest read began that is under way and was not given up.
  std::optional<std::int64_t> oldest_read() const;
  /// Since when writes and syncs are under way of which none has ended; those that were given up do
  /// not count.
  std::optional<std::int64_t> writes_stand_since() const;

  /// What a read came to; the content goes with `release`. Null: it was not whole, or the disk
  /// refused.
  std::function<void(const PageKey&, const std::byte* content)> on_read;
  /// Gives back the buffer of what was read.
  void release(const PageKey& key);
  /// Takes note of what has ended; waits for something at most so long, which `now` lies before.
  void poll(std::int64_t now, std::chrono::nanoseconds most = {});
  /// Something is under way.
  bool is_busy() const { return !jobs_.empty(); }
  bool is_writing() const { return !writes_.empty() || syncing_ > 0; }
  /// Begins to synchronise the segment that was written last.
  void sync(std::int64_t now);
  /// Off from now on, for a reason that a caller saw: a read that does not end.
  void give_up(std::int64_t now, const std::string& why);
  /// As `give_up`, of writes alone: they do not end. They are tried again when those have.
  void give_up_writes(std::int64_t now, const std::string& why);

 private:
  struct FreeBytes {
    void operator()(std::byte* bytes) const;
  };
  using Buffer = std::unique_ptr<std::byte, FreeBytes>;
  struct Job {
    BlockPort::Kind kind = BlockPort::Kind::write;
    StoredPage page;
    SegmentHead segment;
    bool is_head = false;  // of a segment: no page
    std::int64_t began = 0;
    bool is_trial = false;  // of reads
    bool given_up = false;
  };

  PageStore(StoreFolder folder, PageStoreOptions options, SegmentIndex index,
            std::unique_ptr<BlockPort> port);
  Result<void> scan();
  Buffer take_buffer();
  bool open_segment(const SegmentIndex::Writing& writing, std::int64_t now);
  std::shared_ptr<SegmentFile> file_of(std::uint64_t segment);
  std::uint64_t submit(Job job, std::shared_ptr<SegmentFile> file, std::uint64_t offset,
                       std::span<std::byte> bytes);
  void take(const BlockPort::Ended& ended, std::int64_t now);
  void take_read(const Job& job, int error, std::int64_t now);
  void take_write(std::uint64_t id, const Job& job, int error, std::int64_t now);
  void sync(std::uint64_t segment, std::int64_t now);
  bool writes_hang() const;
  void fail(std::int64_t now, const std::string& what, int error = 0);

  StoreFolder folder_;
  PageStoreOptions options_;
  SegmentIndex index_;
  StoreHealth health_;
  PageStoreCounts counts_;
  std::size_t record_bytes_, buffers_most_;
  bool trying_ = false;  // a write or a read that shows whether the disk works again is under way
  bool reads_off_ = false;
  std::map<std::uint64_t, std::shared_ptr<SegmentFile>> files_;
  std::map<std::uint64_t, Job> jobs_;
  std::map<std::uint64_t, Buffer> writes_;  // by job
  std::map<PageKey, Buffer> reads_;         // until released
  std::vector<Buffer> spare_;
  std::size_t syncing_ = 0;
  std::int64_t write_ended_ = 0;  // the last one, or a sync
  std::uint64_t next_job_ = 1;
  std::vector<BlockPort::Ended> ended_;
  // Last: while it goes, the kernel may still move what stands above.
  std::unique_ptr<BlockPort> port_;
};

}  // namespace sluice
