// Products over GGUF's block types: every path that the machine has, against sums in f64.
#include "kernels/quant.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "tests/kernels/paths.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

/// Where the f16 (or wider) numbers of a block stand; all else may be any bytes.
std::vector<std::size_t> scales_at(BlockType type) {
  if (type == BlockType::q6_k) return {208};
  if (type == BlockType::q4_1 || type == BlockType::q5_1 || type == BlockType::q4_k ||
      type == BlockType::q5_k)
    return {0, 2};
  return {0};
}

/// f16 of 2^-8 to 2^-3, of either sign.
std::uint16_t small_half(SplitMix64& random) {
  const std::uint64_t bits = random.next();
  return static_cast<std::uint16_t>((bits & 1) << 15 | (7 + bits / 2 % 5) << 10 |
                                    (bits >> 8 & 1023));
}

struct Matrix {
  std::vector<std::uint8_t> bytes;
  BlockRows rows;
  Matrix(BlockType type, std::size_t out, std::size_t in, std::uint64_t seed) {
    SplitMix64 random(seed);
    const BlockLayout& layout = layout_of(type);
    bytes.resize(out * (in / layout.values) * layout.bytes);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
    if (layout.values == 1) {
      for (std::size_t i = 0; i < out * in; ++i) {
        const auto value = static_cast<float>(random.normal());
        const std::uint16_t half = small_half(random);
        const std::uint16_t narrow = bf16_from_f32(value);
        if (type == BlockType::f32) std::memcpy(&bytes[i * 4], &value, 4);
        if (type == BlockType::f16) std::memcpy(&bytes[i * 2], &half, 2);
        if (type == BlockType::bf16) std::memcpy(&bytes[i * 2], &narrow, 2);
      }
    } else {
      for (std::size_t at = 0; at + layout.bytes <= bytes.size(); at += layout.bytes)
        for (const std::size_t place : scales_at(type)) {
          const std::uint16_t half = small_half(random);
          std::memcpy(&bytes[at + place], &half, 2);
        }
    }
    rows = {type, bytes.data(), out, in, 0, nullptr};
  }
};

std::vector<float> draw(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> made(count);
  for (float& value : made) value = static_cast<float>(random.normal());
  return made;
}

void plain_row(BlockType type, const std::uint8_t* row, std::span<float> to) {
  const AtMost plain(Isa::portable);
  read_blocks(type, row, to);
}

