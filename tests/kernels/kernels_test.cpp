// Every kernel on every instruction set against its reference, over odd sizes, with tolerances from
// the length of the sums.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/sample.h"
#include "tests/kernels/paths.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

std::vector<float> values(std::size_t count, std::uint64_t seed, float scale = 1) {
  SplitMix64 random(seed);
  std::vector<float> made(count);
  for (float& value : made) value = static_cast<float>(random.normal()) * scale;
  return made;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(double{got[i]} - double{want[i]}, 2);
    size += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

/// Rounding of a sum of `count` f32 products, in any order.
double tolerance(std::size_t count) { return 6e-8 * (2 + std::sqrt(static_cast<double>(count))); }

}  // namespace

TEST_CASE("matmul agrees with its reference for few and many rows, every format, odd sizes") {
  for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
    for (const bool bf16 : {false, true}) {
      for (const auto& [rows, in, out] : std::vector<std::array<std::size_t, 3>>{{1, 1, 1},
                                                                                 {1, 17, 3},
                                                                                 {3, 33, 65},
                                                                                 {4, 256, 31},
                                                                                 {5, 17, 19},
                                                                                 {37, 129, 67},
                                                                                 {9, 40, 1100},
                                                                                 {37, 64, 96},
                                                                                 {70, 1600, 48},
                                                                                 {33, 3100, 33},
                                                                                 {300, 1536, 40},
                                                                                 {4, 300, 700}}) {
        const std::vector<float> raw = values(in * out, in);
        Tensor tensor =
            Tensor::of_f32({static_cast<std::int64_t>(out), static_cast<std::int64_t>(in)}, raw);
        if (bf16) {
          Tensor narrow = std::move(Tensor::zeros(Dtype::bf16, tensor.shape())).value();
          for (std::size_t i = 0; i < raw.size(); ++i) narrow.bf16()[i] = bf16_from_f32(raw[i]);
          tensor = narrow;
        }
        const Weight weight = std::move(Weight::from(tensor, format)).value();
        const std::vector<float> x = values(rows * in, 7);
        const std::vector<float> bias = values(out, 9);
        for (const bool with_bias : {false, true}) {
          std::vector<float> want(rows * out);
          std::vector<float> got(rows * out);
          const std::span<const float> b =
              with_bias ? std::span<const float>(bias) : std::span<const float>();
          matmul_ref(x, weight, b, want, rows);
          // Rows times int8 see activations of 16 bits, unless they are many.
          const double rounding = format == WeightFormat::int8 && rows <= 64 ? 4e-5 : 0;
          INFO(rows << " x " << in << " x " << out << " format " << static_cast<int>(format));
          for (const Isa path : paths()) {
            const AtMost at_most(path);
            INFO("with nothing better than " << name_of(path));
            matmul_cpu(x, weight, b, got, rows);
            CHECK(relative_error(got, want) < tolerance(in) + rounding);
          }
        }
      }
    }
  }
}

TEST_CASE("narrow formats lose what their digits say and no more") {
  SLUICE_EACH_PATH;
  const std::size_t in = 300;
  const std::size_t out = 70;
  const Tensor tensor = Tensor::of_f32({70, 300}, values(in * out, 3));
  const std::vector<float> x = values(in, 4);
  std::vector<float> exact(out), bf16(out), int8(out);
  matmul_ref(x, std::move(Weight::from(tensor)).value(), {}, exact, 1);
  const Weight narrow = std::move(Weight::from(tensor, WeightFormat::bf16)).value();
  const Weight narrower = std::move(Weight::from(tensor, WeightFormat::int8)).value();
  matmul_cpu(x, narrow, {}, bf16, 1);
  matmul_cpu(x, narrower, {}, int8, 1);
  CHECK(relative_error(bf16, exact) < 4e-3);
  CHECK(relative_error(bf16, exact) > 1e-4);
  CHECK(relative_error(int8, exact) < 2e-2);
  CHECK(narrow.bytes() == 2 * in * out);
  CHECK(narrower.bytes() == in * out + 8 * out);
}

