#include "roles/device/device_block.h"

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

DeviceLinear Uploader::linear(const Linear& from) {
  DeviceLinear made;
  made.out = from.weight.out();
  made.in = from.weight.in();
  made.weight = narrow_ ? bytes(from.weight.bf16().data(), from.weight.bf16().size_bytes())
                        : floats(from.weight.f32());
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
  made.scale1 = floats(from.scale1);
  made.scale2 = floats(from.scale2);
  return made;
}

}  // namespace sluice
