// The table of matrices in memory that processes share: what is read was written, or is refused.
#include "engine/checkpoint/weight_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "base/little_endian.h"
#include "base/random.h"

using namespace sluice;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<std::byte>;

PartKey key_of(std::uint8_t first) {
  PartKey key{};
  key[0] = first;
  return key;
}

/// Memory with matrices of each kind, one behind the other.
struct Memory {
  PartKey key = key_of(7);
  WeightTable table;
  Bytes bytes;

  Memory() {
    std::size_t at = weight_header_bytes;
    for (const StoredAs as :
         {StoredAs::f32, StoredAs::bf16_and_f32, StoredAs::bf16, StoredAs::int8}) {
      const StoredMatrix matrix{as, 5, 7 + static_cast<std::size_t>(as), at};
      at = stored_places(matrix).end;
      table.emplace("matrix " + std::to_string(static_cast<int>(as)), matrix);
    }
    write(at);
  }
  void write(std::size_t table_offset) {
    const WeightTableBytes made = write_weight_table(table, key, table_offset);
    bytes.assign(table_offset, std::byte{});
    std::ranges::copy(made.header, bytes.begin());
    bytes.insert(bytes.end(), made.table.begin(), made.table.end());
  }
  Result<WeightTable> read() const { return read_weight_table(bytes, key); }
};