TEST_CASE("int8 keeps each weight to half a step of its row, and 16 bits of what it meets") {
  SLUICE_EACH_PATH;
  const std::size_t in = 300;
  const std::size_t out = 70;
  const std::vector<float> raw = values(in * out, 3);
  const Weight weight =
      std::move(Weight::from(Tensor::of_f32({70, 300}, raw), WeightFormat::int8)).value();
  std::vector<float> row(in);
  for (std::size_t o = 0; o < out; ++o) {
    weight.read_row(o, row);
    const float half = weight.scales()[o] / 2;
    for (std::size_t i = 0; i < in; ++i)
      REQUIRE(std::abs(row[i] - raw[o * in + i]) <= half * 1.0001F);
  }
  // Rounding to bytes costs a twelfth of a squared step; cutting off would cost four times that.
  const std::vector<float> x = values(in, 4);
  std::vector<float> exact(out), narrow(out), want(out);
  matmul_ref(x, std::move(Weight::from(Tensor::of_f32({70, 300}, raw))).value(), {}, exact, 1);
  matmul_ref(x, weight, {}, want, 1);
  matmul_cpu(x, weight, {}, narrow, 1);
  CHECK(relative_error(narrow, exact) < 1e-2);
  CHECK(relative_error(narrow, want) < 4e-5);
}

TEST_CASE("kernels take rows from any address and touch nothing behind the last one") {
  SLUICE_EACH_PATH;
  for (const std::size_t off : {0U, 1U, 3U, 7U})
    for (const std::size_t rows : {1U, 3U, 6U})
      for (const std::size_t in : {1U, 15U, 16U, 17U, 31U, 63U, 64U, 65U, 127U, 129U, 130U}) {
        const std::size_t out = in % 2 == 0 ? 34 : 9;
        INFO("off " << off << ", " << rows << " x " << in << " x " << out);
        const std::vector<float> bias = values(off + out, 2);
        const std::vector<float> x = values(off + rows * in, 3);
        for (const WeightFormat format :
             {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
          const Weight weight =
              std::move(Weight::from(Tensor::of_f32({static_cast<std::int64_t>(out),
                                                     static_cast<std::int64_t>(in)},
                                                    values(in * out, 4)),
                                     format))
                  .value();
          std::vector<float> got(off + rows * out + 17, 77.0F), want(rows * out);
          matmul_cpu(std::span(x).subspan(off), weight, std::span(bias).subspan(off),
                     std::span(got).subspan(off, rows * out), rows);
          matmul_ref(std::span(x).subspan(off), weight, std::span(bias).subspan(off), want, rows);
          CHECK(std::all_of(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(off),
                            [](float v) { return v == 77.0F; }));
          CHECK(std::all_of(got.end() - 17, got.end(), [](float v) { return v == 77.0F; }));
          got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(off));
          CHECK(relative_error(got, want) < tolerance(in) + 5e-5);
        }
        std::vector<float> shifted(off + rows * in + 17, 77.0F), plain(rows * in);
        rms_norm_cpu(std::span(x).subspan(off), in, {}, 1e-6F,
                     std::span(shifted).subspan(off, rows * in));
        rms_norm_ref(std::span(x).subspan(off), in, {}, 1e-6F, plain);
        CHECK(shifted[off + rows * in] == 77.0F);
        shifted.erase(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(off));
        CHECK(relative_error(shifted, plain) < tolerance(in));
        std::vector<float> active(x.begin(), x.end());
        active.resize(active.size() + 17, 77.0F);
        activate_cpu(Activation::silu, std::span(active).subspan(off, rows * in));
        plain.assign(x.begin() + static_cast<std::ptrdiff_t>(off), x.end());
        activate_ref(Activation::silu, plain);
        CHECK(active[off + rows * in] == 77.0F);
        active.erase(active.begin(), active.begin() + static_cast<std::ptrdiff_t>(off));
        CHECK(relative_error(active, plain) < 1e-6);
      }
}

