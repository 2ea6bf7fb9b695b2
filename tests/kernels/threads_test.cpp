// Results do not depend on how many threads a loop may take.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "base/random.h"
#include "base/turns.h"
#include "base/worker_pool.h"
#include "kernels/attention.h"
#include "kernels/conv2d.h"
#include "kernels/next_part.h"
#include "kernels/parallel.h"

namespace sluice::kernels {
namespace {

std::vector<float> drawn(std::size_t count, SplitMix64& random) {
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(random.normal());
  return values;
}

Weight weight_of(std::size_t out, std::size_t in, WeightFormat format, SplitMix64& random) {
  const auto size = [](std::size_t v) { return static_cast<std::int64_t>(v); };
  return std::move(
             Weight::from(Tensor::of_f32({size(out), size(in)}, drawn(out * in, random)), format))
      .value();
}

/// The same bits alone, with two threads, and with all.
void check_same(std::size_t count, const std::function<void(std::span<float>)>& make) {
  std::vector<float> alone(count), together(count);
  limit_threads(1);
  make(alone);
  for (const std::size_t threads : {2, 0}) {
    limit_threads(threads);
    make(together);
    CHECK(together == alone);
  }
  limit_threads(0);
}

TEST_CASE("products have the same bits with any number of threads") {
  SplitMix64 random(11);
  for (const WeightFormat format : {WeightFormat::exact, WeightFormat::bf16, WeightFormat::int8}) {
    const Weight weight = weight_of(700, 560, format, random);
    const std::vector<float> bias = drawn(700, random);
    for (const std::size_t rows : {1, 4, 5, 130, 1100}) {
      const std::vector<float> x = drawn(rows * 560, random);
      check_same(rows * 700, [&](std::span<float> y) { matmul_cpu(x, weight, bias, y, rows); });
    }
  }
}

TEST_CASE("products over blocks have the same bits with any number of threads") {
  SplitMix64 random(13);
  constexpr std::size_t in = 512, out = 700;
  std::vector<std::uint8_t> bytes(out * in / 32 * layout_of(BlockType::q8_0).bytes);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next() & 31);
  const Weight weight = Weight::of_blocks({{BlockType::q8_0, bytes.data(), out, in, 0, nullptr}});
  for (const std::size_t rows : {1, 4, 5, 130}) {
    const std::vector<float> x = drawn(rows * in, random);
    check_same(rows * out, [&](std::span<float> y) { matmul_cpu(x, weight, {}, y, rows); });
    const Weight gated = Weight::of_blocks({weight.blocks()[0], weight.blocks()[0]});
    check_same(rows * out, [&](std::span<float> y) {
      matmul_gated_cpu(Activation::silu, x, gated, {}, y, rows);
    });
  }
}

TEST_CASE("attention and convolutions have the same bits with any number of threads") {
  SplitMix64 random(12);
  const AttentionShape shape{.heads = 8, .kv_heads = 4, .head_dim = 32, .page_tokens = 256};
  const std::size_t rows = 200;
  const std::vector<float> q = drawn(rows * 8 * 32, random);
  const std::vector<float> keys = drawn(256 * 4 * 32, random);
  const std::vector<float> values = drawn(256 * 4 * 32, random);
  const float* key_page = keys.data();
  const float* value_page = values.data();
  const PagedSequence sequence{{&key_page, 1}, {&value_page, 1}};
  const std::vector<std::uint32_t> sequence_of_row(rows, 0);
  std::vector<std::uint32_t> limits;
  for (std::size_t i = 0; i < rows; ++i) limits.push_back(static_cast<std::uint32_t>(i + 1));
  check_same(rows * 8 * 32, [&](std::span<float> out) {
    attention_cpu(shape, q, sequence_of_row, limits, {&sequence, 1}, out);
  });
  const ConvShape conv{16, 64, 40, 30, 1};
  const Weight weight = weight_of(64, 16 * 9, WeightFormat::exact, random);
  const std::vector<float> x = drawn(16 * 40 * 30, random);
  const std::vector<float> bias = drawn(64, random);
  check_same(64 * 40 * 30, [&](std::span<float> y) { conv2d_cpu(conv, x, weight, bias, y); });
}

TEST_CASE("a loop's parts cover its indices once, whatever its grain") {
  for (const std::size_t count : {0, 1, 2, 7, 1000, 100'003})
    for (const std::size_t grain : {1, 3, 64, 50'000, 200'000}) {
      std::vector<std::uint8_t> times(count);
      parallel_for(count, grain, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) ++times[i];
      });
      CHECK(std::ranges::count(times, 1) == static_cast<std::ptrdiff_t>(count));
    }
}

TEST_CASE("a thread's next part is guessed where threads take parts by turns") {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U})
    for (const std::uint32_t count : {1U, 2U, 18U, 96U, 1000U}) {
      Turns turns;
      turns.open(count);
      std::vector<std::size_t> guesses;  // one for each part, in the order in which they are taken
      for (Turns::Seen seen = turns.seen(); seen.left() != 0; seen = turns.seen()) {
        const std::size_t begin = count - seen.left();
        INFO("part " << guesses.size() << " of " << count << " over " << threads << " threads");
        if (guesses.size() >= threads) CHECK(guesses[guesses.size() - threads] == begin);
        const std::uint32_t part = seen.part(threads);
        REQUIRE(turns.take(seen, part, false));
        guesses.push_back(probably_next(count, begin + part, threads));
      }
      const std::size_t last = std::min<std::size_t>(threads, guesses.size());
      CHECK(std::all_of(guesses.end() - static_cast<std::ptrdiff_t>(last), guesses.end(),
                        [&](std::size_t guess) { return guess == count; }));
    }
}

}  // namespace
}  // namespace sluice::kernels
