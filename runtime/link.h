// The two ends of one link between machines: nothing applied twice, nothing lost unnoticed.
//
// The sender numbers what it sends and keeps it until the receiver says that it was applied. When
// a connection breaks, both ends meet again with the receiver's number, and the sender repeats what
// comes after it. A receiver that lost its memory has another incarnation: then nothing is
// repeated, and whoever waits learns that the machine is lost. Pure. Thread: one loop.
// Bounds: the window, in bytes of what is kept. Who sends into a full one is not held up: it asks.
// Source: docs/FAILURES.md, links.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

namespace sluice {

template <typename T>
class LinkSender {
 public:
  explicit LinkSender(std::size_t window) : window_(window) {}

  /// True when `more` bytes do not fit beside those that are kept.
  bool full(std::size_t more = 1) const { return more > window_ || bytes_ > window_ - more; }
  /// Keeps the item and numbers it, from 1. `bytes`: what it weighs, or all items weigh one.
  std::uint64_t send(T item, std::size_t bytes = 1) {
    kept_.push_back({std::move(item), bytes});
    bytes_ += bytes;
    return last();
  }
  /// Everything up to `number` was applied. What was said before is no news.
  void applied(std::uint64_t number) {
    for (; first_ <= number && !kept_.empty(); ++first_) {
      bytes_ -= kept_.front().bytes;
      kept_.pop_front();
    }
  }
  /// After a break: calls `again(number, item)` for everything after `number`, in order.
  template <typename Again>
  void resume(std::uint64_t number, Again again) {
    applied(number);
    for (std::size_t i = 0; i < kept_.size(); ++i) again(first_ + i, kept_[i].item);
  }
  const T& item(std::uint64_t number) const { return kept_[number - first_].item; }
  std::size_t size() const { return kept_.size(); }
  std::size_t bytes() const { return bytes_; }
  /// Of what was sent last; 0: nothing.
  std::uint64_t last() const { return first_ + kept_.size() - 1; }
  /// Up to here the receiver said that everything was applied.
  std::uint64_t said() const { return first_ - 1; }
  /// Forgets everything: the receiver is another one now. Calls `drop(item)` for each.
  template <typename Drop>
  void reset(Drop drop) {
    for (Kept& kept : kept_) drop(kept.item);
    kept_.clear();
    first_ = 1;
    bytes_ = 0;
  }

 private:
  struct Kept {
    T item;
    std::size_t bytes;
  };
  std::deque<Kept> kept_;
  std::uint64_t first_ = 1;
  std::size_t bytes_ = 0;
  std::size_t window_;
};

class LinkReceiver {
 public:
  enum class Verdict : std::uint8_t { apply, duplicate, gap };

  /// What to do with the message of this number.
  Verdict take(std::uint64_t number) {
    if (number <= applied_) return Verdict::duplicate;
    if (number != applied_ + 1) return Verdict::gap;
    ++applied_;
    return Verdict::apply;
  }
  std::uint64_t applied() const { return applied_; }
  void reset() { applied_ = 0; }

 private:
  std::uint64_t applied_ = 0;
};

}  // namespace sluice
