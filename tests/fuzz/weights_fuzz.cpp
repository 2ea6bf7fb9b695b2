// Any bytes as memory with matrices of a part that another process made, and as packets about such
// parts: what is taken lies within the memory, and a packet that is taken is written so.
//
// The first byte says what the others are: memory, a packet. The memory's checksum is mended, as
// one who means harm would.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/little_endian.h"
#include "engine/checkpoint/part_packets.h"
#include "engine/checkpoint/weight_table.h"

using namespace sluice;

namespace {

void require(bool what) {
  if (!what) __builtin_trap();
}

/// Reads the first and the last of them, which is a fault where they lie elsewhere.
template <typename T>
void touch(std::span<const T> numbers) {
  if (numbers.empty()) return;
  volatile T read = numbers.front();
  read = numbers.back();
  (void)read;
}

void check_memory(std::vector<std::byte> memory) {
  if (const auto sum = weight_checksum(memory)) {
    std::vector<std::byte> bytes;
    append_little_endian(*sum, 8, bytes);
    std::ranges::copy(bytes, memory.begin() + weight_checksum_at);
  }
  PartKey key{};
  if (memory.size() >= weight_header_bytes) std::memcpy(key.data(), memory.data() + 32, key.size());
  const Result<WeightTable> table = read_weight_table(memory, key);
  if (!table.ok()) return require(!table.error().message.empty());
  for (const auto& [name, matrix] : *table) {
    require(stored_places(matrix).end <= memory.size());
    const kernels::WeightNumbers numbers = stored_numbers(matrix, memory.data());
    touch(numbers.bf16);
    touch(numbers.f32);
    touch(numbers.int8);
    touch(numbers.scales);
    touch(numbers.sums);
  }
}

void check_packet(std::span<const std::byte> bytes) {
  const Result<PartPacket> packet = decode_part_packet(bytes);
  if (packet.ok()) require(std::ranges::equal(encode(*packet), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] % 2 == 0)
    check_memory({bytes.begin(), bytes.end()});
  else
    check_packet(bytes);
  return 0;
}
