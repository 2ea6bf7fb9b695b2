// What everything on one device shares: the order of work, what multiplies, and memory that grows.
//
// Shape and errors: as kernels/cuda/device.h. Thread: one caller at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engine/device/device_block.h"
#include "kernels/cuda/kernels.h"

namespace sluice {

class DeviceWork {
 public:
  /// Errors: unavailable (no device, no product library).
  static Result<std::unique_ptr<DeviceWork>> make();
  ~DeviceWork() { device::free_stream(stream_); }
  DeviceWork(const DeviceWork&) = delete;
  DeviceWork& operator=(const DeviceWork&) = delete;

  device::Stream stream() const { return stream_; }
  Result<void> synchronise() { return device::synchronise(stream_); }

  template <typename Values>
  void put(const device::Memory& to, const Values& values) {
    put(to.as<void>(), values);
  }
  template <typename Values>
  void put(void* to, const Values& values) {
    device::copy_in(to, values.data(), values.size() * sizeof(values[0]), stream_);
  }
  /// y = x W^T + bias, rows [rows, in] to [rows, out].
  template <typename T, typename U>
  Result<void> apply(const DeviceLinear& linear, const T* x, U* y, std::size_t rows) {
    const float* bias = linear.bias.as<float>();
    const T* weight = linear.weight.as<T>();
    if (rows <= device::matvec_rows) {
      device::matvec(x, weight, bias, y, rows, linear.out, linear.in, stream_);
      return {};
    }
    Result<void> done = products_->multiply(x, weight, y, rows, linear.out, linear.in, stream_);
    if (done.ok()) device::add_bias(y, bias, rows, linear.out, stream_);
    return done;
  }

 private:
  DeviceWork(device::Stream stream, std::unique_ptr<device::Products> products)
      : stream_(stream), products_(std::move(products)) {}

  device::Stream stream_;
  std::unique_ptr<device::Products> products_;
};

/// Work that is done once, then recorded, then launched as one; anew when something has moved.
class Recordings {
 public:
  /// What a recording depends on besides addresses: how many of what.
  using Key = std::pair<std::size_t, std::uintptr_t>;
  /// `moves`: changes when an address does that `work` uses.
  Result<void> run(DeviceWork& on, const Key& key, std::size_t moves,
                   const std::function<Result<void>()>& work);

 private:
  std::map<Key, std::unique_ptr<device::Graph>> recorded_;  // null: done once
  std::size_t moves_ = 0;
};

/// Makes memories larger where they are too small; what was in those is lost.
class Room {
 public:
  /// At least so many bytes; a power of two, so that growing ends.
  void need(device::Memory& memory, std::size_t bytes);
  /// Whether one has another address now: what was recorded with the old one is void.
  bool moved() const { return moved_; }
  /// The first failure; a memory that failed is empty, and is made anew the next time.
  Result<void> outcome() const { return outcome_; }

 private:
  bool moved_ = false;
  Result<void> outcome_;
};

}  // namespace sluice
