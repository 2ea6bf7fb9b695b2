// A few values: the first stand in the object itself, and only when there are more of them is
// memory asked for. So a hundred thousand owners of some cost no hundred thousand small blocks.
//
// Cost: adding and removing O(1); a removal moves the last into the gap. Private to runtime/sim.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::sim {

template <typename T, std::size_t count>
class Few {
 public:
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return spilled_ ? more_.data() : few_.data(); }
  const T* end() const { return begin() + size_; }

  void add(const T& value) {
    if (!spilled_ && size_ == count) {
      more_.assign(few_.begin(), few_.end());
      spilled_ = true;
    }
    if (spilled_)
      more_.push_back(value);
    else
      few_[size_] = value;
    ++size_;
  }
  /// `at`: one of those between `begin` and `end`.
  void remove(const T* at) {
    T* values = spilled_ ? more_.data() : few_.data();
    values[at - values] = values[--size_];
    if (spilled_) more_.pop_back();
    spilled_ = spilled_ && size_ != 0;
  }

 private:
  std::uint32_t size_ = 0;
  bool spilled_ = false;  // then all stand in `more_`, until none is left
  std::array<T, count> few_{};
  std::vector<T> more_;
};

}  // namespace sluice::sim