void put(Bytes& bytes, std::size_t at, std::uint64_t value, unsigned size) {
  Bytes number;
  append_little_endian(value, size, number);
  std::ranges::copy(number, bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

/// As one who means harm would write it.
void mend_checksum(Bytes& bytes) {
  if (const auto sum = weight_checksum(bytes)) put(bytes, weight_checksum_at, *sum, 8);
}

std::string refusal(const Memory& memory, const PartKey& key = key_of(7)) {
  const Result<WeightTable> read = read_weight_table(memory.bytes, key);
  return read.ok() ? "" : read.error().message;
}

bool lies_within(const StoredMatrix& matrix, const Bytes& bytes) {
  const std::size_t end = little_endian(std::span(bytes).subspan(16, 8));
  const StoredPlaces places = stored_places(matrix);
  return matrix.offset >= weight_header_bytes && matrix.offset % weight_alignment == 0 &&
         places.end >= matrix.offset && places.end <= end && end <= bytes.size();
}

}  // namespace

TEST_CASE("a table of shared matrices is read as it was written") {
  Memory memory;
  const WeightTable read = memory.read().value();
  REQUIRE(read.size() == memory.table.size());
  for (const auto& [name, matrix] : memory.table) {
    const StoredMatrix& same = read.at(name);
    CHECK(same.as == matrix.as);
    CHECK(same.out == matrix.out);
    CHECK(same.in == matrix.in);
    CHECK(same.offset == matrix.offset);
    CHECK(lies_within(same, memory.bytes));
  }
  memory.table.clear();
  memory.write(weight_header_bytes);
  CHECK(memory.read()->empty());
}

TEST_CASE("numbers of a shared matrix stand apart and are as many as it has") {
  const Memory memory;
  for (const auto& [name, matrix] : memory.table) {
    CAPTURE(name);
    const kernels::WeightNumbers numbers = stored_numbers(matrix, memory.bytes.data());
    const std::size_t count = matrix.out * matrix.in;
    const bool whole = matrix.as == StoredAs::int8;
    const bool wide = matrix.as == StoredAs::f32 || matrix.as == StoredAs::bf16_and_f32;
    CHECK(numbers.f32.size() == (wide ? count : 0));
    CHECK(numbers.bf16.size() == (whole || matrix.as == StoredAs::f32 ? 0 : count));
    CHECK(numbers.int8.size() == (whole ? count : 0));
    CHECK(numbers.scales.size() == (whole ? matrix.out : 0));
    CHECK(numbers.sums.size() == (whole ? matrix.out : 0));
    const StoredPlaces places = stored_places(matrix);
    CHECK(places.f32 - places.bf16 >= numbers.bf16.size_bytes());
    CHECK(places.int8 - places.f32 >= numbers.f32.size_bytes());
    CHECK(places.scales - places.int8 >= numbers.int8.size_bytes());
    CHECK(places.sums - places.scales >= numbers.scales.size_bytes());
    CHECK(places.end - places.sums >= numbers.sums.size_bytes());
  }
}

TEST_CASE("shared matrices of another part, version or length are refused") {
  Memory memory;
  const Bytes sound = memory.bytes;
  CHECK(read_weight_table(memory.bytes, key_of(8)).error().code == ErrorCode::stale);
  CHECK_THAT(refusal(memory, key_of(8)), Contains("another part's"));
  put(memory.bytes, 8, 2, 4);
  mend_checksum(memory.bytes);
  CHECK_THAT(refusal(memory), Contains("another version"));
  for (std::size_t size = 0; size < sound.size(); ++size) {
    memory.bytes.assign(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_THAT(refusal(memory), Contains("do not end with a table"));
  }
  memory.bytes = sound;
  memory.bytes.push_back({});
  CHECK_THAT(refusal(memory), Contains("do not end with a table"));
}

TEST_CASE("a changed byte of a header or table is noticed") {
  Memory memory;
  const Bytes sound = memory.bytes;
  const std::size_t table = little_endian(std::span(sound).subspan(16, 8));
  const auto changed = [&](std::size_t at) {
    memory.bytes = sound;
    memory.bytes[at] ^= std::byte{0x10};
    return refusal(memory);
  };
  for (std::size_t at = 0; at < weight_checksum_at + 8; ++at) CHECK(changed(at) != "");
  for (std::size_t at = table; at < sound.size(); ++at) CHECK(changed(at) != "");
}

TEST_CASE("a table that means harm is refused, or all of its matrices lie where they may") {
  Memory memory;
  const Bytes sound = memory.bytes;
  const std::size_t table = little_endian(std::span(sound).subspan(16, 8));
  const std::size_t first = table + 2 + std::string("matrix 0").size();  // behind its name
  const auto with = [&](std::size_t at, std::uint64_t value, unsigned size) {
    memory.bytes = sound;
    put(memory.bytes, at, value, size);
    mend_checksum(memory.bytes);
    return refusal(memory);
  };
  CHECK_THAT(with(12, 5, 4), Contains("ends within an entry"));
  CHECK_THAT(with(12, 3, 4), Contains("bytes behind"));
  CHECK_THAT(with(table, 0, 2), Contains("name of 0 bytes"));
  CHECK_THAT(with(table, 60'000, 2), Contains("name of 60000 bytes"));
  CHECK_THAT(with(first, 4, 1), Contains("kept in way 4"));
  CHECK_THAT(with(first + 1, std::uint64_t{1} << 45U, 8), Contains("a matrix of"));
  CHECK_THAT(with(first + 1, std::uint64_t{1} << 42U, 8), Contains("a matrix of"));  // times 7
  CHECK_THAT(with(first + 1, 1'000, 8), Contains("not between header and table"));
  CHECK_THAT(with(first + 17, 64, 8), Contains("not between header and table"));
  CHECK_THAT(with(first + 17, weight_header_bytes + 4, 8), Contains("not between"));
  CHECK_THAT(with(first + 17, ~std::uint64_t{63}, 8), Contains("not between header and table"));
  CHECK_THAT(with(table + 2 + 7, '1', 1), Contains("two matrices have one name"));

  SplitMix64 random(1);
  std::size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    memory.bytes = sound;
    for (std::uint64_t n = 1 + random.next() % 3; n > 0; --n) {
      const bool header = random.next() % 4 == 0;
      const std::size_t at =
          header ? random.next() % 64 : table + random.next() % (sound.size() - table);
      memory.bytes[at] = static_cast<std::byte>(random.next());
    }
    mend_checksum(memory.bytes);
    const Result<WeightTable> read = memory.read();
    if (!read.ok()) continue;
    ++taken;
    for (const auto& [name, matrix] : *read) REQUIRE(lies_within(matrix, memory.bytes));
  }
  CHECK(taken > 100);
}
