#include "base/copy_threads.h"

#include <algorithm>
#include <utility>

#include "base/mapped_parts.h"

namespace sluice {

void ReadEnds::tell(std::uint64_t number, Ref<Buffer> bytes, std::optional<std::uint32_t> sum) {
  const std::shared_lock lock(told_);
  if (listener_ != nullptr) listener_->read_ended(number, std::move(bytes), sum);
}

void ReadEnds::tell(std::vector<RemoteRegion::Ended> ended) {
  const std::shared_lock lock(told_);
  if (listener_ != nullptr) listener_->reads_ended(std::move(ended));
}

void ReadEnds::close() {
  const std::lock_guard lock(told_);  // behind those that are told of now
  listener_ = nullptr;
}

unsigned CopyThreads::threads_here() {
  return std::clamp(std::thread::hardware_concurrency() / 4, 2U, 4U);
}

CopyThreads::CopyThreads(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

CopyThreads::~CopyThreads() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  came_.notify_all();
  for (std::thread& one : threads_) one.join();
}

void CopyThreads::read(const std::shared_ptr<ReadEnds>& ends, const Ref<Buffer>& from,
                       std::vector<Read> reads) {
  std::size_t bytes = 0;
  for (const Read& one : reads) bytes += one.first.size;
  std::unique_lock lock(mutex_);
  if (bytes <= here_most && work_.empty()) {
    lock.unlock();
    std::vector<Work> work;
    for (Read& one : reads) work.push_back({ends, from, std::move(one)});
    return perform(std::move(work));
  }
  for (Read& one : reads) work_.push_back({ends, from, std::move(one)});
  lock.unlock();
  reads.size() == 1 ? came_.notify_one() : came_.notify_all();
}

void CopyThreads::drop(const ReadEnds& ends) {
  std::vector<Work> dropped;  // let go of without the lock, for that may take a while
  const std::lock_guard lock(mutex_);
  std::erase_if(work_, [&](Work& one) {
    if (one.ends.get() != &ends) return false;
    dropped.push_back(std::move(one));
    return true;
  });
}

void CopyThreads::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [&] { return is_over_ || !work_.empty(); });
    if (is_over_) return;
    std::vector<Work> some = take();
    lock.unlock();
    perform(std::move(some));
    lock.lock();
  }
}

/// The fewer there are the fewer at once, so all end with the last.
std::vector<CopyThreads::Work> CopyThreads::take() {
  const std::size_t most =
      std::clamp<std::size_t>(work_.size() / (2 * threads_.size()), 1, at_once);
  const ReadEnds* const ends = work_.front().ends.get();
  std::vector<Work> some;
  some.reserve(most);
  while (some.size() < most && !work_.empty() && work_.front().ends.get() == ends) {
    some.push_back(std::move(work_.front()));
    work_.pop_front();
  }
  return some;
}

void CopyThreads::perform(std::vector<Work> work) {
  if (work.empty()) return;
  std::vector<RemoteRegion::Ended> ended;
  ended.reserve(work.size());
  for (Work& one : work) ended.push_back(copy(one.from, one.read));
  work.front().ends->tell(std::move(ended));
}

RemoteRegion::Ended CopyThreads::copy(const Ref<Buffer>& from, Read& read) {
  const auto is_within = [&](const RemoteRegion::Part& part) {
    return part.offset <= from->size() && part.size <= from->size() - part.offset;
  };
  Ref<Buffer> bytes;
  if (from && is_within(read.first) && is_within(read.then))
    bytes = landing_->take((read.to ? 0 : read.first.size) + read.then.size);
  std::optional<std::uint32_t> sum;
  if (bytes) sum = copy_parts(from->data(), read.first, read.then, read.to, bytes->data());
  read.to = {};
  return {read.number, std::move(bytes), sum};
}

}  // namespace sluice