TEST_CASE("products of many rows in bf16 are what few rows give") {
  SLUICE_EACH_PATH;
  const std::size_t in = 40;
  const std::size_t out = 24;
  const Weight weight =
      std::move(Weight::from(Tensor::of_f32({24, 40}, values(in * out, 8)), WeightFormat::bf16))
          .value();
  const std::vector<float> bias = values(out, 9);
  for (const std::size_t rows : {5, 63, 64, 153, 330, 497, 512, 545, 969, 1024}) {
    const std::vector<float> x = values(rows * in, 10);
    std::vector<float> all(rows * out), some(rows * out);
    matmul_cpu(x, weight, bias, all, rows);
    for (std::size_t r = 0; r < rows; ++r)
      matmul_cpu(std::span(x).subspan(r * in, in), weight, bias,
                 std::span(some).subspan(r * out, out), 1);
    INFO(rows);
    CHECK(relative_error(all, some) < 1e-6);
    if (!uses(Isa::amx)) continue;
    // On tiles no row depends on how many there are.
    std::vector<float> five(5 * out);
    matmul_cpu(std::span(x).last(5 * in), weight, bias, five, 5);
    CHECK(std::equal(five.rbegin(), five.rend(), all.rbegin()));
  }
}

TEST_CASE("products that are activated, gated or added on their way out are the two steps") {
  for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8})
    for (const Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf})
      for (const auto& [rows, in, half] : std::vector<std::array<std::size_t, 3>>{{1, 20, 6},
                                                                                  {5, 33, 17},
                                                                                  {37, 64, 48},
                                                                                  {70, 96, 16},
                                                                                  {33, 1700, 40},
                                                                                  {9, 2400, 32}}) {
        INFO(rows << " x " << in << " x 2 x " << half << " format " << static_cast<int>(format));
        const std::size_t out = 2 * half;
        const Tensor tensor = Tensor::of_f32(
            {static_cast<std::int64_t>(out), static_cast<std::int64_t>(in)}, values(in * out, in));
        const Weight weight = std::move(Weight::from(tensor, format)).value();
        const std::vector<float> x = values(rows * in, 7, 0.1F);
        const std::vector<float> bias = values(out, 9);
        // Rows times int8 see activations of 16 bits, unless they are many.
        const double limit =
            4 * tolerance(in) + (format == WeightFormat::int8 && rows <= 64 ? 1e-4 : 0);
        std::vector<float> product(rows * out);
        matmul_ref(x, weight, bias, product, rows);

        std::vector<float> want = product, got(rows * out);
        activate_ref(kind, want);
        std::vector<float> gated(rows * half), made(rows * half);
        gated_ref(kind, product, half, gated);
        const std::vector<float> before = values(rows * out, 11);
        std::vector<float> sum = before;
        add_ref(sum, product);
        for (const Isa path : paths()) {
          const AtMost at_most(path);
          INFO("with nothing better than " << name_of(path));
          matmul_activate_cpu(kind, x, weight, bias, got, rows);
          CHECK(relative_error(got, want) < limit);
          matmul_gated_cpu(kind, x, weight, bias, made, rows);
          CHECK(relative_error(made, gated) < limit);
          got = before;
          matmul_add_cpu(x, weight, bias, got, rows);
          CHECK(relative_error(got, sum) < limit);
        }
      }
}

TEST_CASE("the comparison refuses a product with one wrong weight") {
  const std::vector<float> raw = values(64 * 64, 3);
  std::vector<float> wrong = raw;
  wrong[100] += 0.05F;
  const Weight a = std::move(Weight::from(Tensor::of_f32({64, 64}, raw))).value();
  const Weight b = std::move(Weight::from(Tensor::of_f32({64, 64}, wrong))).value();
  const std::vector<float> x = values(64 * 8, 4);
  std::vector<float> want(64 * 8);
  std::vector<float> got(64 * 8);
  matmul_ref(x, a, {}, want, 8);
  matmul_cpu(x, b, {}, got, 8);
  CHECK(relative_error(got, want) > 10 * tolerance(64));
}

TEST_CASE("norms agree with their references, also on rows far from zero") {
  SLUICE_EACH_PATH;
  for (const std::size_t width : {1U, 5U, 32U, 257U}) {
    const std::vector<float> weight = values(width, 1);
    const std::vector<float> bias = values(width, 2);
    std::vector<float> x = values(width * 3, 3, 4);
    for (std::size_t i = 0; i < width; ++i) x[i] += 100;
    std::vector<float> want(x.size());
    std::vector<float> got(x.size());
    rms_norm_ref(x, width, weight, 1e-6F, want);
    rms_norm_cpu(x, width, weight, 1e-6F, got);
    CHECK(relative_error(got, want) < tolerance(width));
    if (width == 1) continue;
    layer_norm_ref(x, width, weight, bias, 1e-6F, want);
    layer_norm_cpu(x, width, weight, bias, 1e-6F, got);
    CHECK(relative_error(got, want) < 40 * tolerance(width));  // 100 / 4 digits cancel
  }
}

