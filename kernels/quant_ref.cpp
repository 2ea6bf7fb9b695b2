// The plain path, and what the others share.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/isa.h"
#include "kernels/quant_plain.h"

namespace sluice::kernels {

namespace {

constexpr BlockLayout layouts[] = {
    {"F32", 0, 1, 4},       {"F16", 1, 1, 2},       {"BF16", 30, 1, 2},     {"Q8_0", 8, 32, 34},
    {"Q4_0", 2, 32, 18},    {"Q4_1", 3, 32, 20},    {"Q5_0", 6, 32, 22},    {"Q5_1", 7, 32, 24},
    {"Q4_K", 12, 256, 144}, {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210},
};

float plain_value(BlockType type, const std::uint8_t* at) {
  if (type == BlockType::f16) return half_at(at);
  if (type == BlockType::bf16) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return f32_from_bf16(bits);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <BlockType T>
void scales_plain(const std::uint8_t* block, BlockScales& to) {
  scales_of<T>(block, half_at(block + first_half<T>()), has_minimum<T>() ? half_at(block + 2) : 0,
               to);
}

template <BlockType T>
void read_plain(const std::uint8_t* row, std::span<float> to) {
  BlockScales scales;
  std::int8_t whole[group_values];
  for (std::size_t at = 0; at < to.size(); row += bytes_of<T>()) {
    scales_plain<T>(row, scales);
    for (std::size_t g = 0; g < values_of<T>() / group_values; ++g, at += group_values) {
      wholes_of<T>(row, g, whole);
      const GroupScales& s = scales.group[g];
      for (std::size_t i = 0; i < group_values; ++i)
        to[at + i] = (i < 16 ? s.low : s.high) * static_cast<float>(whole[i]) + s.minimum;
    }
  }
}

template <BlockType T>
float dot_plain(const WholeRows& x, std::size_t r, const std::uint8_t* row, std::size_t in) {
  const std::int16_t* whole = x.whole.data() + r * in;
  std::size_t group = r * (in / group_values);
  BlockScales scales;
  std::int8_t w[group_values];
  float sum = 0;
  for (std::size_t at = 0; at < in; row += bytes_of<T>()) {
    scales_plain<T>(row, scales);
    for (std::size_t g = 0; g < values_of<T>() / group_values; ++g, at += group_values, ++group) {
      wholes_of<T>(row, g, w);
      std::int32_t low = 0;
      std::int32_t high = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        low += whole[at + i] * w[i];
        high += whole[at + 16 + i] * w[16 + i];
      }
      const GroupScales& s = scales.group[g];
      sum +=
          x.scales[group] * (s.low * static_cast<float>(low) + s.high * static_cast<float>(high)) +
          s.minimum * x.sums[group];
    }
  }
  return sum;
}

void products_plain(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end) {
  const std::size_t bytes = layout_of(w.type).bytes;
  for (std::size_t o = begin; o < end; ++o) {
    const std::uint8_t* row = w.row(o);
    for (std::size_t r = 0; r < f.rows; ++r) {
      float sum = 0;
      if (layout_of(w.type).values == 1)
        for (std::size_t i = 0; i < w.in; ++i)
          sum += f.x[r * w.in + i] * plain_value(w.type, row + i * bytes);
      with_quantised(w.type, [&]<BlockType T>() { sum = dot_plain<T>(*f.whole, r, row, w.in); });
      f.y[r * f.stride + o] = sum;
    }
  }
}

SLUICE_LOOP void whole_groups(const float* x, std::size_t groups, std::int16_t* to, float* scales,
                              float* sums) {
  constexpr float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  constexpr float whole_most = 32639;   // 127 * 256 + 127: what two bytes with a sign can say
  constexpr std::uint32_t size = 0x7fffffff, infinite = 0x7f800000;
  for (std::size_t g = 0; g < groups; ++g, x += group_values, to += group_values) {
    std::uint32_t bits = 0;  // of the largest: sizes are in the order of their bits
    for (std::size_t i = 0; i < group_values; ++i)
      bits = std::max(bits, std::bit_cast<std::uint32_t>(x[i]) & size);
    const auto most = std::bit_cast<float>(bits);
    // Below this, as good as zero, a scale has no inverse.
    const bool usual = most >= 1e-30F && bits < infinite;
    const float inverse = usual ? whole_most / most : 0;
    std::int32_t sum = 0;
    for (std::size_t i = 0; i < group_values; ++i) {
      // No number becomes zero; the scale tells.
      const float whole = usual ? x[i] * inverse + magic : magic;
      const std::int32_t value =
          std::bit_cast<std::int32_t>(whole) - std::bit_cast<std::int32_t>(magic);
      to[i] = static_cast<std::int16_t>(value);
      sum += value;
    }
    scales[g] = usual ? most / whole_most : bits < infinite ? 0 : NAN;
    sums[g] = scales[g] * static_cast<float>(sum);
  }
}

}  // namespace

std::span<const BlockLayout> block_layouts() { return layouts; }
const BlockLayout& layout_of(BlockType type) { return layouts[static_cast<std::size_t>(type)]; }
std::optional<BlockType> block_type_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(layouts); ++i)
    if (layouts[i].name == name) return static_cast<BlockType>(i);
  return std::nullopt;
}

const std::uint8_t* BlockRows::row(std::size_t r) const {
  if (interleaved != 0) {
    const std::size_t in_head = r % interleaved;
    const std::size_t half = interleaved / 2;
    r = r - in_head + in_head % half * 2 + in_head / half;
  }
  return bytes + r * row_bytes();
}

void read_blocks(BlockType type, const std::uint8_t* row, std::span<float> to) {
  SLUICE_CHECK(to.size() % layout_of(type).values == 0, "whole blocks");
  if (layout_of(type).values == 1) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = plain_value(type, row + i * layout_of(type).bytes);
    return;
  }
  if (uses(Isa::avx2)) return read_blocks_avx2(type, row, to);
  with_quantised(type, [&]<BlockType T>() { read_plain<T>(row, to); });
}

void WholeRows::assign(std::span<const float> x, std::size_t in) {
  SLUICE_CHECK(in % group_values == 0, "whole groups");
  whole.resize(x.size());
  scales.resize(x.size() / group_values);
  sums.resize(scales.size());
  wide<whole_groups>(x.data(), scales.size(), whole.data(), scales.data(), sums.data());
  fours.resize(x.size() == in && uses(Isa::vnni) ? (scales.size() + 3) / 4 : 0);
  eights.resize(x.size() % 256 == 0 && !fours.empty() ? x.size() / 256 : 0);
  if (!fours.empty()) split_groups(*this);
}

void block_products(const FewBlockRows& f, const BlockRows& w, std::size_t begin, std::size_t end) {
  SLUICE_CHECK(f.rows <= block_rows_few, "few rows only");
  const std::size_t values = layout_of(w.type).values;
  if (f.rows == 1 && values != 1 && row_has_vnni())
    return values == 32 ? row_products_vnni(f, w, begin, end)
                        : row_products_large_vnni(f, w, begin, end);
  if (uses(Isa::avx2)) return block_products_avx2(f, w, begin, end);
  products_plain(f, w, begin, end);
}

}  // namespace sluice::kernels