/// The largest difference, as a share of the sum of the products' sizes.
double error_of(const BlockRows& w, const std::vector<float>& x, std::size_t rows,
                const std::vector<float>& y, std::size_t stride) {
  std::vector<float> row(w.in);
  double worst = 0;
  for (std::size_t o = 0; o < w.rows; ++o) {
    plain_row(w.type, w.row(o), row);
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      double size = 1e-9;
      for (std::size_t i = 0; i < w.in; ++i) {
        sum += double{row[i]} * double{x[r * w.in + i]};
        size += std::abs(double{row[i]} * double{x[r * w.in + i]});
      }
      worst = std::max(worst, std::abs(sum - double{y[r * stride + o]}) / size);
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("block types have ggml's names, codes and sizes") {
  // Source: ggml.h (enum ggml_type) and ggml-common.h.
  struct Known {
    std::string_view name;
    std::uint32_t code;
    std::size_t values, bytes;
  };
  const Known known[] = {{"F32", 0, 1, 4},       {"F16", 1, 1, 2},      {"BF16", 30, 1, 2},
                         {"Q4_0", 2, 32, 18},    {"Q4_1", 3, 32, 20},   {"Q5_0", 6, 32, 22},
                         {"Q5_1", 7, 32, 24},    {"Q8_0", 8, 32, 34},   {"Q4_K", 12, 256, 144},
                         {"Q5_K", 13, 256, 176}, {"Q6_K", 14, 256, 210}};
  CHECK(block_layouts().size() == std::size(known));
  for (const Known& one : known) {
    INFO(one.name);
    const auto type = block_type_named(one.name);
    REQUIRE(type.has_value());
    const BlockLayout& layout = layout_of(*type);
    CHECK(layout.name == one.name);
    CHECK(layout.code == one.code);
    CHECK(layout.values == one.values);
    CHECK(layout.bytes == one.bytes);
  }
}

TEST_CASE("few rows over blocks agree with sums in f64, every type, path and number of rows") {
  for (const BlockLayout& layout : block_layouts()) {
    const BlockType type = *block_type_named(layout.name);
    const std::vector<std::size_t> widths =
        layout.values == 1 ? std::vector<std::size_t>{1, 15, 33, 256}
                           : std::vector<std::size_t>{layout.values, 3 * layout.values, 1536};
    for (const std::size_t in : widths)
      for (const Isa path : paths())
        for (std::size_t rows = 1; rows <= block_rows_few; ++rows) {
          INFO(layout.name << " in " << in << " path " << name_of(path) << " rows " << rows);
          Matrix matrix(type, 7, in, in);
          const std::vector<float> x = draw(rows * in, 3);
          WholeRows whole;
          if (layout.values != 1) whole.assign(x, in);
          std::vector<float> y(rows * 9, 77);
          const auto run = [&](std::size_t begin, std::size_t end) {
            const AtMost at_most(path);
            block_products({x.data(), &whole, rows, y.data(), 9}, matrix.rows, begin, end);
          };
          run(1, 6);
          // Nothing is written outside of the rows that were asked for.
          for (std::size_t r = 0; r < rows; ++r)
            for (const std::size_t o : {0, 6, 7, 8}) CHECK(y[r * 9 + o] == 77);
          run(0, 7);
          // Half a step of x' sixteen bits, and the rounding of f32 sums.
          CHECK(error_of(matrix.rows, x, rows, y, 9) < 2e-5);
        }
  }
}

TEST_CASE("products over blocks agree with sums in f64, every type, path and shape of tile") {
  for (const BlockLayout& layout : block_layouts()) {
    const BlockType type = *block_type_named(layout.name);
    const std::size_t in = layout.values == 1 ? 96 : 3 * layout.values;
    for (const std::size_t out : {1, 16, 53}) {
      const Matrix matrix(type, out, in, out);
      const Weight weight = Weight::of_blocks({matrix.rows});
      for (const Isa path : paths())
        for (const std::size_t rows : {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 20, 25, 60}) {
          INFO(layout.name << " out " << out << " path " << name_of(path) << " rows " << rows);
          const AtMost at_most(path);
          const std::vector<float> x = draw(rows * in, 3);
          std::vector<float> y(rows * out + 16, 77);
          matmul_cpu(x, weight, {}, y, rows);
          CHECK(error_of(matrix.rows, x, rows, y, out) < 2e-5);
          CHECK(std::ranges::count(y, 77.0F) == 16);
        }
    }
  }
}

TEST_CASE("a row's product over blocks has the same bits beside any other rows") {
  for (const BlockType type : {BlockType::q4_1, BlockType::q6_k}) {
    constexpr std::size_t in = 512, out = 40, most = 50;
    const Matrix matrix(type, out, in, 3);
    const Weight weight = Weight::of_blocks({matrix.rows});
    const std::vector<float> x = draw(most * in, 3);
    for (const Isa path : paths()) {
      INFO(layout_of(type).name << " path " << name_of(path));
      const AtMost at_most(path);
      std::vector<float> all(most * out);
      matmul_cpu(x, weight, {}, all, most);
      for (const std::size_t rows : {5, 7, 12, 23, 49}) {
        std::vector<float> some(rows * out);
        matmul_cpu(std::span(x).last(rows * in), weight, {}, some, rows);
        CHECK(std::ranges::equal(some, std::span(all).last(rows * out)));
      }
    }
  }
}

TEST_CASE("with VNNI a row's product over blocks has the same bits beside one other or many") {
  if (!has(Isa::vnni)) return;  // the list of paths says so
  for (const BlockLayout& layout : block_layouts()) {
    if (layout.values == 1) continue;
    constexpr std::size_t in = 768, out = 50, most = 30;
    const Matrix matrix(*block_type_named(layout.name), out, in, 5);
    const Weight weight = Weight::of_blocks({matrix.rows});
    const std::vector<float> x = draw(most * in, 3);
    std::vector<float> all(most * out);
    {
      const AtMost at_most(Isa::vnni);
      matmul_cpu(x, weight, {}, all, most);
    }
    for (const Isa path : paths()) {
      if (path < Isa::vnni) continue;
      const AtMost at_most(path);
      for (const std::size_t rows : {2, 3, 4, 5, 8, 12, 16, 29}) {
        INFO(layout.name << " path " << name_of(path) << " rows " << rows);
        std::vector<float> some(rows * out);
        matmul_cpu(std::span(x).last(rows * in), weight, {}, some, rows);
        CHECK(std::ranges::equal(some, std::span(all).last(rows * out)));
      }
    }
  }
}

TEST_CASE("on matrix tiles products over blocks have the bits that they have without") {
  if (!has(Isa::amx)) return;  // the list of paths says so
  for (const BlockLayout& layout : block_layouts()) {
    if (layout.values == 1) continue;
    for (const std::size_t in : {layout.values, 5 * layout.values, std::size_t{1536}})
      for (const std::size_t out : {1, 16, 17, 70}) {
        const Matrix matrix(*block_type_named(layout.name), out, in, 7);
        const Weight weight = Weight::of_blocks({matrix.rows});
        for (const std::size_t rows : {5, 14, 16, 17, 29, 530}) {
          INFO(layout.name << " in " << in << " out " << out << " rows " << rows);
          std::vector<float> x = draw(rows * in, 3);
          // What no whole number says, a group of zeros, and sizes of many powers of two.
          x[in + 3] = std::numeric_limits<float>::infinity();
          x[2 * in + 4] = std::numeric_limits<float>::quiet_NaN();
          std::fill_n(&x[3 * in], 32, 0.0F);
          for (std::size_t i = 0; i < in; ++i)
            x[4 * in + i] *= std::exp2f(static_cast<float>(i % 40));
          const auto product = [&](Isa path) {
            const AtMost at_most(path);
            std::vector<float> y(rows * out + 16, 77);
            matmul_cpu(x, weight, {}, y, rows);
            return y;
          };
          const std::vector<float> want = product(Isa::vnni), got = product(Isa::amx);
          CHECK(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)) == 0);
        }
      }
  }
}