TEST_CASE("norms without a weight only normalise") {
  SLUICE_EACH_PATH;
  const std::vector<float> x = values(48, 8);
  const std::vector<float> ones(16, 1.0F);
  const std::vector<float> zeros(16, 0.0F);
  std::vector<float> with(48), without(48), want(48);
  rms_norm_cpu(x, 16, ones, 1e-6F, with);
  rms_norm_cpu(x, 16, {}, 1e-6F, without);
  rms_norm_ref(x, 16, {}, 1e-6F, want);
  CHECK(with == without);
  CHECK(relative_error(without, want) < tolerance(16));
  layer_norm_cpu(x, 16, ones, zeros, 1e-6F, with);
  layer_norm_cpu(x, 16, {}, {}, 1e-6F, without);
  CHECK(with == without);
}

TEST_CASE("a row of equal values is normed to its bias, by the references too") {
  SLUICE_EACH_PATH;
  const std::vector<float> same(48, 3.0F);
  const std::vector<float> weight(16, 2.0F);
  const std::vector<float> bias(16, 0.5F);
  std::vector<float> got(48), want(48);
  layer_norm_cpu(same, 16, weight, bias, 1e-3F, got);
  layer_norm_ref(same, 16, weight, bias, 1e-3F, want);
  CHECK(relative_error(got, std::vector<float>(48, 0.5F)) < tolerance(16));
  CHECK(relative_error(want, std::vector<float>(48, 0.5F)) < tolerance(16));
  // Of one and minus one, with a variance of one: eps is added to it, not taken away.
  std::vector<float> ends(16, 1.0F);
  for (std::size_t i = 0; i < 16; i += 2) ends[i] = -1;
  std::vector<float> normed(16);
  layer_norm_ref(ends, 16, {}, {}, 3.0F, normed);
  CHECK(normed[1] == 0.5F);
  layer_norm_cpu(ends, 16, {}, {}, 3.0F, normed);
  CHECK(std::abs(normed[1] - 0.5F) < 1e-5F);
}

TEST_CASE("activations agree with their references over their whole range, gated or not") {
  SLUICE_EACH_PATH;
  std::vector<float> x;
  for (float v = -100; v < 100; v += 0.037F) x.push_back(v);
  x.resize(x.size() / 2 * 2);
  for (const Activation kind : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
    std::vector<float> want = x;
    std::vector<float> got = x;
    activate_ref(kind, want);
    activate_cpu(kind, got);
    CHECK(relative_error(got, want) < 1e-6);
    for (std::size_t i = 0; i < x.size(); ++i)
      CHECK(std::abs(got[i] - want[i]) <= 2e-6F * (1 + std::abs(x[i])));
    std::vector<float> gated(x.size() / 2);
    std::vector<float> gated_want(x.size() / 2);
    gated_ref(kind, x, 19, std::span(gated_want).first(19 * 7));
    gated_cpu(kind, x, 19, std::span(gated).first(19 * 7));
    CHECK(relative_error(gated, gated_want) < 1e-6);
    std::vector<float> other = x;
    activate_cpu(kind == Activation::silu ? Activation::gelu_tanh : Activation::silu, other);
    CHECK(relative_error(other, want) > 1e-4);  // another function is seen
  }
}

TEST_CASE("additions and modulations agree with their references") {
  SLUICE_EACH_PATH;
  const std::vector<float> a = values(34 * 3, 1);
  const std::vector<float> b = values(34 * 3, 2);
  const std::vector<float> scale = values(34, 3);
  for (const std::span<const float> by : {std::span<const float>(), std::span(scale)}) {
    std::vector<float> want = a;
    std::vector<float> got = a;
    add_ref(want, b, by);
    add_cpu(got, b, by);
    CHECK(relative_error(got, want) < 1e-6);
  }
  std::vector<float> want(a.begin(), a.begin() + 34);
  std::vector<float> got = want;
  modulate_ref(want, scale, std::span(b).first(34));
  modulate_cpu(got, scale, std::span(b).first(34));
  CHECK(relative_error(got, want) < 1e-6);
}

