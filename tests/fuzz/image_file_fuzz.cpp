// Any bytes are a picture or an error; never a crash, a leak, or memory beyond the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "roles/image_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = sluice::decode_image({reinterpret_cast<const char*>(data), size});
  if (image.ok() && image->count() != image->dim(0) * image->dim(1) * 3) __builtin_trap();
  return 0;
}
