#include "engine/device/device_block.h"

namespace sluice {

device::Memory Uploader::bytes(const void* from, std::size_t count) {
  if (count == 0 || !outcome_.ok()) return {};
  Result<device::Memory> made = device::Memory::allocate(count);
  if (!made.ok()) {
    outcome_ = made.error();
    return {};
  }
  device::copy_in(made->as<void>(), from, count, stream_);
  outcome_ = device::synchronise(stream_);
  return std::move(made).value();
}

device::Memory Uploader::floats(std::span<const float> values) {
  return bytes(values.data(), values.size_bytes());
}

device::Memory Uploader::matrix(std::span<const float> values) {
  if (!narrow_) return floats(values);
  std::vector<device::Bf16> narrowed;
  for (const float value : values) narrowed.push_back(device::narrow(value));
  return bytes(narrowed.data(), narrowed.size() * sizeof(device::Bf16));
}

DeviceLinear Uploader::linear(const Linear& from) {
  DeviceLinear made;
  made.out = from.weight.out();
  made.in = from.weight.in();
  const std::size_t values = made.out * made.in;
  if (narrow_ && from.weight.bf16().size() == values) {
    made.weight = bytes(from.weight.bf16().data(), from.weight.bf16().size_bytes());
  } else if (!narrow_ && from.weight.f32().size() == values) {
    made.weight = floats(from.weight.f32());
  } else {  // kept otherwise than the device wants it: an exact checkpoint in bf16
    std::vector<float> rows(values);
    for (std::size_t row = 0; row < made.out; ++row)
      from.weight.read_row(row, std::span(rows).subspan(row * made.in, made.in));
    made.weight = matrix(rows);
  }
  made.bias = floats(from.bias);
  return made;
}

DeviceBlock Uploader::block(const Block& from) {
  DeviceBlock made;
  made.norm1 = norm(from.norm1);
  made.norm2 = norm(from.norm2);
  made.qkv = linear(from.qkv);
  made.out = linear(from.out);
  made.up = linear(from.up);
  made.down = linear(from.down);
  made.cross_k = linear(from.cross_k);
  made.cross_v = linear(from.cross_v);
  made.scale1 = floats(from.scale1);
  made.scale2 = floats(from.scale2);
  return made;
}

}  // namespace sluice