TEST_CASE("split and rotate puts every head in its place, rotated or not") {
  SLUICE_EACH_PATH;
  for (const std::size_t head_dim : {2U, 20U, 32U, 128U}) {
    const HeadShape shape{6, 2, head_dim};
    const std::size_t rows = 3;
    const std::vector<float> qkv = values(rows * shape.row(), 5);
    std::vector<float> cosine, sine;
    for (std::size_t i = 0; i < rows * head_dim / 2; ++i) {
      cosine.push_back(std::cos(static_cast<float>(i)));
      sine.push_back(std::sin(static_cast<float>(i)));
    }
    for (const bool rotated : {false, true}) {
      const std::span<const float> c =
          rotated ? std::span<const float>(cosine) : std::span<const float>();
      const std::span<const float> s =
          rotated ? std::span<const float>(sine) : std::span<const float>();
      std::vector<float> q[2], k[2], v[2];
      for (int which = 0; which < 2; ++which) {
        q[which].resize(rows * 6 * head_dim);
        k[which].resize(rows * 2 * head_dim);
        v[which].resize(rows * 2 * head_dim);
        std::vector<float*> to_k, to_v;
        for (std::size_t row = 0; row < rows; ++row) {
          to_k.push_back(k[which].data() + (rows - 1 - row) * 2 * head_dim);  // any place
          to_v.push_back(v[which].data() + row * 2 * head_dim);
        }
        (which == 0 ? split_rotate_ref : split_rotate_cpu)(shape, qkv, c, s, q[which], to_k, to_v);
      }
      CHECK(relative_error(q[1], q[0]) < 1e-6);
      CHECK(relative_error(k[1], k[0]) < 1e-6);
      CHECK(v[1] == v[0]);
      CHECK(std::equal(v[1].begin(), v[1].begin() + 4,
                       qkv.begin() + static_cast<std::ptrdiff_t>(8 * head_dim)));
    }
  }
}

TEST_CASE("paged attention agrees with its reference: grouped heads, any limits, many sequences") {
  SLUICE_EACH_PATH;
  SplitMix64 random(11);
  for (const auto& [heads, kv_heads, dim, page] : std::vector<std::array<std::size_t, 4>>{
           {1, 1, 8, 4}, {8, 2, 32, 16}, {4, 4, 20, 3}, {6, 1, 33, 5}}) {
    const AttentionShape shape{heads, kv_heads, dim, page};
    std::vector<std::vector<float>> store;
    std::vector<std::vector<const float*>> keys(3);
    std::vector<std::vector<const float*>> held(3);
    std::vector<PagedSequence> sequences;
    store.reserve(100);
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::size_t p = 0; p < 4; ++p) {
        store.push_back(values(page * kv_heads * dim, random.next()));
        keys[s].push_back(store.back().data());
        store.push_back(values(page * kv_heads * dim, random.next()));
        held[s].push_back(store.back().data());
      }
      sequences.push_back({keys[s], held[s]});
    }
    std::vector<std::uint32_t> of_row;
    std::vector<std::uint32_t> limit;
    for (std::size_t row = 0; row < 11; ++row) {
      of_row.push_back(static_cast<std::uint32_t>(random.next() % 3));
      limit.push_back(static_cast<std::uint32_t>(random.next() % (4 * page) + 1));
    }
    const std::vector<float> q = values(11 * heads * dim, 6);
    std::vector<float> want(q.size());
    std::vector<float> got(q.size());
    attention_ref(shape, q, of_row, limit, sequences, want);
    attention_cpu(shape, q, of_row, limit, sequences, got);
    CHECK(relative_error(got, want) < 2e-6);
    // One token more in sight is seen.
    limit[0] = limit[0] == 1 ? 2 : limit[0] - 1;
    attention_cpu(shape, q, of_row, limit, sequences, got);
    CHECK(relative_error(got, want) > 1e-4);
  }
}

