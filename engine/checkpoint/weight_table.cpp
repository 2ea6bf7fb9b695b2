#include "engine/checkpoint/weight_table.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/little_endian.h"

namespace sluice {

namespace {

constexpr std::uint64_t magic = 0x5354484749455753;  // "SWEIGHTS"
constexpr std::uint32_t version = 1;
constexpr std::size_t values_max = std::size_t{1} << 44;
constexpr std::size_t entry_least = 2 + 1 + 3 * 8;

std::size_t aligned(std::size_t bytes) {
  return (bytes + weight_alignment - 1) / weight_alignment * weight_alignment;
}

bool is_bounded(std::size_t out, std::size_t in) {
  return out <= values_max && in <= values_max && (in == 0 || out <= values_max / in);
}

std::uint64_t checksum_of(std::span<const std::byte> header, std::span<const std::byte> table) {
  return std::uint64_t{crc32c(table)} << 32U | crc32c(header);
}

Error wrong(const std::string& what) { return {ErrorCode::corrupt, "shared weights: " + what}; }

/// Of bytes that stand there, one after the other.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::size_t left() const { return bytes_.size(); }
  /// Requires: so many are left.
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::uint64_t number(std::size_t bytes) { return little_endian(take(bytes)); }

 private:
  std::span<const std::byte> bytes_;
};

/// Where the table stands. None: not in this memory.
std::optional<std::span<const std::byte>> table_of(std::span<const std::byte> memory) {
  if (memory.size() < weight_header_bytes) return {};
  const std::uint64_t offset = little_endian(memory.subspan(16, 8));
  const std::uint64_t size = little_endian(memory.subspan(24, 8));
  if (offset < weight_header_bytes || offset > memory.size() || size != memory.size() - offset)
    return {};
  return memory.subspan(offset);
}

Result<void> read_entry(Reader& reader, std::size_t numbers_end, WeightTable& to) {
  if (reader.left() < entry_least) return wrong("the table ends within an entry");
  const std::size_t length = reader.number(2);
  if (length == 0 || length > matrix_name_max || reader.left() < length + entry_least - 2)
    return wrong("a matrix' name of " + std::to_string(length) + " bytes");
  const auto letters = reader.take(length);
  const std::string name(reinterpret_cast<const char*>(letters.data()), length);
  const std::uint64_t as = reader.number(1);
  StoredMatrix matrix;
  matrix.out = reader.number(8);
  matrix.in = reader.number(8);
  matrix.offset = reader.number(8);
  if (as > static_cast<std::uint64_t>(StoredAs::int8))
    return wrong("a matrix is kept in way " + std::to_string(as));
  matrix.as = static_cast<StoredAs>(as);
  if (!is_bounded(matrix.out, matrix.in))
    return wrong("a matrix of " + std::to_string(matrix.out) + " rows of " +
                 std::to_string(matrix.in));
  if (matrix.offset % weight_alignment != 0 || matrix.offset < weight_header_bytes ||
      matrix.offset > numbers_end || stored_places(matrix).end > numbers_end)
    return wrong("a matrix' numbers from byte " + std::to_string(matrix.offset) +
                 " on are not between header and table");
  if (!to.emplace(name, matrix).second) return wrong("two matrices have one name");
  return {};
}

}  // namespace

kernels::WeightFormat format_of(StoredAs as) {
  return as == StoredAs::bf16   ? kernels::WeightFormat::bf16
         : as == StoredAs::int8 ? kernels::WeightFormat::int8
                                : kernels::WeightFormat::exact;
}

std::optional<StoredAs> stored_as(const kernels::Weight& weight) {
  if (!weight.blocks().empty() || !is_bounded(weight.out(), weight.in())) return {};
  if (weight.format() == kernels::WeightFormat::bf16) return StoredAs::bf16;
  if (weight.format() == kernels::WeightFormat::int8) return StoredAs::int8;
  return weight.bf16().empty() ? StoredAs::f32 : StoredAs::bf16_and_f32;
}