TEST_CASE("512 rows over blocks have the bits of 16, of 5 and, with VNNI, of 4 at a time") {
  // The last outputs are fewer than sixteen; more values than are taken out of blocks at a time,
  // and more rows than meet the whole matrix at a time.
  constexpr std::size_t in = 1280, out = 41, most = 512;
  for (const BlockLayout& layout : block_layouts()) {
    if (layout.values == 1) continue;
    const Matrix matrix(*block_type_named(layout.name), out, in, 15);
    const Weight weight = Weight::of_blocks({matrix.rows});
    const std::vector<float> x = draw(most * in, 6);
    std::vector<float> on_other_paths;
    for (const Isa path : paths()) {
      INFO(layout.name << " path " << name_of(path));
      const AtMost at_most(path);
      std::vector<float> all(most * out);
      matmul_cpu(x, weight, {}, all, most);
      for (const std::size_t rows : {16, 5, 4}) {
        if (rows <= block_rows_few && !uses(Isa::vnni)) continue;  // row after row: other sums
        std::vector<float> some(all.size());
        for (std::size_t r = 0; r < most; r += rows) {
          const std::size_t here = r + rows <= most ? rows : most - r;
          if (here <= block_rows_few && !uses(Isa::vnni)) {
            std::copy_n(&all[r * out], here * out, &some[r * out]);
            continue;
          }
          // What is left of rows by five is two; one alone would be summed in another order.
          REQUIRE(here > 1);
          matmul_cpu(std::span(x).subspan(r * in, here * in), weight, {},
                     std::span(some).subspan(r * out, here * out), here);
        }
        INFO(rows << " at a time");
        CHECK(some == all);
      }
      if (on_other_paths.empty()) {
        CHECK(error_of(matrix.rows, x, 16, all, out) < 2e-5);
        on_other_paths = all;
      }
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        difference += std::pow(double{all[i]} - double{on_other_paths[i]}, 2);
        size += std::pow(double{all[i]}, 2);
      }
      // The same whole numbers but where fused and separate roundings differ, and sums in another
      // order.
      CHECK(std::sqrt(difference / size) < 4e-6);
    }
  }
}

