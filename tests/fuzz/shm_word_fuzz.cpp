// What comes over the socket of shared memory: no bytes crash it, and what is read is written so.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/shm/word.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const sluice::Result<sluice::shm::Word> word = sluice::shm::read_word(bytes);
  if (!word.ok()) return 0;
  const sluice::wire::Bytes again = sluice::shm::write_word(*word);
  if (!std::ranges::equal(again, bytes)) __builtin_trap();
  return 0;
}
