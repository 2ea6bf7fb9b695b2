// What a call's inputs begin with, as numbers that can be compared.
//
// The inputs stand one behind the other, in the plan's order. Texts are cut into blocks of 256
// bytes; a tensor is one block, for the beginning of a picture is no use to anybody. Each number
// stands for its block and all before it, so inputs that begin alike have the same first numbers.
// They depend on `seed`, which callers do not know. Only whole blocks count, but for inputs that
// have none. Bounds: blocks_max numbers; of a tensor tensor_bytes_max bytes and its size are read.
// Cost: about a nanosecond for 2 bytes. Thread: any; no state. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/payload.h"

namespace sluice {

inline constexpr std::size_t beginning_block_bytes = 256;
inline constexpr std::size_t beginning_blocks_max = 4096;
inline constexpr std::size_t beginning_tensor_bytes_max = std::size_t{1} << 20U;

/// `inputs` by the plan's input index; null: not given.
std::vector<std::uint64_t> beginning_of(std::span<const PayloadRef> inputs, std::uint64_t seed);

}  // namespace sluice
