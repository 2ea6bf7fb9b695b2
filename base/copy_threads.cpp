#include "base/copy_threads.h"

#include <algorithm>
#include <iterator>
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

void ReadEnds::tell_answer(std::uint64_t number, Ref<Buffer> answer) {
  const std::shared_lock lock(told_);
  if (listener_ != nullptr) listener_->answered(number, std::move(answer));
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
  const bool is_one = reads.size() == 1;
  Work work{ends, from, std::move(reads)};
  std::unique_lock lock(mutex_);
  if (bytes <= here_most && work_.empty()) {
    lock.unlock();
    return perform(std::move(work), *landing_);
  }
  if (work.reads.empty()) return;
  untaken_ += work.reads.size();
  work_.push_back(std::move(work));
  lock.unlock();
  is_one ? came_.notify_one() : came_.notify_all();
}

void CopyThreads::drop(const ReadEnds& ends) {
  std::vector<Work> dropped;  // let go of without the lock, for that may take a while
  const std::lock_guard lock(mutex_);
  std::erase_if(work_, [&](Work& one) {
    if (one.ends.get() != &ends) return false;
    untaken_ -= one.reads.size() - one.next;
    dropped.push_back(std::move(one));
    return true;
  });
}

void CopyThreads::run() {
  const auto landing = std::make_shared<Landing>();  // its own, so it waits for nobody
  std::unique_lock lock(mutex_);
  for (;;) {
    came_.wait(lock, [&] { return is_over_ || !work_.empty(); });
    if (is_over_) return;
    Work some = take();
    lock.unlock();
    perform(std::move(some), *landing);
    lock.lock();
  }
}

/// The fewer there are the fewer at once, so all end with the last.
CopyThreads::Work CopyThreads::take() {
  Work& first = work_.front();
  const std::size_t share = std::clamp<std::size_t>(untaken_ / (2 * threads_.size()), 1, at_once);
  const std::size_t most = std::min(share, first.reads.size() - first.next);
  Work some{first.ends, first.from, {}};
  some.reads.reserve(most);
  const auto begin = first.reads.begin() + static_cast<std::ptrdiff_t>(first.next);
  std::move(begin, begin + static_cast<std::ptrdiff_t>(most), std::back_inserter(some.reads));
  first.next += most;
  untaken_ -= most;
  if (first.next == first.reads.size()) work_.pop_front();
  return some;
}

void CopyThreads::perform(Work work, Landing& landing) {
  if (work.reads.empty()) return;
  std::vector<RemoteRegion::Ended> ended;
  ended.reserve(work.reads.size());
  for (Read& one : work.reads) ended.push_back(copy(work.from, one, landing));
  work.ends->tell(std::move(ended));
}

RemoteRegion::Ended CopyThreads::copy(const Ref<Buffer>& from, Read& read, Landing& landing) {
  const auto is_within = [&](const RemoteRegion::Part& part) {
    return part.offset <= from->size() && part.size <= from->size() - part.offset;
  };
  Ref<Buffer> bytes;
  if (from && is_within(read.first) && is_within(read.then))
    bytes = landing.take((read.to ? 0 : read.first.size) + read.then.size);
  std::optional<std::uint32_t> sum;
  if (bytes) sum = copy_parts(from->data(), read.first, read.then, read.to, bytes->data());
  read.to = {};
  return {read.number, std::move(bytes), sum};
}

}  // namespace sluice
