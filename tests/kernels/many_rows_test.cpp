// Products of many rows in the narrow formats: sizes at and around those in which they are cut,
// rows that do not depend on each other, and what follows a product on its way out.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "base/random.h"
#include "kernels/matmul.h"
#include "tests/kernels/paths.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

constexpr float untouched = 77;

std::vector<float> values(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> made(count);
  for (float& value : made) value = static_cast<float>(random.normal());
  return made;
}

Weight weight_of(std::size_t out, std::size_t in, WeightFormat format) {
  const auto size = [](std::size_t v) { return static_cast<std::int64_t>(v); };
  return std::move(Weight::from(Tensor::of_f32({size(out), size(in)}, values(in * out, in + out)),
                                format))
      .value();
}

/// The largest difference of a value, beside what a value of the product may be.
double worst(std::span<const float> got, std::span<const float> want, std::size_t in) {
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    most = std::max(most, std::abs(double{got[i]} - double{want[i]}));
  return most / std::sqrt(static_cast<double>(in));
}

/// Of sums of `in` products in f32, in any order; no value of any size may be off by more.
double limit(std::size_t in) { return 1e-6 * (2 + std::sqrt(static_cast<double>(in))); }

}  // namespace

TEST_CASE("products of many rows in narrow formats agree with the reference in every value") {
  // Rows: each number that a strip of twelve leaves over; outputs: a panel's halves and one more.
  constexpr std::size_t most = 512;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
    for (const auto& [in, out] : std::vector<std::array<std::size_t, 2>>{{1, 1},
                                                                         {2, 15},
                                                                         {31, 16},
                                                                         {32, 17},
                                                                         {33, 31},
                                                                         {576, 32},
                                                                         {65, 33},
                                                                         {63, 130},
                                                                         {4096, 3},
                                                                         {4097, 5},
                                                                         {8200, 18}}) {
      const Weight weight = weight_of(out, in, format);
      const std::size_t rows_most = in > 4000 ? 78 : most;
      const std::vector<float> x = values(rows_most * in, 7);
      const std::vector<float> bias = values(out, 9);
      std::vector<float> want(rows_most * out);
      matmul_ref(x, weight, bias, want, rows_most);
      for (const Isa path : paths()) {
        const AtMost at_most(path);
        for (const std::size_t rows : {1, 5, 12, 64, 65, 66, 67, 68, 69, 70, 71, 72, 77, 78, 512}) {
          if (rows > rows_most) continue;
          INFO(rows << " x " << in << " x " << out << " format " << static_cast<int>(format)
                    << " with nothing better than " << name_of(path));
          std::vector<float> got(rows * out + 16, untouched);
          matmul_cpu(std::span(x).first(rows * in), weight, bias, std::span(got).first(rows * out),
                     rows);
          // Up to 64 rows times int8 see activations of 16 bits.
          const double rounding = format == WeightFormat::int8 && rows <= 64 ? 3e-4 : 0;
          CHECK(worst(got, std::span(want).first(rows * out), in) < limit(in) + rounding);
          CHECK(std::all_of(got.end() - 16, got.end(), [](float v) { return v == untouched; }));
        }
      }
    }
}

