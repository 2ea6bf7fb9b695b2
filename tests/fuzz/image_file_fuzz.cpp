// Any bytes are a picture or an error; never a crash, a leak, or memory beyond the limits.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/picture/image_file.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

namespace {

/// Without the fuzzer's instruments, which would take most of an execution's time.
#if defined(__clang__)
#define PLAIN __attribute__((no_sanitize("coverage", "address", "undefined")))
#else
#define PLAIN
#endif

PLAIN std::uint32_t crc32(const std::uint8_t* bytes, std::size_t size) {
  static const std::vector<std::uint32_t> table = [] {
    std::vector<std::uint32_t> made;
    for (std::uint32_t n = 0; n < 256; ++n) {
      std::uint32_t c = n;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1U) != 0 ? c >> 1 ^ 0xedb88320U : c >> 1;
      made.push_back(c);
    }
    return made;
  }();
  const std::uint32_t* entry = table.data();
  std::uint32_t crc = 0xffffffffU;
  for (std::size_t i = 0; i < size; ++i) crc = entry[(crc ^ bytes[i]) & 0xffU] ^ crc >> 8;
  return ~crc;
}

/// Makes the checksums of a PNG's chunks fit, so that mutants reach the decoder behind them.
void repair_png(std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 8; size >= 12 && at <= size - 12;) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length = length << 8 | data[at + i];
    if (length > size - at - 12) return;
    const std::uint32_t crc = crc32(data + at + 4, length + 4);
    for (std::size_t i = 0; i < 4; ++i)
      data[at + 8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    at += length + 12;
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, size_max);
  if (size > 8 && data[0] == 0x89 && seed % 8 != 0) repair_png(data, size);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = sluice::decode_image({reinterpret_cast<const char*>(data), size});
  if (image.ok() && image->count() != image->dim(0) * image->dim(1) * 3) __builtin_trap();
  return 0;
}
