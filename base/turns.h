// Loops that stand one behind the other, cut into parts: who takes which, and who opens the next.
//
// A loop is a number of indices. Threads take parts of what is left, large ones first. Whoever ends
// the last of them, and nobody else, is told so: it may prepare the next loop and open it while no
// part is out. So no thread in particular is needed for the loops to go on: what one does not take
// another does, and a thread that is away between two parts keeps nobody.
// Thread: any; `open` as said there. What a thread writes in a part or before `open`, others read
// in the next loop. Pure but for its atomics: it neither waits nor wakes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sluice {

class Turns {
 public:
  static constexpr std::uint32_t count_most = 1U << 20;
  static constexpr std::uint32_t threads_most = 1U << 11;

  /// What a thread saw of the open loop; it may be out of date.
  class Seen {
   public:
    std::uint32_t left() const { return static_cast<std::uint32_t>(word_ % one_helper); }
    std::uint32_t helpers() const {
      return static_cast<std::uint32_t>(word_ % one_loop / one_helper);
    }
    /// The loop's own; a later one has another.
    std::uint32_t number() const { return static_cast<std::uint32_t>(word_ / one_loop); }
    /// What a thread takes at once. The last parts are small, so that all end together.
    std::uint32_t part(std::uint32_t threads) const { return std::max(left() / (2 * threads), 1U); }

   private:
    friend class Turns;
    explicit Seen(std::uint64_t word) : word_(word) {}
    std::uint64_t word_;
  };

  Seen seen() const { return Seen(claim_.load(std::memory_order_acquire)); }

  /// Opens a loop. By whoever `end` told to, or before there was any. Requires: count is not 0.
  void open(std::uint32_t count) {
    left_to_do_.store(count, std::memory_order_relaxed);
    const Seen last(claim_.load(std::memory_order_relaxed));
    claim_.store((std::uint64_t{last.number()} + 1) * one_loop + count, std::memory_order_release);
  }

  /// Takes `part` indices of the loop that `seen` shows: those before its last `left()`. `joins`:
  /// as a helper that was not in it yet. False: it is not so any more, and `seen` is now.
  bool take(Seen& seen, std::uint32_t part, bool joins) {
    return claim_.compare_exchange_strong(seen.word_, seen.word_ - part + (joins ? one_helper : 0),
                                          std::memory_order_acq_rel, std::memory_order_acquire);
  }

  /// A part that was taken is over. True: it was the loop's last.
  bool end(std::uint32_t part) {
    return left_to_do_.fetch_sub(part, std::memory_order_acq_rel) == part;
  }

 private:
  static constexpr std::uint64_t one_helper = 2 * std::uint64_t{count_most};
  static constexpr std::uint64_t one_loop = one_helper * threads_most;

  alignas(64) std::atomic<std::uint64_t> claim_{0};  // number, helpers, what is left to take
  alignas(64) std::atomic<std::uint32_t> left_to_do_{0};
};

}  // namespace sluice
