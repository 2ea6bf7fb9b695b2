// Objects of one type, kept for reuse: in the steady state nothing is allocated.
//
// They are made several at a time and stand side by side, so many of them cost few allocations and
// few pages. Thread: one. Owns: all it ever made; they are freed together, at its end.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice {

template <typename T>
class FreeList {
 public:
  T* take() {
    return take([](T&) {});
  }
  /// `prepare`: what is new, before it is used first.
  template <typename Prepare>
  T* take(Prepare prepare) {
    if (free_.empty()) return make(prepare);
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give(T* object) { free_.push_back(object); }
  std::size_t in_use() const { return owned_.size() * at_once - free_.size(); }

 private:
  static constexpr std::size_t at_once = 16;

  template <typename Prepare>
  [[gnu::noinline]] T* make(Prepare prepare) {
    owned_.push_back(std::make_unique<T[]>(at_once));
    for (std::size_t i = 0; i < at_once; ++i) prepare(owned_.back()[i]);
    free_.reserve(owned_.capacity() * at_once);
    for (std::size_t i = at_once; --i > 0;) free_.push_back(&owned_.back()[i]);
    return &owned_.back()[0];
  }

  std::vector<T*> free_;  // outlives the objects, whose ends may give others back
  std::vector<std::unique_ptr<T[]>> owned_;
};

}  // namespace sluice