TEST_CASE("attention reads a sequence from an offset in its pages") {
  const AttentionShape shape{4, 2, 16, 4};
  const std::size_t page = 4 * 2 * 16;
  const std::size_t offset = 3 * page;  // as the fourth layer's part of a page that holds all
  std::vector<std::vector<float>> store;
  std::vector<const float*> wide[2];
  std::vector<const float*> own[2];
  for (std::size_t i = 0; i < 6; ++i) store.push_back(values(2 * offset, i + 1));
  for (std::size_t i = 0; i < 6; ++i) {
    wide[i % 2].push_back(store[i].data());
    own[i % 2].push_back(store[i].data() + offset);
  }
  const std::vector<PagedSequence> from{{wide[0], wide[1], offset}};
  const std::vector<PagedSequence> at{{own[0], own[1]}};
  const std::vector<std::uint32_t> of_row(3, 0);
  const std::vector<std::uint32_t> limit{1, 7, 12};
  const std::vector<float> q = values(3 * shape.q_row(), 9);
  std::vector<float> want(q.size());
  std::vector<float> got(q.size());
  attention_ref(shape, q, of_row, limit, at, want);
  attention_ref(shape, q, of_row, limit, from, got);
  CHECK(got == want);
  SLUICE_EACH_PATH;
  attention_cpu(shape, q, of_row, limit, from, got);
  CHECK(relative_error(got, want) < 2e-6);
}

TEST_CASE("attention of whole prompts agrees with its reference: in blocks, and in bf16") {
  for (const auto& [heads, kv_heads, dim, page, narrow] :
       std::vector<std::array<std::size_t, 5>>{{2, 2, 16, 1000, 0},
                                               {8, 2, 32, 16, 0},
                                               {12, 12, 20, 1000, 0},
                                               {8, 1, 33, 7, 0},
                                               {12, 12, 20, 1000, 1},
                                               {8, 2, 32, 16, 1},
                                               {1, 1, 64, 64, 1},
                                               {15, 5, 64, 16, 1},
                                               {2, 1, 72, 5, 1},
                                               {3, 1, 256, 48, 1}}) {
    const AttentionShape shape{heads, kv_heads, dim, page, narrow != 0};
    const std::size_t row = kv_heads * dim;
    // One prompt whose rows see all of it, and one whose rows see parts, in no order.
    const std::size_t lengths[] = {301, 70};
    std::vector<std::vector<float>> stored_keys, stored_values;
    std::vector<std::vector<const float*>> keys(2), held(2);
    std::vector<PagedSequence> sequences;
    std::vector<std::uint32_t> of_row, limit;
    for (std::size_t s = 0; s < 2; ++s) {
      stored_keys.push_back(values(lengths[s] * row, 7 + s));
      stored_values.push_back(values(lengths[s] * row, 17 + s));
      for (std::size_t t = 0; t < lengths[s]; t += page) {
        keys[s].push_back(&stored_keys[s][t * row]);
        held[s].push_back(&stored_values[s][t * row]);
      }
      sequences.push_back({keys[s], held[s]});
      for (std::size_t t = 0; t < lengths[s]; ++t) {
        of_row.push_back(static_cast<std::uint32_t>(s));
        limit.push_back(static_cast<std::uint32_t>(s == 0 ? lengths[0] : t * 37 % lengths[1] + 1));
      }
    }
    const std::vector<float> q = values(of_row.size() * heads * dim, 5);
    std::vector<float> want(q.size());
    attention_ref(shape, q, of_row, limit, sequences, want);
    for (const Isa path : paths()) {
      const AtMost at_most(path);
      INFO("with nothing better than " << name_of(path));
      std::vector<float> got(q.size());
      attention_cpu(shape, q, of_row, limit, sequences, got);
      CHECK(relative_error(got, want) < (narrow != 0 ? 6e-3 : 2e-6));
      if (narrow != 0 && uses(Isa::amx))
        CHECK(relative_error(got, want) > 1e-5);  // it has been rounded
      // Queries that lie apart, and keys and values that lie side by side with something between.
      if (page >= lengths[0]) {
        AttentionShape apart = shape;
        apart.q_stride = heads * dim + 3;
        apart.kv_stride = 2 * row + 5;
        std::vector<float> wide(of_row.size() * apart.q_stride, NAN), again(q.size());
        for (std::size_t r = 0; r < of_row.size(); ++r)
          std::copy_n(&q[r * heads * dim], heads * dim, &wide[r * apart.q_stride]);
        std::vector<std::vector<float>> both(2);
        std::vector<std::array<const float*, 2>> at(2);
        std::vector<PagedSequence> joined;
        for (std::size_t s = 0; s < 2; ++s) {
          both[s].assign(lengths[s] * apart.kv_stride, NAN);
          for (std::size_t t = 0; t < lengths[s]; ++t) {
            float* to = &both[s][t * apart.kv_stride];
            std::copy_n(&stored_keys[s][t * row], row, to);
            std::copy_n(&stored_values[s][t * row], row, to + row);
          }
          at[s] = {both[s].data(), both[s].data() + row};
          joined.push_back({{&at[s][0], 1}, {&at[s][1], 1}});
        }
        attention_cpu(apart, wide, of_row, limit, joined, again);
        CHECK(again == got);
        // The reference knows strides too; once is enough.
        if (path == Isa::portable) attention_ref(apart, wide, of_row, limit, joined, again);
        if (path == Isa::portable) CHECK(again == want);
      }
      // The last row alone comes to the same as among the others.
      const std::size_t one = heads * dim;
      std::vector<float> alone(one);
      attention_cpu(shape, std::span(q).last(one), std::span(of_row).last(1),
                    std::span(limit).last(1), sequences, alone);
      got.erase(got.begin(), got.end() - static_cast<std::ptrdiff_t>(one));
      CHECK(relative_error(alone, got) < (narrow != 0 ? 1e-2 : 2e-6));
    }
  }
}

