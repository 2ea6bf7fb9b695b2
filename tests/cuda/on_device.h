// Values on the device, for tests that run on the emulation and on a GPU alike.
#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <iostream>
#include <span>
#include <vector>

#include "base/random.h"
#include "kernels/cuda/kernels.h"

namespace sluice::device {

/// False, and says so: a build for a GPU on a machine that has none.
inline bool there() {
  static const Result<About> about = find_device();
  if (!about.ok()) std::cout << "no device: skipped (" << about.error().message << ")\n";
  return about.ok();
}

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : memory_(std::move(Memory::allocate(values.size() * sizeof(T) + 16)).value()),
        count_(values.size()) {
    copy_in(memory_.as<T>(), values.data(), count_ * sizeof(T), nullptr);
    REQUIRE(synchronise(nullptr).ok());
  }
  /// Floats begin as no numbers: what a kernel does not write is seen.
  explicit OnDevice(std::size_t count) : OnDevice(std::vector<T>(count, nothing())) {}
  operator T*() const { return memory_.as<T>(); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    copy_out(values.data(), memory_.as<T>(), count_ * sizeof(T), nullptr);
    REQUIRE(synchronise(nullptr).ok());
    return values;
  }

 private:
  static T nothing() {
    if constexpr (std::is_same_v<T, float>) return NAN;
    if constexpr (std::is_same_v<T, Bf16>) return {0x7fc0};
    return {};
  }

  Memory memory_;
  std::size_t count_;
};

inline std::vector<float> random_floats(std::size_t count, SplitMix64& random, double scale = 1) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(scale * random.normal());
  return values;
}

/// To the type under test and back: what the device sees.
template <typename T>
std::vector<T> typed(const std::vector<float>& values);
template <>
inline std::vector<float> typed<float>(const std::vector<float>& values) {
  return values;
}
template <>
inline std::vector<Bf16> typed<Bf16>(const std::vector<float>& values) {
  std::vector<Bf16> made;
  for (const float v : values) made.push_back(narrow(v));
  return made;
}
inline std::vector<float> floats(const std::vector<float>& values) { return values; }
inline std::vector<float> floats(const std::vector<Bf16>& values) {
  std::vector<float> made;
  for (const Bf16 v : values) made.push_back(widen(v));
  return made;
}

inline double distance(std::span<const float> got, std::span<const float> want) {
  REQUIRE(got.size() == want.size());
  double difference = 0;
  double size = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / size);
}

/// Relative L2 that rounding explains: of f32 sums, or of one rounding to bf16.
template <typename T>
constexpr double rounding = sizeof(T) == 4 ? 3e-6 : 4e-3;

}  // namespace sluice::device
