#include "engine/storage/page_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/count_text.h"
#include "base/sha256.h"

namespace sluice {
namespace {

constexpr std::uint64_t segment_bytes_least = std::uint64_t{64} << 20U;
constexpr std::uint64_t segments_most = 256;

/// So many files that all may be open.
std::uint64_t segment_bytes_of(const PageStoreOptions& options) {
  if (options.segment_bytes != 0) return options.segment_bytes;
  return std::max(segment_bytes_least, options.bytes_most / segments_most);
}

/// Rounded up, in a unit that tells small sizes apart.
std::string size_text(std::uint64_t bytes) {
  if (bytes < 1U << 10U) return count_text(bytes, "byte");
  const unsigned shift = bytes < 16U << 20U ? 10 : 20;
  return std::to_string((bytes + (1U << shift) - 1) >> shift) + (shift == 10 ? " KiB" : " MiB");
}

}  // namespace

void PageStore::FreeBytes::operator()(std::byte* bytes) const {
  ::operator delete (bytes, std::align_val_t{segment_block});
}

Result<void> PageStore::check_size(const std::string& folder, std::size_t page_bytes,
                                   std::uint64_t bytes_most) {
  if (page_bytes > record_content_most)
    return invalid_argument(folder + ": a page of this model takes " + size_text(page_bytes) +
                            ", and a folder has pages of at most " +
                            size_text(record_content_most) + ": fewer page_tokens");
  const std::size_t record = record_bytes(static_cast<std::uint32_t>(page_bytes));
  const std::uint64_t least = 2 * (segment_block + record);
  if (bytes_most >= least) return {};
  return invalid_argument(folder + ": its " + size_text(bytes_most) +
                          " are too few: a page of this model takes " + size_text(record) +
                          ", give at least " + size_text(least));
}

Result<std::unique_ptr<PageStore>> PageStore::open(const PageStoreOptions& options,
                                                   std::unique_ptr<BlockPort> port) {
  SLUICE_CHECK(options.page_bytes > 0);
  if (Result<void> fits = check_size(options.folder, options.page_bytes, options.bytes_most);
      !fits.ok())
    return fits.error();
  Result<StoreFolder> folder =
      StoreFolder::open(options.folder, options.secret ? &*options.secret : nullptr);
  if (!folder.ok()) return folder.error();
  SegmentIndex index(folder->owner(), sha256_prefix(options.layout), options.page_bytes,
                     {options.bytes_most, segment_bytes_of(options)});
  auto made = std::unique_ptr<PageStore>(
      new PageStore(std::move(folder).value(), options, std::move(index),
                    port != nullptr ? std::move(port) : make_block_port()));
  if (Result<void> scanned = made->scan(); !scanned.ok()) return scanned.error();
  return made;
}

PageStore::PageStore(StoreFolder folder, PageStoreOptions options, SegmentIndex index,
                     std::unique_ptr<BlockPort> port)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      index_(std::move(index)),
      record_bytes_(record_bytes(options_.page_bytes)),
      buffers_most_(std::max<std::size_t>(2, buffer_bytes / record_bytes_)),
      port_(std::move(port)) {}

Result<void> PageStore::scan() {
  Result<std::vector<StoreFolder::File>> files = folder_.files();
  if (!files.ok()) return files.error();
  std::vector<std::byte> bytes(2 * segment_block);
  for (const StoreFolder::File& file : *files) {
    SegmentScan scan(folder_.owner(), file.number, file.bytes);
    const Result<std::shared_ptr<SegmentFile>> opened = folder_.read(file.number, false);
    while (const auto range = scan.wants()) {
      const ssize_t got = opened.ok() ? ::pread((*opened)->descriptor(), bytes.data(), range->bytes,
                                                static_cast<off_t>(range->offset))
                                      : -1;
      scan.take(std::span<const std::byte>(bytes).first(
          static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
    }
    index_.found(file.number, file.bytes, scan);
  }
  return {};
}

PageStore::Buffer PageStore::take_buffer() {
  if (!spare_.empty()) {
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  constexpr std::align_val_t whole_blocks{segment_block};
  return Buffer(static_cast<std::byte*>(::operator new(record_bytes_, whole_blocks)));
}

std::size_t PageStore::match(std::span<const PageKey> keys, std::size_t first) {
  for (std::size_t at = std::max<std::size_t>(first, 1); at < keys.size(); ++at)
    index_.follows(keys[at], keys[at - 1]);
  return index_.match(keys, first);
}

bool PageStore::wants(const PageKey& key, const PageKey& parent, std::int64_t now) {
  if (index_.knows(key) || !(parent == PageKey{} || index_.knows(parent))) return false;
  if (!index_.has_room_behind(parent)) return false;
  // Not beside some that hang.
  return health_.works() || (!trying_ && !writes_hang() && health_.may_try(now));
}

bool PageStore::writes_hang() const {
  return std::ranges::any_of(jobs_, [](const auto& one) {
    return one.second.kind != BlockPort::Kind::read && one.second.given_up;
  });
}

std::uint64_t PageStore::submit(Job job, std::shared_ptr<SegmentFile> file, std::uint64_t offset,
                                std::span<std::byte> bytes) {
  const std::uint64_t id = next_job_++;
  const BlockPort::Kind kind = job.kind;
  jobs_.emplace(id, std::move(job));
  port_->submit({id, kind, std::move(file), offset, bytes});
  return id;
}

/// Null: it cannot be opened.
std::shared_ptr<SegmentFile> PageStore::file_of(std::uint64_t segment) {
  const auto it = files_.find(segment);
  if (it != files_.end()) return it->second;
  Result<std::shared_ptr<SegmentFile>> file = folder_.read(segment);
  if (!file.ok()) return nullptr;
  return files_[segment] = *file;
}

void PageStore::fail(std::int64_t now, const std::string& what, int error) {
  ++counts_.failed;
  // All that was under way when it failed is one failure.
  if (health_.works() || trying_)
    health_.failed(now, error == 0 ? what : what + ": " + std::strerror(error));
  trying_ = false;
}

bool PageStore::open_segment(const SegmentIndex::Writing& writing, std::int64_t now) {
  for (const std::uint64_t number : writing.drops) {
    files_.erase(number);
    ++counts_.dropped;
    if (Result<void> removed = folder_.remove(number); !removed.ok())
      fail(now, "a segment cannot be removed", errno);
  }
  Result<std::shared_ptr<SegmentFile>> file = folder_.create(writing.page.segment);
  if (!file.ok()) {
    fail(now, "a segment cannot be made", errno);
    return false;
  }
  files_[writing.page.segment] = *file;
  Buffer head = take_buffer();
  const std::span<std::byte> block(head.get(), segment_block);
  write_segment_head(index_.head_of(writing.page.segment), block);
  const std::uint64_t id =
      submit({BlockPort::Kind::write, writing.page, {}, true, now}, *file, 0, block);
  writes_.emplace(id, std::move(head));
  return true;
}

void PageStore::write(const PageKey& key, const PageKey& parent, std::span<const std::byte> content,
                      std::int64_t now) {
  SLUICE_CHECK(content.size() == options_.page_bytes);
  trying_ = !health_.works();
  // Files that are open could be written on, and nobody would find them.
  if (!folder_.is_there()) return fail(now, "the folder, or the lock in it, was removed");
  Buffer buffer = take_buffer();
  const SegmentIndex::Writing writing = index_.begin(key, parent);
  const StoredPage& page = writing.page;
  if (writing.opens && !open_segment(writing, now)) {
    index_.ended(page, false);
    spare_.push_back(std::move(buffer));
    return;
  }
  const SegmentHead segment = index_.head_of(page.segment);
  const std::span<std::byte> record(buffer.get(), record_bytes_);
  std::memcpy(record_content(segment, record).data(), content.data(), content.size());
  write_record(segment, page.slot, page.head, record);
  const std::uint64_t id =
      submit({BlockPort::Kind::write, page, segment, false, now}, files_.at(page.segment),
             record_offset(segment, page.slot), record);
  writes_.emplace(id, std::move(buffer));
}

bool PageStore::is_reading(const PageKey& key) const { return reads_.contains(key); }

bool PageStore::read(const PageKey& key, std::int64_t now) {
  SLUICE_CHECK(!reads_.contains(key));
  const StoredPage* const page = index_.find(key);
  if (page == nullptr) return false;
  const SegmentHead segment = index_.head_of(page->segment);
  if (segment.content_bytes != options_.page_bytes) return false;
  // Not beside one that hangs.
  if (reads_off_ && (trying_ || hangs() || !health_.may_try(now))) return false;
  std::shared_ptr<SegmentFile> file = file_of(page->segment);
  if (file == nullptr) {
    ++counts_.failed;
    index_.lost(key, page->head.generation);
    return false;
  }
  Buffer& buffer = reads_[key] = take_buffer();
  trying_ = trying_ || reads_off_;
  submit({BlockPort::Kind::read, *page, segment, false, now, reads_off_}, std::move(file),
         record_offset(segment, page->slot), {buffer.get(), record_bytes_});
  return true;
}

std::optional<std::int64_t> PageStore::oldest_read() const {
  std::optional<std::int64_t> oldest;
  for (const auto& [id, job] : jobs_)
    if (job.kind == BlockPort::Kind::read && !job.given_up)
      oldest = std::min(oldest.value_or(job.began), job.began);
  return oldest;
}

std::optional<std::int64_t> PageStore::writes_stand_since() const {
  std::optional<std::int64_t> oldest;
  for (const auto& [id, job] : jobs_)
    if (job.kind != BlockPort::Kind::read && !job.given_up)
      oldest = std::min(oldest.value_or(job.began), job.began);
  // Some wait for others, and what ended while nobody looked is news too.
  return oldest.has_value() ? std::max(*oldest, write_ended_) : oldest;
}

void PageStore::release(const PageKey& key) {
  const auto it = reads_.find(key);
  if (it == reads_.end()) return;
  spare_.push_back(std::move(it->second));
  reads_.erase(it);
}

void PageStore::take_read(const Job& job, int error, std::int64_t now) {
  const PageKey key = job.page.head.key;
  const bool is_cut = error == BlockPort::cut_short;
  if (is_cut) error = 0;  // the disk works; the page is not whole
  const std::span<const std::byte> record(reads_.at(key).get(), record_bytes_);
  RecordCheck check;
  if (error == 0 && !is_cut) check = check_record(job.segment, job.page.slot, record);
  const bool whole =
      error == 0 && !is_cut && check.state == RecordState::whole && check.head == job.page.head;
  if (error != 0) {
    reads_off_ = true;
    fail(now, "a page cannot be read", error);
  } else if (job.is_trial && !job.given_up) {
    trying_ = reads_off_ = false;
    health_.worked();
  }
  if (whole) {
    ++counts_.read;
    counts_.read_times.add(now - job.began);
    index_.used(key);
    on_read(key, record_content(job.segment, record).data());
    return;
  }
  counts_.broken += error == 0 ? 1 : 0;
  index_.lost(key, job.page.head.generation);
  release(key);
  on_read(key, nullptr);
}

void PageStore::take_write(std::uint64_t id, const Job& job, int error, std::int64_t now) {
  const auto it = writes_.find(id);
  spare_.push_back(std::move(it->second));
  writes_.erase(it);
  if (!job.is_head) index_.ended(job.page, error == 0);
  if (error != 0) {
    if (job.is_head) index_.close(job.page.segment);
    fail(now, error == ENOSPC ? "the disk is full" : "a page cannot be written", error);
    return;
  }
  if (job.is_head) return;
  ++counts_.written;
  counts_.write_times.add(now - job.began);
  if (trying_) {
    trying_ = false;
    if (reads_.empty()) reads_off_ = false;  // none hangs
    health_.worked();
  }
  if (index_.is_full(job.page.segment)) sync(job.page.segment, now);
}

void PageStore::take(const BlockPort::Ended& ended, std::int64_t now) {
  const auto it = jobs_.find(ended.id);
  SLUICE_CHECK(it != jobs_.end());
  const Job job = std::move(it->second);
  jobs_.erase(it);
  if (job.kind == BlockPort::Kind::read) return take_read(job, ended.error, now);
  write_ended_ = now;
  if (job.kind == BlockPort::Kind::write) return take_write(ended.id, job, ended.error, now);
  --syncing_;
  if (ended.error != 0) fail(now, "a segment cannot be synchronised", ended.error);
}

void PageStore::poll(std::int64_t now, std::chrono::nanoseconds most) {
  ended_.clear();
  const auto before = std::chrono::steady_clock::now();
  port_->wait(ended_, most);
  if (most.count() > 0)
    now += std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count();
  for (const BlockPort::Ended& one : ended_) take(one, now);
}

void PageStore::sync(std::uint64_t segment, std::int64_t now) {
  const auto it = files_.find(segment);
  if (it == files_.end()) return;
  ++syncing_;
  Job job;
  job.kind = BlockPort::Kind::sync;
  job.began = now;
  submit(std::move(job), it->second, 0, {});
}

void PageStore::sync(std::int64_t now) { sync(index_.last_segment(), now); }

void PageStore::give_up(std::int64_t now, const std::string& why) {
  reads_off_ = true;
  for (auto& [id, job] : jobs_) job.given_up = true;
  // One disk that hangs is one failure, however many wait for it.
  if (health_.works() || trying_) health_.failed(now, why);
  trying_ = false;
}

void PageStore::give_up_writes(std::int64_t now, const std::string& why) {
  for (auto& [id, job] : jobs_)
    if (job.kind != BlockPort::Kind::read) job.given_up = true;
  if (health_.works() || trying_) health_.failed(now, why);
  trying_ = false;
}

}  // namespace sluice
