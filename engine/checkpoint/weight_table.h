// What memory that processes share holds of a part's matrices: a header, numbers, and a table of
// the matrices' names behind them.
//
// One process writes it, others read it, and check all of the table before they use any of it;
// places are offsets, and numbers are only ever multiplied, so what they are harms no memory.
// Shape: [header][numbers of each matrix][table], numbers at multiples of 64 bytes; little-endian.
// Errors: corrupt (what is wrong), stale (another part's). Thread: any; no state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/matmul.h"

namespace sluice {

/// Which part of which files, how it is kept, and by which program: equal keys, equal bytes.
using PartKey = std::array<std::uint8_t, 32>;

/// Which numbers of a matrix are there, and with them its format.
enum class StoredAs : std::uint8_t { f32, bf16_and_f32, bf16, int8 };

struct StoredMatrix {
  StoredAs as = StoredAs::f32;
  std::size_t out = 0, in = 0;
  std::size_t offset = 0;  // of its numbers in the memory
};
using WeightTable = std::map<std::string, StoredMatrix, std::less<>>;

inline constexpr std::size_t weight_header_bytes = 128;
inline constexpr std::size_t weight_alignment = 64;
inline constexpr std::size_t matrix_name_max = 4096;

kernels::WeightFormat format_of(StoredAs as);
/// None: it is multiplied where its file lies, or too large for a table.
std::optional<StoredAs> stored_as(const kernels::Weight& weight);
/// Where its numbers stand, in bytes from the memory's beginning, and the first byte behind them.
struct StoredPlaces {
  std::size_t bf16 = 0, f32 = 0, int8 = 0, scales = 0, sums = 0, end = 0;
};
/// Requires: sizes as `read_weight_table` gives them, or of a matrix that is there.
StoredPlaces stored_places(const StoredMatrix& matrix);
/// `memory`: its beginning.
kernels::WeightNumbers stored_numbers(const StoredMatrix& matrix, const std::byte* memory);

struct WeightTableBytes {
  std::vector<std::byte> header;  // at the beginning
  std::vector<std::byte> table;   // at `table_offset`, the memory's end behind it
};
WeightTableBytes write_weight_table(const WeightTable& table, const PartKey& key,
                                    std::size_t table_offset);
/// Each matrix lies between header and table.
Result<WeightTable> read_weight_table(std::span<const std::byte> memory, const PartKey& key);
/// What the header must say of itself and the table. None: there is no table.
std::optional<std::uint64_t> weight_checksum(std::span<const std::byte> memory);
/// Where in the header that stands, in 8 bytes.
inline constexpr std::size_t weight_checksum_at = 64;

}  // namespace sluice
