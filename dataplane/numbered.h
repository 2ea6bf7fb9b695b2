// Things that are under way, by numbers that are given out once each.
//
// A number is a place and how often that was taken, so to find one is to look there, whatever order
// they end in. Thread: one. Cost: constant time, no allocation in the steady state. Bounds: as many
// places as were under way at once; 2^32 of a place.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {

template <typename T>
class Numbered {
 public:
  /// Its number: not 0.
  std::uint64_t add(T value) {
    const bool is_new = free_.empty();
    const auto at = is_new ? static_cast<std::uint32_t>(places_.size()) : free_.back();
    if (is_new)
      places_.emplace_back();
    else
      free_.pop_back();
    places_[at].value = std::move(value);
    return (std::uint64_t{++places_[at].taken} << 32U) | at;
  }
  /// Null: it has ended.
  const T* find(std::uint64_t number) const {
    const auto at = static_cast<std::uint32_t>(number);
    const bool is_there = at < places_.size() && places_[at].taken == number >> 32U;
    return is_there && places_[at].value ? &*places_[at].value : nullptr;
  }
  /// Ends it. None: it had.
  std::optional<T> take(std::uint64_t number) {
    if (find(number) == nullptr) return std::nullopt;
    const auto at = static_cast<std::uint32_t>(number);
    free_.push_back(at);
    return std::exchange(places_[at].value, std::nullopt);
  }
  template <typename Is>
  bool any_of(Is is) const {
    return std::ranges::any_of(places_,
                               [&](const Place& place) { return place.value && is(*place.value); });
  }
  template <typename Is>
  void erase_if(Is is) {
    for (std::uint32_t at = 0; at < places_.size(); ++at) {
      if (!places_[at].value || !is(std::as_const(*places_[at].value))) continue;
      free_.push_back(at);
      places_[at].value.reset();
    }
  }
  void clear() {
    erase_if([](const T&) { return true; });
  }
  bool empty() const { return free_.size() == places_.size(); }

 private:
  struct Place {
    std::uint32_t taken = 0;  // times
    std::optional<T> value;
  };
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
};

}  // namespace sluice
