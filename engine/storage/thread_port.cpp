#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "dataplane/segment_format.h"
#include "engine/storage/block_port.h"

namespace sluice {
namespace {

int transfer(const BlockPort::Job& job) {
  const int file = job.file->descriptor();
  if (job.kind == BlockPort::Kind::sync) return ::fdatasync(file) == 0 ? 0 : errno;
  std::size_t moved = 0;
  while (moved < job.bytes.size()) {
    std::byte* const at = job.bytes.data() + moved;
    const std::size_t left = job.bytes.size() - moved;
    const auto place = static_cast<off_t>(job.offset + moved);
    const ssize_t got = job.kind == BlockPort::Kind::write ? ::pwrite(file, at, left, place)
                                                           : ::pread(file, at, left, place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) return job.kind == BlockPort::Kind::read ? BlockPort::cut_short : EIO;
    moved += static_cast<std::size_t>(got);
    // A part of a block is the end of the file, and from there a direct read may not go on.
    if (job.kind == BlockPort::Kind::read && moved % segment_block != 0)
      return BlockPort::cut_short;
  }
  return 0;
}

/// One thread reads, so that who waits for pages does not wait for what is written behind.
class ThreadPort final : public BlockPort {
 public:
  ThreadPort() {
    for (Lane& lane : lanes_) lane.thread = std::thread([this, &lane] { run(lane); });
  }
  ~ThreadPort() override {
    {
      const std::lock_guard held(mutex_);
      ends_ = true;
    }
    for (Lane& lane : lanes_) lane.changed.notify_all();
    for (Lane& lane : lanes_) lane.thread.join();
  }

  std::string_view name() const override { return "threads"; }
  void submit(Job job) override {
    Lane& lane = lanes_[job.kind == Kind::read ? 0 : 1];
    const std::lock_guard held(mutex_);
    lane.jobs.push_back(std::move(job));
    ++under_way_;
    lane.changed.notify_one();
  }
  void wait(std::vector<Ended>& ended, std::chrono::nanoseconds most) override {
    std::unique_lock held(mutex_);
    if (under_way_ > 0 && most.count() > 0)
      done_.wait_for(held, most, [&] { return !ended_.empty(); });
    under_way_ -= ended_.size();
    ended.insert(ended.end(), ended_.begin(), ended_.end());
    ended_.clear();
  }

 private:
  struct Lane {
    std::thread thread;
    std::condition_variable changed;
    std::deque<Job> jobs;
  };

  void run(Lane& lane) {
    std::unique_lock held(mutex_);
    for (;;) {
      lane.changed.wait(held, [&] { return ends_ || !lane.jobs.empty(); });
      if (lane.jobs.empty()) return;
      Job job = std::move(lane.jobs.front());
      lane.jobs.pop_front();
      held.unlock();
      const int error = transfer(job);
      job.file.reset();
      held.lock();
      ended_.push_back({job.id, error});
      done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<Ended> ended_;
  std::size_t under_way_ = 0;  // or ended and not told
  bool ends_ = false;
  std::array<Lane, 2> lanes_;
};

}  // namespace

std::unique_ptr<BlockPort> make_thread_port() { return std::make_unique<ThreadPort>(); }

std::unique_ptr<BlockPort> make_block_port() {
  std::unique_ptr<BlockPort> port = make_uring_port();
  return port != nullptr ? std::move(port) : make_thread_port();
}

}  // namespace sluice