StoredPlaces stored_places(const StoredMatrix& m) {
  const std::size_t count = m.out * m.in;
  const bool narrow = m.as == StoredAs::bf16 || m.as == StoredAs::bf16_and_f32;
  const bool wide = m.as == StoredAs::f32 || m.as == StoredAs::bf16_and_f32;
  const bool whole = m.as == StoredAs::int8;
  StoredPlaces places;
  places.bf16 = m.offset;
  places.f32 = places.bf16 + aligned(narrow ? count * 2 : 0);
  places.int8 = places.f32 + aligned(wide ? count * 4 : 0);
  places.scales = places.int8 + aligned(whole ? count : 0);
  places.sums = places.scales + aligned(whole ? m.out * 4 : 0);
  places.end = places.sums + aligned(whole ? m.out * 4 : 0);
  return places;
}

kernels::WeightNumbers stored_numbers(const StoredMatrix& matrix, const std::byte* memory) {
  const StoredPlaces places = stored_places(matrix);
  const std::size_t count = matrix.out * matrix.in;
  kernels::WeightNumbers numbers;
  if (matrix.as == StoredAs::bf16 || matrix.as == StoredAs::bf16_and_f32)
    numbers.bf16 = {reinterpret_cast<const std::uint16_t*>(memory + places.bf16), count};
  if (matrix.as == StoredAs::f32 || matrix.as == StoredAs::bf16_and_f32)
    numbers.f32 = {reinterpret_cast<const float*>(memory + places.f32), count};
  if (matrix.as == StoredAs::int8) {
    numbers.int8 = {reinterpret_cast<const std::int8_t*>(memory + places.int8), count};
    numbers.scales = {reinterpret_cast<const float*>(memory + places.scales), matrix.out};
    numbers.sums = {reinterpret_cast<const std::int32_t*>(memory + places.sums), matrix.out};
  }
  return numbers;
}

WeightTableBytes write_weight_table(const WeightTable& table, const PartKey& key,
                                    std::size_t table_offset) {
  WeightTableBytes made;
  for (const auto& [name, matrix] : table) {
    append_little_endian(name.size(), 2, made.table);
    for (const char letter : name) made.table.push_back(static_cast<std::byte>(letter));
    append_little_endian(static_cast<std::uint64_t>(matrix.as), 1, made.table);
    for (const std::size_t number : {matrix.out, matrix.in, matrix.offset})
      append_little_endian(number, 8, made.table);
  }
  append_little_endian(magic, 8, made.header);
  append_little_endian(version, 4, made.header);
  append_little_endian(table.size(), 4, made.header);
  append_little_endian(table_offset, 8, made.header);
  append_little_endian(made.table.size(), 8, made.header);
  for (const std::uint8_t byte : key) made.header.push_back(static_cast<std::byte>(byte));
  append_little_endian(checksum_of(made.header, made.table), 8, made.header);
  made.header.resize(weight_header_bytes);
  return made;
}

std::optional<std::uint64_t> weight_checksum(std::span<const std::byte> memory) {
  const auto table = table_of(memory);
  if (!table.has_value()) return {};
  return checksum_of(memory.first(weight_checksum_at), *table);
}

Result<WeightTable> read_weight_table(std::span<const std::byte> memory, const PartKey& key) {
  const auto table = table_of(memory);
  if (!table.has_value()) return wrong("they do not end with a table");
  if (little_endian(memory.first(8)) != magic || little_endian(memory.subspan(8, 4)) != version)
    return wrong("they are of another version of this program");
  if (little_endian(memory.subspan(weight_checksum_at, 8)) != weight_checksum(memory))
    return wrong("their table has another checksum than it should");
  const auto same = [](std::byte a, std::uint8_t b) {
    return std::to_integer<std::uint8_t>(a) == b;
  };
  if (!std::ranges::equal(memory.subspan(32, key.size()), key, same))
    return Error{ErrorCode::stale, "shared weights: they are another part's"};
  const std::size_t count = little_endian(memory.subspan(12, 4));
  Reader reader(*table);
  WeightTable read;
  for (std::size_t i = 0; i < count; ++i)
    if (Result<void> one = read_entry(reader, memory.size() - table->size(), read); !one.ok())
      return one.error();
  if (reader.left() != 0) return wrong("bytes behind the last matrix");
  return read;
}

}  // namespace sluice
