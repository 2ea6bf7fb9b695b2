// What weights take, and what a product reads of them, in each format.
#include <catch2/catch.hpp>

#include "kernels/matmul.h"

using namespace sluice;
using namespace sluice::kernels;

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