TEST_CASE("what follows a product of many rows is done once, to every output, in every part") {
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
    for (const auto& [rows, in, half] : std::vector<std::array<std::size_t, 3>>{{66, 33, 1},
                                                                                {73, 64, 15},
                                                                                {80, 40, 16},
                                                                                {85, 96, 17},
                                                                                {530, 48, 33},
                                                                                {67, 4096, 18},
                                                                                {67, 4100, 18},
                                                                                {65, 8300, 5}})
      for (const Activation kind :
           {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
        const std::size_t out = 2 * half;
        const Weight weight = weight_of(out, in, format);
        std::vector<float> x = values(rows * in, 3);
        for (float& v : x) v /= std::sqrt(static_cast<float>(in));
        const std::vector<float> bias = values(out, 9);
        const std::vector<float> before = values(rows * out, 11);
        std::vector<float> product(rows * out), gated(rows * half);
        matmul_ref(x, weight, bias, product, rows);
        std::vector<float> active = product, sum = before;
        activate_ref(kind, active);
        gated_ref(kind, product, half, gated);
        add_ref(sum, product);
        // Sums of `in` products in any order; a gate's error is multiplied by its partner.
        const double most = 6e-7 * (10 + std::sqrt(static_cast<double>(in)));
        for (const Isa path : paths()) {
          const AtMost at_most(path);
          INFO(rows << " x " << in << " x 2 x " << half << " format " << static_cast<int>(format)
                    << " activation " << static_cast<int>(kind) << " with nothing better than "
                    << name_of(path));
          std::vector<float> got(rows * out + 16, untouched);
          matmul_activate_cpu(kind, x, weight, bias, std::span(got).first(rows * out), rows);
          CHECK(worst(got, active, 1) < most);
          std::vector<float> made(rows * half + 16, untouched);
          matmul_gated_cpu(kind, x, weight, bias, std::span(made).first(rows * half), rows);
          CHECK(worst(made, gated, 1) < most);
          CHECK(std::all_of(got.end() - 16, got.end(), [](float v) { return v == untouched; }));
          CHECK(std::all_of(made.end() - 16, made.end(), [](float v) { return v == untouched; }));
          got = before;
          matmul_add_cpu(x, weight, bias, got, rows);
          CHECK(worst(got, sum, 1) < most);
        }
      }
}

TEST_CASE("a row has the same bits beside however many others, from more than 64 on") {
  constexpr std::size_t most = 700;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
    for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{613, 37}, {4200, 3}}) {
      const Weight weight = weight_of(out, in, format);
      const std::vector<float> x = values(most * in, 5);
      for (const Isa path : paths()) {
        // oneDNN's products, which it makes with what the processor has, whatever the limit.
        if (path < Isa::avx512 && (has(Isa::avx512) || !has(Isa::avx2))) continue;
        const AtMost at_most(path);
        std::vector<float> all(most * out);
        matmul_cpu(x, weight, {}, all, most);
        for (const std::size_t rows : {65, 66, 71, 72, 73, 100, 511, 513}) {
          INFO(rows << " x " << in << " x " << out << " with " << name_of(path));
          std::vector<float> some(rows * out);
          matmul_cpu(std::span(x).last(rows * in), weight, {}, some, rows);
          CHECK(std::ranges::equal(some, std::span(all).last(rows * out)));
        }
      }
    }
}

TEST_CASE(
    "without AVX-512 a row of an exact product has the same bits beside however many others") {
  if (has(Isa::avx512) || !has(Isa::avx2)) return;
  constexpr std::size_t most = 540;
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{48, 37}, {613, 130}, {1, 1}}) {
    const Weight weight = weight_of(out, in, WeightFormat::exact);
    const std::vector<float> x = values(most * in, 5), bias = values(out, 6);
    for (const std::span<const float> added :
         {std::span<const float>(), std::span<const float>(bias)}) {
      std::vector<float> all(most * out);
      matmul_cpu(x, weight, added, all, most);
      for (std::size_t rows = 5; rows < most; rows += rows < 30 ? 1 : 127) {
        INFO(rows << " x " << in << " x " << out << (added.empty() ? "" : " with a bias"));
        std::vector<float> some(rows * out);
        matmul_cpu(std::span(x).last(rows * in), weight, added, some, rows);
        CHECK(std::ranges::equal(some, std::span(all).last(rows * out)));
      }
    }
  }
}

TEST_CASE("an infinite value reaches the row or the output that it stands in, and no other") {
  SLUICE_EACH_PATH;
  constexpr std::size_t rows = 75, in = 33, out = 37;
  constexpr float infinite = std::numeric_limits<float>::infinity();
  std::vector<float> raw = values(out * in, 3);
  const auto product = [&](std::span<const float> x) {
    const Weight weight =
        std::move(Weight::from(Tensor::of_f32({out, in}, raw), WeightFormat::bf16)).value();
    std::vector<float> y(rows * out);
    matmul_cpu(x, weight, {}, y, rows);
    return y;
  };
  std::vector<float> x = values(rows * in, 4);
  const std::vector<float> plain = product(x);
  // The first of their row: what is loaded with the row before, if too much is.
  x[7 * in] = infinite;
  raw[21 * in] = infinite;
  const std::vector<float> some = product(x);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o) {
      INFO("row " << r << ", output " << o);
      const bool touched = r == 7 || o == 21;
      CHECK(std::isfinite(some[r * out + o]) == !touched);
      if (!touched) CHECK(some[r * out + o] == plain[r * out + o]);
    }
}
