// What everything on one device shares: the order of work, what multiplies, and memory that grows.
//
// Shape and errors: as kernels/cuda/device.h. Thread: one caller at a time.
#pragma once

#include <array>
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
  Result<void> synchronise() {
    Result<void> done = device::synchronise(stream_);
    if (done.ok()) ++waits_;
    return done;
  }
  /// How often all that was given to the stream has been waited for.
  std::size_t waits() const { return waits_; }

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
    const Result<const float*> bias = multiply(linear, x, y, rows);
    if (!bias.ok()) return bias.error();
    device::add_bias(y, *bias, rows, linear.out, stream_);
    return {};
  }
  /// The same; of many rows the bias is given back, for what follows to add it. Null: none is left.
  template <typename T, typename U>
  Result<const float*> multiply(const DeviceLinear& linear, const T* x, U* y, std::size_t rows) {
    const float* bias = linear.bias.as<float>();
    const T* weight = linear.weight.as<T>();
    if (rows <= device::matvec_rows<T>) {
      device::matvec(x, weight, bias, y, rows, linear.out, linear.in, stream_);
      return nullptr;
    }
    Result<void> done = products_->multiply(x, weight, y, rows, linear.out, linear.in, stream_);
    if (!done.ok()) return done.error();
    return bias;
  }
  /// `multiply` of the norm of hidden rows, to which `branch` is added first; `normed` [rows, in]
  /// is where the rows stand in between, if there are many or a branch is added.
  template <typename T, typename U>
  Result<const float*> multiply_normed(const DeviceLinear& linear, const device::Norm& norm,
                                       const device::Branch<T>& branch, T* normed, U* y,
                                       std::size_t rows) {
    if (branch.rows == nullptr && device::fits_normed<T>(rows, linear.in)) {
      device::matvec_normed(norm, linear.weight.as<T>(), linear.bias.as<float>(), y, rows,
                            linear.out, linear.in, stream_);
      return nullptr;
    }
    if (branch.rows != nullptr)
      device::add_and_norm(norm, branch, rows, linear.in, normed, stream_);
    else
      device::norm_rows(norm, rows, linear.in, normed, stream_);
    return multiply(linear, normed, y, rows);
  }
  template <typename T>
  void matvec_added(const DeviceLinear& linear, const T* x, const float* scale,
                    const device::Modulated& modulated, float* hidden, std::size_t rows) {
    device::matvec_added(x, linear.weight.as<T>(), linear.bias.as<float>(), scale, modulated,
                         hidden, rows, linear.out, linear.in, stream_);
  }

 private:
  DeviceWork(device::Stream stream, std::unique_ptr<device::Products> products)
      : stream_(stream), products_(std::move(products)) {}

  device::Stream stream_;
  std::unique_ptr<device::Products> products_;
  std::size_t waits_ = 0;
};

/// Work that is done once, then recorded, then launched as one; anew when something has moved.
class Recordings {
 public:
  /// What a recording depends on besides addresses of its owner's: how many of what, and whose
  /// pages (`DeviceKv::number`).
  using Key = std::array<std::size_t, 3>;
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
