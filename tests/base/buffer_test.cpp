// Tensors that share bytes are values all the same.
#include <catch2/catch.hpp>
#include <utility>

#include "base/tensor.h"

using namespace sluice;

TEST_CASE("a copy of a tensor shares its bytes until one side writes") {
  Tensor one = Tensor::of_f32({3}, {1, 2, 3});
  Tensor two = one;
  CHECK(two.buffer() == one.buffer());
  two.f32()[1] = 7;
  CHECK_FALSE(two.buffer() == one.buffer());
  CHECK(std::as_const(one).f32()[1] == 2);
  CHECK(std::as_const(two).f32()[1] == 7);
  CHECK(std::as_const(two).f32()[2] == 3);
  const std::byte* const before = std::as_const(one).bytes().data();
  one.f32()[0] = 5;  // nobody else has them
  CHECK(std::as_const(one).bytes().data() == before);
}

TEST_CASE("bytes that somebody else was shown are never written") {
  Tensor tensor = Tensor::of_f32({2}, {1, 2});
  const Ref<Buffer> shown = tensor.buffer();
  shown->show();
  const std::byte* const before = shown->data();
  tensor.bytes()[0] = std::byte{9};
  CHECK(shown->data()[0] == std::byte{0});
  CHECK(std::as_const(tensor).bytes().data() != before);
}

TEST_CASE("a tensor stands over bytes that are exactly its own, and starts as zeros") {
  CHECK(Tensor::over(Dtype::f32, {2, 2}, Buffer::zeros(16)).ok());
  CHECK_FALSE(Tensor::over(Dtype::f32, {2, 2}, Buffer::zeros(17)).ok());
  CHECK_FALSE(Tensor::over(Dtype::f32, {2, 2}, {}).ok());
  CHECK(Tensor::over(Dtype::f32, {0, 2}, {}).ok());
  CHECK_FALSE(Tensor::over(Dtype::f32, {-1}, {}).ok());
  const Tensor zeros = Tensor::zeros(Dtype::u8, {100'000}).value();
  for (const std::byte byte : zeros.bytes()) REQUIRE(byte == std::byte{0});
  CHECK(Tensor::bytes_of(Dtype::f32, {3, 5}).value() == 60);
  CHECK_FALSE(Tensor::bytes_of(Dtype::f32, {std::int64_t{1} << 40, std::int64_t{1} << 40}).ok());
}
