#include "graph/beginning.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace sluice {

namespace {

std::uint64_t mixed(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * 0x9e3779b97f4a7c15ULL;
  return state ^ (state >> 32U);
}

std::uint64_t mixed(std::uint64_t state, const char* bytes, std::size_t size) {
  for (; size >= sizeof(std::uint64_t); bytes += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes, sizeof word);
    state = mixed(state, word);
    size -= sizeof word;
  }
  std::uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, bytes, size);
  return mixed(mixed(state, rest), size);
}

std::uint64_t mixed(std::uint64_t state, const Tensor& tensor) {
  state = mixed(state, static_cast<std::uint64_t>(tensor.dtype()));
  for (const std::int64_t size : tensor.shape()) state = mixed(state, std::uint64_t(size));
  return mixed(state, reinterpret_cast<const char*>(tensor.bytes().data()),
               std::min(tensor.bytes_size(), beginning_tensor_bytes_max));
}

}  // namespace

std::vector<std::uint64_t> beginning_of(std::span<const PayloadRef> inputs, std::uint64_t seed) {
  std::vector<std::uint64_t> numbers;
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < inputs.size() && numbers.size() < beginning_blocks_max; ++i) {
    if (!inputs[i]) continue;
    const Payload& input = *inputs[i];
    state = mixed(mixed(state, i + 1), static_cast<std::uint64_t>(input.type));
    if (input.type == ValueType::number) state = mixed(state, std::uint64_t(input.number));
    if (!input.tensor.empty()) numbers.push_back(state = mixed(state, input.tensor));
    std::string_view text = input.text;
    while (text.size() >= beginning_block_bytes && numbers.size() < beginning_blocks_max) {
      numbers.push_back(state = mixed(state, text.data(), beginning_block_bytes));
      text.remove_prefix(beginning_block_bytes);
    }
    state = mixed(state, text.data(), std::min(text.size(), beginning_block_bytes));
  }
  if (numbers.empty()) numbers.push_back(state);
  return numbers;
}

}  // namespace sluice