TEST_CASE("more rows than meet a matrix at a time have the bits of a few of them") {
  constexpr std::size_t in = 64, half = 37, out = 2 * half, most = 1100;
  const Matrix gate(BlockType::q5_0, half, in, 4), partner(BlockType::q5_0, half, in, 5);
  const Weight weight = Weight::of_blocks({gate.rows, partner.rows});
  const std::vector<float> x = draw(most * in, 6);
  for (const Isa path : paths()) {
    INFO("path " << name_of(path));
    const AtMost at_most(path);
    std::vector<float> all(most * out), gated(most * half);
    matmul_cpu(x, weight, {}, all, most);
    matmul_gated_cpu(Activation::silu, x, weight, {}, gated, most);
    for (std::size_t r = 0; r < most; r += 10) {
      std::vector<float> some(10 * out);
      matmul_cpu(std::span(x).subspan(r * in, 10 * in), weight, {}, some, 10);
      CHECK(std::ranges::equal(some, std::span(all).subspan(r * out, 10 * out)));
      some.resize(10 * half);
      matmul_gated_cpu(Activation::silu, std::span(x).subspan(r * in, 10 * in), weight, {}, some,
                       10);
      CHECK(std::ranges::equal(some, std::span(gated).subspan(r * half, 10 * half)));
    }
  }
}

