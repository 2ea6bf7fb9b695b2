// Threads that read regions of other processes which are mapped here: they copy what is asked for,
// and sum what they write in the same pass.
//
// Each read is done by one of them, in no order, or, of few bytes, by whoever asks. Of many each
// takes several at once, and tells of them together, so that they seldom wait for a lock; they
// sleep in the kernel when there is none. Thread: any; listeners are called on the threads that
// copy. Owns: the threads. What was not begun when it goes ends unheard.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "base/landing.h"
#include "base/remote_memory.h"

namespace sluice {

/// Who is told of a region's reads, until it is closed.
class ReadEnds {
 public:
  explicit ReadEnds(RemoteRegion::Listener& listener) : listener_(&listener) {}
  /// Unheard once it is closed.
  void tell(std::uint64_t number, Ref<Buffer> bytes, std::optional<std::uint32_t> sum);
  void tell(std::vector<RemoteRegion::Ended> ended);
  void tell_answer(std::uint64_t number, Ref<Buffer> answer);
  /// The listener is not called any more when this has returned.
  void close();

 private:
  std::shared_mutex told_;  // held while the listener is called
  RemoteRegion::Listener* listener_;
};

class CopyThreads {
 public:
  using Read = RemoteRegion::Read;
  /// Of one call, which are read in it where nobody waits: waking a thread takes longer.
  static constexpr std::size_t here_most = std::size_t{1} << 20U;
  static constexpr std::size_t at_once = 8;  // reads that one of them takes at most

  explicit CopyThreads(unsigned threads);
  ~CopyThreads();
  CopyThreads(const CopyThreads&) = delete;
  CopyThreads& operator=(const CopyThreads&) = delete;

  /// As many as gain something on this computer: one copies and sums slower than memory is copied.
  static unsigned threads_here();

  /// `from`: the region, which stays mapped as long as somebody refers to it; null: it cannot be
  /// reached, and they end without bytes. So does one of what the region has not.
  void read(const std::shared_ptr<ReadEnds>& ends, const Ref<Buffer>& from,
            std::vector<Read> reads);
  /// What was not begun yet is let go of.
  void drop(const ReadEnds& ends);

 private:
  /// Of one call: what they share is counted once, for counts cross from one core to another.
  struct Work {
    std::shared_ptr<ReadEnds> ends;
    Ref<Buffer> from;
    std::vector<Read> reads;
    std::size_t next = 0;  // of those, that nobody has taken
  };
  void run();
  /// The next ones of the call that came first.
  Work take();
  static void perform(Work work, Landing& landing);
  static RemoteRegion::Ended copy(const Ref<Buffer>& from, Read& read, Landing& landing);

  const std::shared_ptr<Landing> landing_ = std::make_shared<Landing>();  // of those that ask
  std::mutex mutex_;                                                      // of what follows
  std::condition_variable came_;
  std::deque<Work> work_;
  std::size_t untaken_ = 0;  // reads of those
  bool is_over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sluice