TEST_CASE("a repeated token is made less likely once, however often it stands there") {
  const std::vector<float> logits{4, -1, 2, 3};
  const SampleOptions options{.temperature = 1, .repetition_penalty = 2};
  const auto likely = [&](const std::vector<std::int32_t>& history) {
    std::vector<double> shares(4);
    for (const Candidate& c : distribution(logits, history, options))
      shares[static_cast<std::size_t>(c.token)] = c.probability;
    return shares;
  };
  const auto shares = likely({0, 0, 1, 0, 1, -5, 99});  // tokens there are not are passed over
  double sum = 0;
  const double values[] = {2, -2, 2, 3};
  for (const double value : values) sum += std::exp(value);
  for (std::size_t i = 0; i < 4; ++i) CHECK(shares[i] == Approx(std::exp(values[i]) / sum));
  CHECK(shares == likely({0, 1}));
}

TEST_CASE("min_p leaves out what is less likely than that part of the likeliest") {
  // Probabilities 8 : 4 : 2 : 1 : 4.
  const std::vector<float> logits{std::log(8.0F), std::log(4.0F), std::log(2.0F), 0,
                                  std::log(4.0F)};
  const auto tokens = [&](float min_p) {
    std::vector<std::int32_t> kept;
    double sum = 0;
    for (const Candidate& c : distribution(logits, {}, {.temperature = 1, .min_p = min_p})) {
      kept.push_back(c.token);
      sum += c.probability;
    }
    CHECK(sum == Approx(1));
    return kept;
  };
  CHECK(tokens(0) == std::vector<std::int32_t>{0, 1, 4, 2, 3});
  CHECK(tokens(0.1F) == std::vector<std::int32_t>{0, 1, 4, 2, 3});
  CHECK(tokens(0.2F) == std::vector<std::int32_t>{0, 1, 4, 2});
  CHECK(tokens(0.3F) == std::vector<std::int32_t>{0, 1, 4});
  CHECK(tokens(0.6F) == std::vector<std::int32_t>{0});
  CHECK(tokens(1) == std::vector<std::int32_t>{0});
}

TEST_CASE("sampling follows temperature, top_k and top_p, and is greedy at temperature 0") {
  const std::vector<float> logits{1, 3, 2, 3, -1};
  CHECK(sample(logits, {}, {}, 0.99) == 1);  // a tie goes to the lower token
  CHECK(sample(logits, {}, {.temperature = 1, .top_k = 2}, 0.0) == 1);
  CHECK(sample(logits, {}, {.temperature = 1, .top_k = 2}, 0.999) == 3);
  CHECK(sample(logits, {}, {.temperature = 1, .top_p = 0.3F}, 0.999) == 1);
  SplitMix64 random(5);
  std::vector<int> counts(5);
  for (int i = 0; i < 20'000; ++i)
    ++counts[static_cast<std::size_t>(sample(logits, {}, {.temperature = 1}, random.uniform()))];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  for (std::size_t token = 0; token < 5; ++token) {
    const double expected = std::exp(double{logits[token]}) / sum;
    CHECK(std::abs(counts[token] / 20'000.0 - expected) < 0.015);
  }
}