TEST_CASE("a gate's partner and a branch meet products over blocks as they do apart") {
  for (const BlockLayout& layout : block_layouts()) {
    const BlockType type = *block_type_named(layout.name);
    const std::size_t in = layout.values == 1 ? 96 : 3 * layout.values;
    for (const std::size_t half : {1, 16, 53}) {
      const Matrix gate(type, half, in, half), partner(type, half, in, half + 1);
      const Weight weight = Weight::of_blocks({gate.rows, partner.rows});
      const std::size_t out = 2 * half;
      for (const Isa path : paths())
        for (const std::size_t rows : {1, 4, 5, 16, 25}) {
          INFO(layout.name << " out " << out << " path " << name_of(path) << " rows " << rows);
          const AtMost at_most(path);
          const std::vector<float> x = draw(rows * in, 3);
          std::vector<float> product(rows * out);
          matmul_cpu(x, weight, {}, product, rows);
          for (const Activation kind :
               {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
            INFO("activation " << static_cast<int>(kind));
            std::vector<float> want(rows * half), got(rows * half + 16, 77);
            gated_cpu(kind, product, half, want);
            matmul_gated_cpu(kind, x, weight, {}, got, rows);
            CHECK(std::ranges::equal(std::span(got).first(want.size()), want));
            CHECK(std::ranges::count(got, 77.0F) == 16);
          }
          std::vector<float> want = draw(rows * out, 8), got = want;
          got.resize(got.size() + 16, 77);
          add_cpu(want, product);
          matmul_add_cpu(x, weight, {}, got, rows);
          CHECK(std::ranges::equal(std::span(got).first(want.size()), want));
          CHECK(std::ranges::count(got, 77.0F) == 16);
        }
    }
  }
}

TEST_CASE("gates whose partner has another type, and products with a bias, are finished apart") {
  constexpr std::size_t in = 256, half = 33, rows = 9;
  const Matrix gate(BlockType::q4_1, half, in, 1), partner(BlockType::q6_k, half, in, 2);
  const Matrix same(BlockType::q4_1, half, in, 3), plain(BlockType::f16, half, in, 4);
  const Matrix shorter(BlockType::q4_1, half - 4, in, 5), longer(BlockType::q4_1, half + 4, in, 6);
  const std::vector<float> x = draw(rows * in, 3), bias = draw(2 * half, 4);
  const auto finished = [&](const BlockRows& first, const BlockRows& last, bool with_bias) {
    const Weight weight = Weight::of_blocks({first, last});
    const std::span<const float> b = with_bias ? std::span(bias) : std::span<const float>();
    std::vector<float> product(rows * 2 * half), want(rows * half), got(rows * half);
    matmul_cpu(x, weight, b, product, rows);
    gated_cpu(Activation::silu, product, half, want);
    matmul_gated_cpu(Activation::silu, x, weight, b, got, rows);
    CHECK(got == want);
    std::vector<float> branch = draw(product.size(), 8), sum = branch;
    add_cpu(branch, product);
    matmul_add_cpu(x, weight, b, sum, rows);
    CHECK(sum == branch);
  };
  for (const Isa path : paths()) {
    INFO("path " << name_of(path));
    const AtMost at_most(path);
    finished(gate.rows, partner.rows, false);
    finished(gate.rows, same.rows, true);
    finished(gate.rows, plain.rows, false);
    finished(plain.rows, gate.rows, false);
    finished(shorter.rows, longer.rows, false);
  }
}

TEST_CASE("which products over blocks leave finished") {
  const Matrix a(BlockType::q4_1, 32, 256, 1), b(BlockType::q8_0, 32, 256, 2);
  const Matrix plain(BlockType::bf16, 32, 256, 3);
  const BlockRows two[] = {a.rows, a.rows}, mixed[] = {a.rows, b.rows};
  const BlockRows partly[] = {a.rows, plain.rows}, one[] = {a.rows};
  const Finish gate{Finish::gate, Activation::silu}, add{Finish::add};
  for (const Isa path : paths()) {
    INFO("path " << name_of(path));
    const AtMost at_most(path);
    const bool here = uses(Isa::vnni);
    CHECK(finishes_blocks(two, 5, gate) == here);
    CHECK(finishes_blocks(mixed, 5, add) == here);
    CHECK(finishes_blocks(one, 5, add) == here);
    CHECK(!finishes_blocks(two, block_rows_few, gate));
    CHECK(!finishes_blocks(one, block_rows_few, add));
    CHECK(!finishes_blocks(mixed, 5, gate));
    CHECK(!finishes_blocks(one, 5, gate));
    CHECK(!finishes_blocks(partly, 5, add));
    CHECK(!finishes_blocks({}, 5, add));
    CHECK(!finishes_blocks(two, 5, {Finish::gate, Activation::gelu_erf}));
    CHECK(!finishes_blocks(two, 5, {Finish::activate, Activation::silu}));
  }
}

TEST_CASE("rows in pairs, as llama.cpp has them, are multiplied in order by few and by many") {
  // Heads of 64 stand at equal distances for sixteen rows, heads of 8 do not.
  constexpr std::size_t in = 256, out = 128;
  for (const std::size_t head : {std::size_t{64}, std::size_t{8}}) {
    Matrix matrix(BlockType::q4_1, out, in, 9);
    matrix.rows.interleaved = head;
    const Weight weight = Weight::of_blocks({matrix.rows});
    for (const Isa path : paths())
      for (const std::size_t rows : {1, 3, 6, 16}) {
        INFO("heads of " << head << " path " << name_of(path) << " rows " << rows);
        const AtMost at_most(path);
        const std::vector<float> x = draw(rows * in, 3);
        std::vector<float> y(rows * out);
        matmul_cpu(x, weight, {}, y, rows);
        CHECK(error_of(matrix.rows, x, rows, y, out) < 2e-5);
      }
  }
}

TEST_CASE("a row of blocks reads the same on every path") {
  for (const BlockLayout& layout : block_layouts()) {
    const BlockType type = *block_type_named(layout.name);
    const std::size_t in = 2 * layout.values;
    Matrix matrix(type, 1, in, 5);
    std::vector<float> want(in);
    plain_row(type, matrix.bytes.data(), want);
    for (const Isa path : paths()) {
      std::vector<float> got(in);
      const AtMost at_most(path);
      read_blocks(type, matrix.bytes.data(), got);
      for (std::size_t i = 0; i < in; ++i) {
        INFO(layout.name << " path " << name_of(path) << " value " << i);
        CHECK(got[i] == Approx(want[i]).epsilon(1e-6).margin(1e-6));
      }
    }
  }
}

TEST_CASE("rows of heads that stand in pairs come out in order") {
  constexpr std::size_t in = 32;
  Matrix matrix(BlockType::q8_0, 16, in, 8);
  BlockRows paired = matrix.rows;
  paired.interleaved = 8;
  // The head's first half stands at 0, 2, 4, 6, its second at 1, 3, 5, 7.
  for (const auto& [row, source] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 0}, {1, 2}, {3, 6}, {4, 1}, {7, 7}, {8, 8}, {9, 10}, {12, 9}, {15, 15}})
    CHECK(paired.row(row) == matrix.rows.row(source));
}

