// The two ends of one link between machines: nothing applied twice, nothing lost unnoticed.
//
// The sender numbers what it sends and keeps it until the receiver says that it was applied. When
// a connection breaks, both ends meet again with the receiver's number, and the sender repeats what
// comes after it. A receiver that lost its memory has another incarnation: then nothing is
// repeated, and whoever waits learns that the machine is lost. Pure. Thread: one loop.
// Bounds: the window, in messages; nobody is held up by a full one yet.
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

  bool full() const { return kept_.size() >= window_; }
  /// Keeps the item and numbers it, from 1.
  std::uint64_t send(T item) {
    kept_.push_back(std::move(item));
    return first_ + kept_.size() - 1;
  }
  /// Everything up to `number` was applied. What was said before is no news.
  void applied(std::uint64_t number) {
    for (; first_ <= number && !kept_.empty(); ++first_) kept_.pop_front();
  }
  /// After a break: calls `again(number, item)` for everything after `number`, in order.
  template <typename Again>
  void resume(std::uint64_t number, Again again) {
    applied(number);
    for (std::size_t i = 0; i < kept_.size(); ++i) again(first_ + i, kept_[i]);
  }
  const T& item(std::uint64_t number) const { return kept_[number - first_]; }
  std::size_t size() const { return kept_.size(); }
  /// Of what was sent last; 0: nothing.
  std::uint64_t last() const { return first_ + kept_.size() - 1; }
  /// Forgets everything: the receiver is another one now. Calls `drop(item)` for each.
  template <typename Drop>
  void reset(Drop drop) {
    for (T& item : kept_) drop(item);
    kept_.clear();
    first_ = 1;
  }

 private:
  std::deque<T> kept_;
  std::uint64_t first_ = 1;
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
