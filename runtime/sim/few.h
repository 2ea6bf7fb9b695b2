// A few values: the first stand in the object itself, and only when there are more of them is
// memory asked for. So a hundred thousand owners of some cost no hundred thousand small blocks.
// When they are many after all, a table says where each stands.
//
// `key`: what tells them apart, a number; no two have the same.
// Cost: adding, finding and removing O(1); a removal moves the last into the gap. Private to
// runtime/sim.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace sluice::sim {

template <typename T, std::size_t count, auto key = std::identity{}>
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
    if (where_) where_->emplace(std::invoke(key, value), size_);
    ++size_;
    if (size_ == many && !where_) fill_table();
  }
  /// Null: it is not there.
  const T* find(std::uint32_t wanted) const {
    if (where_) {
      const auto found = where_->find(wanted);
      return found == where_->end() ? nullptr : begin() + found->second;
    }
    const T* found = std::ranges::find(begin(), end(), wanted, key);
    return found == end() ? nullptr : found;
  }
  /// `at`: one of those between `begin` and `end`.
  void remove(const T* at) {
    T* values = spilled_ ? more_.data() : few_.data();
    const auto gap = static_cast<std::uint32_t>(at - values);
    --size_;
    if (where_) {
      where_->erase(std::invoke(key, values[gap]));
      if (gap != size_) (*where_)[std::invoke(key, values[size_])] = gap;
    }
    values[gap] = values[size_];
    if (spilled_) more_.pop_back();
    spilled_ = spilled_ && size_ != 0;
    if (size_ == 0) where_.reset();
  }

 private:
  static constexpr std::uint32_t many = 64;

  void fill_table() {
    where_ = std::make_unique<std::unordered_map<std::uint32_t, std::uint32_t>>();
    for (std::uint32_t i = 0; i < size_; ++i) where_->emplace(std::invoke(key, begin()[i]), i);
  }

  std::uint32_t size_ = 0;
  bool spilled_ = false;  // then all stand in `more_`, until none is left
  std::array<T, count> few_{};
  std::vector<T> more_;
  std::unique_ptr<std::unordered_map<std::uint32_t, std::uint32_t>> where_;  // key -> index
};

}  // namespace sluice::sim
