#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "base/tensor.h"
#include "kernels/attention.h"
#include "kernels/layout.h"
#include "tests/kernels/paths.h"

namespace sluice::kernels {
namespace {

std::vector<float> random_floats(std::size_t count, SplitMix64& random) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

std::vector<std::uint16_t> narrowed(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float v : values) bits.push_back(bf16_from_f32(v));
  return bits;
}

double relative_error(std::span<const float> got, std::span<const float> want) {
  double off = 0, size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    off += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(off / size);
}

/// Sequences whose pages hold the same numbers in bf16 and in f32.
struct Stored {
  std::vector<std::vector<std::uint16_t>> narrow;
  std::vector<std::vector<float>> wide;
  std::vector<std::vector<const std::uint16_t*>> narrow_pages;
  std::vector<std::vector<const float*>> wide_pages;
  std::vector<NarrowSequence> in_bf16;
  std::vector<PagedSequence> in_f32;

  Stored(std::size_t sequences, std::size_t pages, std::size_t page_values, std::size_t offset,
         SplitMix64& random) {
    narrow_pages.resize(2 * sequences);
    wide_pages.resize(2 * sequences);
    for (std::size_t s = 0; s < 2 * sequences; ++s)
      for (std::size_t p = 0; p < pages; ++p) {
        narrow.push_back(narrowed(random_floats(offset + page_values, random)));
        narrow_pages[s].push_back(narrow.back().data());
        wide.emplace_back();
        for (const std::uint16_t bits : narrow.back()) wide.back().push_back(f32_from_bf16(bits));
        wide_pages[s].push_back(wide.back().data());
      }
    for (std::size_t s = 0; s < sequences; ++s) {
      in_bf16.push_back({narrow_pages[2 * s], narrow_pages[2 * s + 1], offset});
      in_f32.push_back({wide_pages[2 * s], wide_pages[2 * s + 1], offset});
    }
  }
};

TEST_CASE("attention over bf16 is attention over what its keys and values are in f32") {
  SplitMix64 random(11);
  for (const auto& [heads, kv_heads, dim, page, rows] :
       std::vector<std::array<std::size_t, 5>>{{1, 1, 8, 4, 3},
                                               {8, 2, 32, 16, 7},
                                               {4, 4, 20, 3, 2},
                                               {6, 1, 33, 5, 1},
                                               {9, 3, 64, 16, 60},
                                               {4, 2, 17, 7, 25}}) {
    const Stored stored(3, 9, page * kv_heads * dim, kv_heads * dim, random);
    std::vector<std::uint32_t> of_row, limit;
    for (std::size_t s = 0; s < 3; ++s)
      for (std::size_t row = 0; row < rows; ++row) {
        of_row.push_back(static_cast<std::uint32_t>(s));
        limit.push_back(static_cast<std::uint32_t>(random.next() % (9 * page) + 1));
      }
    for (const bool narrow : {false, true}) {
      const AttentionShape shape{heads, kv_heads, dim, page, narrow};
      const std::vector<float> q = random_floats(of_row.size() * heads * dim, random);
      std::vector<float> want(q.size()), got(q.size());
      attention_ref(shape, q, of_row, limit, stored.in_f32, want);
      attention_ref(shape, q, of_row, limit, stored.in_bf16, got);
      CHECK(got == want);
      for (const Isa path : paths()) {
        const AtMost at_most(path);
        INFO("with nothing better than " << name_of(path) << ", " << rows << " rows of " << dim);
        attention_cpu(shape, q, of_row, limit, stored.in_bf16, got);
        CHECK(relative_error(got, want) < (narrow && uses(Isa::amx) ? 6e-3 : 2e-6));
      }
      // One token more in sight is seen.
      limit[0] = limit[0] == 1 ? 2 : limit[0] - 1;
      attention_cpu(shape, q, of_row, limit, stored.in_bf16, got);
      CHECK(relative_error(got, want) > 1e-4);
      limit[0] = limit[0] == 2 ? 1 : limit[0] + 1;
    }
  }
}

TEST_CASE("rows are rounded to bf16 to nearest even, each to its place, and read back widened") {
  SLUICE_EACH_PATH;
  SplitMix64 random(5);
  const std::size_t width = 37, count = 6;
  std::vector<float> rows = random_floats(count * width, random);
  const auto bits = [](std::uint32_t pattern) { return std::bit_cast<float>(pattern); };
  const float infinity = std::numeric_limits<float>::infinity();
  // Halves go to the even neighbour; a little more or less does not; the greatest becomes infinite.
  const float edges[] = {bits(0x3f808000),
                         bits(0x3f818000),
                         bits(0x3f808001),
                         bits(0x3f817fff),
                         bits(0xbf808000),
                         bits(0x7f7fffff),
                         infinity,
                         -infinity,
                         0.0F,
                         -0.0F,
                         bits(1),
                         bits(0x7f800001),
                         std::nanf("")};
  std::copy(std::begin(edges), std::end(edges), rows.begin());
  std::vector<std::uint16_t> store(count * width + 1, 7);
  std::vector<std::uint16_t*> places;
  for (std::size_t row = 0; row < count; ++row) places.push_back(&store[(count - 1 - row) * width]);
  narrow_rows_cpu(rows, width, places);
  for (std::size_t row = 0; row < count; ++row)
    for (std::size_t i = 0; i < width; ++i)
      REQUIRE(places[row][i] == bf16_from_f32(rows[row * width + i]));
  CHECK(store.back() == 7);
  CHECK(store[(count - 1) * width] == 0x3f80);
  CHECK(store[(count - 1) * width + 1] == 0x3f82);

  const std::vector<const std::uint16_t*> pages{store.data() + 2 * width, store.data()};
  std::vector<float> back(3 * width);
  pages_to_rows_cpu(pages, 2, width, back);
  for (std::size_t i = 0; i < 2 * width; ++i)
    REQUIRE(back[i] == f32_from_bf16(store[2 * width + i]));
  for (std::size_t i = 0; i < width; ++i) REQUIRE(back[2 * width + i] == f32_from_bf16(store[i]));
}

}  // namespace
}  // namespace sluice::kernels
