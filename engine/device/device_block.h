// Weights on the device: of a linear layer, a norm, a transformer layer. For engine/device only.
#pragma once

#include <vector>

#include "engine/layers/block.h"
#include "kernels/cuda/device.h"

namespace sluice {

struct DeviceLinear {
  device::Memory weight, bias;  // no bias: empty
  std::size_t out = 0, in = 0;
};

struct DeviceNorm {
  device::Memory weight, bias;
};

struct DeviceBlock {
  DeviceNorm norm1, norm2;
  DeviceLinear qkv, out, up, down;
  DeviceLinear cross_k, cross_v;  // of a layer that attends to others' keys and values
  device::Memory scale1, scale2;

  bool is_cross() const { return cross_k.out != 0; }
};

/// Copies to the device and waits. The first failure is kept.
class Uploader {
 public:
  Uploader(device::Stream stream, bool narrow) : stream_(stream), narrow_(narrow) {}

  device::Memory floats(std::span<const float> values);
  /// As matrices are kept here: f32, or rounded to bf16.
  device::Memory matrix(std::span<const float> values);
  DeviceLinear linear(const Linear& from);
  DeviceNorm norm(const Norm& from) { return {floats(from.weight), floats(from.bias)}; }
  DeviceBlock block(const Block& from);
  /// What is loaded does not fit the device's kernels.
  void refuse(const Error& why) {
    if (outcome_.ok()) outcome_ = why;
  }
  Result<void> outcome() const { return outcome_; }

 private:
  device::Memory bytes(const void* from, std::size_t count);

  device::Stream stream_;
  bool narrow_;
  Result<void> outcome_;
};

}  // namespace sluice
