// Any bytes as a safetensors file: refused, or every tensor's bytes can be read.
#include <cstdint>

#include "engine/checkpoint/safetensors.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<SafetensorsFile> file =
      SafetensorsFile::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!file.ok()) {
    if (file.error().message.empty()) __builtin_trap();
    return 0;
  }
  std::uint64_t sum = 0;
  for (const auto& [name, view] : file->tensors()) {
    for (const std::byte byte : view.bytes) sum += static_cast<std::uint64_t>(byte);
    const Result<Tensor> tensor = file->load(name);
    if (tensor.ok() && static_cast<std::size_t>(tensor->count()) > size) __builtin_trap();
  }
  return sum == ~std::uint64_t{0} ? 1 : 0;
}
