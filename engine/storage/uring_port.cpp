#include <liburing.h>

#include <cerrno>
#include <deque>
#include <map>

#include "base/check.h"
#include "dataplane/segment_format.h"
#include "engine/storage/block_port.h"

namespace sluice {
namespace {

class UringPort final : public BlockPort {
 public:
  /// Null: the kernel refuses.
  static std::unique_ptr<BlockPort> make(unsigned depth) {
    auto port = std::unique_ptr<UringPort>(new UringPort(depth));
    if (::io_uring_queue_init(depth, &port->ring_, 0) != 0) return nullptr;
    port->open_ = true;
    return port;
  }
  ~UringPort() override {
    if (!open_) return;
    // The kernel still writes into the caller's bytes.
    std::vector<Ended> ended;
    while (!jobs_.empty()) wait(ended, std::chrono::seconds(1));
    ::io_uring_queue_exit(&ring_);
  }

  std::string_view name() const override { return "io_uring"; }
  void submit(Job job) override {
    const std::uint64_t id = job.id;
    jobs_.emplace(id, Moving{std::move(job), 0});
    waiting_.push_back(id);
    push();
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) override {
    const std::size_t before = ended.size();
    take(ended);
    if (ended.size() != before || jobs_.empty() || most.count() <= 0) return;
    __kernel_timespec time{most.count() / 1'000'000'000, most.count() % 1'000'000'000};
    io_uring_cqe* entry = nullptr;
    (void)::io_uring_wait_cqe_timeout(&ring_, &entry, &time);
    take(ended);
  }

 private:
  struct Moving {
    Job job;
    std::size_t moved = 0;
  };

  explicit UringPort(unsigned depth) : depth_(depth) {}

  /// As many as the ring has room for.
  void push() {
    while (!waiting_.empty() && in_ring_ < depth_) {
      io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
      if (entry == nullptr) break;
      const std::uint64_t id = waiting_.front();
      waiting_.pop_front();
      const Moving& moving = jobs_.find(id)->second;
      const Job& job = moving.job;
      const int file = job.file->descriptor();
      const auto left = job.bytes.subspan(moving.moved);
      const auto count = static_cast<unsigned>(left.size());
      const std::uint64_t place = job.offset + moving.moved;
      if (job.kind == Kind::sync)
        ::io_uring_prep_fsync(entry, file, IORING_FSYNC_DATASYNC);
      else if (job.kind == Kind::write)
        ::io_uring_prep_write(entry, file, left.data(), count, place);
      else
        ::io_uring_prep_read(entry, file, left.data(), count, place);
      ::io_uring_sqe_set_data64(entry, id);
      ++in_ring_;
    }
    // What the kernel does not take now stays in the ring for the next time.
    (void)::io_uring_submit(&ring_);
  }

  void take(std::vector<Ended>& ended) {
    push();
    io_uring_cqe* entry = nullptr;
    while (::io_uring_peek_cqe(&ring_, &entry) == 0 && entry != nullptr) {
      const std::uint64_t id = ::io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      ::io_uring_cqe_seen(&ring_, entry);
      if (id == LIBURING_UDATA_TIMEOUT) continue;
      --in_ring_;
      landed(id, result, ended);
    }
    push();
  }

  void landed(std::uint64_t id, int result, std::vector<Ended>& ended) {
    const auto it = jobs_.find(id);
    SLUICE_CHECK(it != jobs_.end());
    Moving& moving = it->second;
    const bool again = result == -EINTR || result == -EAGAIN;
    if (result > 0) moving.moved += static_cast<std::size_t>(result);
    const bool is_sync = moving.job.kind == Kind::sync;
    const bool is_read = moving.job.kind == Kind::read;
    // A part of a block is the end of the file, and from there a direct read may not go on.
    const bool is_cut = is_read && (result == 0 || moving.moved % segment_block != 0);
    if (again || (result > 0 && !is_sync && !is_cut && moving.moved < moving.job.bytes.size())) {
      waiting_.push_back(id);
      return;
    }
    const int error = result < 0 ? -result : is_cut ? cut_short : result == 0 && !is_sync ? EIO : 0;
    ended.push_back({id, error});
    jobs_.erase(it);
  }

  unsigned depth_;
  io_uring ring_{};
  bool open_ = false;
  std::map<std::uint64_t, Moving> jobs_;
  std::deque<std::uint64_t> waiting_;  // of those, not in the ring
  unsigned in_ring_ = 0;
};

}  // namespace

std::unique_ptr<BlockPort> make_uring_port(unsigned depth) { return UringPort::make(depth); }

}  // namespace sluice