TEST_CASE("rows are visited in the order in which they lie, each once and none besides") {
  Matrix matrix(BlockType::q8_0, 24, 32, 8);
  for (const std::size_t head : {0, 8})
    for (const auto& [begin, end] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, 24}, {3, 21}, {8, 16}, {5, 6}, {7, 7}}) {
      INFO("heads of " << head << ", rows " << begin << " to " << end);
      matrix.rows.interleaved = head;
      std::vector<std::size_t> seen;
      const std::uint8_t* last = nullptr;
      matrix.rows.each_row(begin, end, [&](std::size_t r, const std::uint8_t* row) {
        CHECK(row == matrix.rows.row(r));
        CHECK(row > last);
        last = row;
        seen.push_back(r);
      });
      std::ranges::sort(seen);
      std::vector<std::size_t> wanted;
      for (std::size_t r = begin; r < end; ++r) wanted.push_back(r);
      CHECK(seen == wanted);
    }
}

TEST_CASE("a matrix of parts in several types multiplies few and many rows, with a bias") {
  constexpr std::size_t in = 512;
  Matrix a(BlockType::q4_1, 600, in, 1);
  Matrix b(BlockType::q6_k, 65, in, 2);
  Matrix c(BlockType::bf16, 33, in, 3);
  b.rows.interleaved = 0;
  a.rows.interleaved = 8;
  const Weight weight = Weight::of_blocks({a.rows, b.rows, c.rows});
  REQUIRE(weight.out() == 698);
  CHECK(weight.bytes() == 0);
  CHECK(weight.stream_bytes() == 600 * in / 32 * 20 + 65 * in / 256 * 210 + 33 * in * 2);
  const std::vector<float> bias = draw(weight.out(), 4);
  for (const std::size_t rows : {1, 4, 5, 37}) {
    const std::vector<float> x = draw(rows * in, rows);
    std::vector<float> got(rows * weight.out());
    std::vector<float> want(got.size());
    matmul_cpu(x, weight, bias, got, rows);
    matmul_ref(x, weight, bias, want, rows);
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(double{got[i]} - double{want[i]}, 2);
      size += std::pow(double{want[i]}, 2);
    }
    INFO(rows << " rows");
    // A step of x is 2.1 deviations / 32767, and the error of rounding to it is 1 / sqrt(12).
    CHECK(std::sqrt(difference / size) < 4e-5);
  }
}

TEST_CASE("values that are no number stay none, and zeros stay zeros") {
  constexpr std::size_t in = 64;
  Matrix matrix(BlockType::q8_0, 3, in, 1);
  for (const Isa path : paths()) {
    const AtMost at_most(path);
    std::vector<float> x(2 * in, 0.0F);
    x[in + 40] = INFINITY;
    WholeRows whole;
    whole.assign(x, in);
    std::vector<float> y(6);
    block_products({x.data(), &whole, 2, y.data(), 3}, matrix.rows, 0, 3);
    for (std::size_t o = 0; o < 3; ++o) {
      CHECK(y[o] == 0);
      CHECK(std::isnan(y[3 + o]));
    }
    // A row of each kind wherever it may stand among four that are rounded together; what is too
    // small to have an inverse is as good as zero.
    for (const float none : {NAN, -NAN, INFINITY, -INFINITY})
      for (std::size_t at = 0; at < 6; ++at) {
        std::vector<float> many(6 * in, 0.0F);
        many[at * in + 40] = none;
        many[(at + 1) % 6 * in + 3] = 1e-38F;
        std::vector<float> made(6 * 3);
        matmul_cpu(many, Weight::of_blocks({matrix.rows}), {}, made, 6);
        for (std::size_t i = 0; i < made.size(); ++i)
          CHECK((i / 3 == at ? std::isnan(made[i]) : made[i] == 0));
      }
  }
}
