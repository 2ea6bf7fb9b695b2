// Any bytes as a .npy file: refused, or a tensor no larger than the file, which written and read
// again is the same.
#include <algorithm>
#include <cstdint>

#include "roles/npy_file.h"

using namespace sluice;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<Tensor> tensor = decode_npy({reinterpret_cast<const char*>(data), size});
  if (!tensor.ok()) {
    if (tensor.error().message.empty()) __builtin_trap();
    return 0;
  }
  if (tensor->bytes_size() > size) __builtin_trap();
  const Result<Tensor> again = decode_npy(encode_npy(*tensor));
  if (!again.ok() || again->dtype() != tensor->dtype() || again->shape() != tensor->shape() ||
      !std::ranges::equal(again->bytes(), tensor->bytes()))
    __builtin_trap();
  return 0;
}
