// What weights take, what a product reads of them, and what it gives beside others, in each format.
#include <algorithm>
#include <catch2/catch.hpp>

#include "base/random.h"
#include "kernels/matmul.h"
#include "tests/kernels/paths.h"

using namespace sluice;
using namespace sluice::kernels;

namespace {

std::vector<float> values(std::size_t count, std::uint64_t seed) {
  SplitMix64 random(seed);
  std::vector<float> made(count);
  for (float& value : made) value = static_cast<float>(random.normal());
  return made;
}

}  // namespace

TEST_CASE("a weight's bytes are its numbers', and what stands beside a row of int8") {
  const std::size_t out = 70, in = 300;
  const Tensor tensor = Tensor::of_f32({70, 300}, std::vector<float>(out * in, 0.5F));
  const Weight exact = Weight::from(tensor).value();
  const Weight narrow = Weight::from(tensor, WeightFormat::bf16).value();
  const Weight narrower = Weight::from(tensor, WeightFormat::int8).value();
  CHECK(exact.bytes() == 4 * in * out);
  CHECK(narrow.bytes() == 2 * in * out);
  CHECK(narrower.bytes() == in * out + 8 * out);
  CHECK(exact.stream_bytes() == 4 * in * out);
  CHECK(narrow.stream_bytes() == 2 * in * out);
  CHECK(narrower.stream_bytes() == in * out);
}

TEST_CASE("a row's product in a narrow format has the same bits alone and beside any others") {
  constexpr std::size_t most = 11;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::int8})
    for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{613, 7}, {64, 40}, {31, 1}}) {
      const auto sizes = {static_cast<std::int64_t>(out), static_cast<std::int64_t>(in)};
      const Weight weight =
          std::move(Weight::from(Tensor::of_f32(sizes, values(in * out, 3)), format)).value();
      const std::vector<float> x = values(most * in, 5);
      const Isa path = format == WeightFormat::bf16 ? Isa::bf16 : Isa::vnni;
      if (!has(path)) continue;  // the list of paths says so
      const AtMost at_most(path);
      std::vector<float> alone(most * out);
      for (std::size_t r = 0; r < most; ++r)
        matmul_cpu(std::span(x).subspan(r * in, in), weight, {},
                   std::span(alone).subspan(r * out, out), 1);
      for (std::size_t rows = 2; rows <= most; ++rows) {
        INFO(rows << " x " << in << " x " << out << " with " << name_of(path));
        std::vector<float> beside(rows * out);
        matmul_cpu(x, weight, {}, beside, rows);
        CHECK(std::ranges::equal(beside, std::span(alone).first(rows * out)));
      }
    }
}
