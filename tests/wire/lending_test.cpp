// Values that a message only names: who gets which bytes, and what is refused.
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "runtime/wire/payload_codec.h"
#include "world.h"

using namespace sluice;
using sluice::testing::everything;
using sluice::testing::plan_of;
using sluice::testing::WireWorld;

namespace {

/// Lends whatever has 100 bytes or more, and knows what it has lent.
class Shelf final : public wire::Lender {
 public:
  Ref<Buffer> make(std::size_t) override { return {}; }
  bool reaches(std::uint32_t) const override { return true; }
  std::optional<wire::Handle> lend(Origin, const Ref<Buffer>& bytes) override {
    if (bytes->size() < 100) return std::nullopt;
    lent[++generation_] = bytes;
    return wire::Handle{3, 700, generation_};
  }
  void take_back(Origin, const wire::Handle& handle) override { lent.erase(handle.generation); }
  Result<Ref<Buffer>> borrow(Origin, const wire::Handle& handle, std::size_t size) override {
    const auto found = lent.find(handle.generation);
    if (handle.slab != 3 || handle.block != 700 || found == lent.end() ||
        found->second->size() != size)
      return Error{ErrorCode::corrupt, "no such block"};
    return found->second;
  }
  std::map<std::uint64_t, Ref<Buffer>> lent;

 private:
  std::uint64_t generation_ = 0;
};

PayloadRef picture(std::int64_t side) {
  Tensor pixels = Tensor::zeros(Dtype::u8, {side, side, 3}).value();
  for (std::size_t i = 0; i < pixels.u8().size(); ++i)
    pixels.u8()[i] = static_cast<std::uint8_t>(i * 7);
  return make_image(std::move(pixels));
}

wire::Bytes written(const PayloadRef& payload, wire::Lending& lending) {
  wire::Bytes bytes;
  wire::ByteWriter out(bytes);
  REQUIRE(wire::put_payload(*payload, out, lending).ok());
  return bytes;
}

PayloadRef read(const wire::Bytes& bytes, wire::Lending& lending, std::string& error,
                std::size_t bytes_max = 1 << 20) {
  wire::ByteReader in(bytes);
  PayloadRef made = wire::read_payload(in, lending, bytes_max);
  if (made && in.left() != 0) in.fail("something is left");
  error = in.error();
  return made;
}

}  // namespace

TEST_CASE("a large tensor is named in its message, and read where it stands") {
  Shelf shelf;
  wire::Lending out{&shelf, {2, 1}}, in{&shelf, {1, 1}};
  std::string error;
  const PayloadRef large = picture(50), little = picture(5);
  const wire::Bytes bytes = written(large, out);
  CHECK(bytes.size() < 20);
  CHECK(out.bytes == 7500);
  REQUIRE(out.handles.size() == 1);
  const PayloadRef same = read(bytes, in, error);
  REQUIRE(error.empty());
  CHECK(same->type == ValueType::image);
  CHECK(same->tensor.shape() == large->tensor.shape());
  CHECK(same->tensor.buffer() == large->tensor.buffer());
  CHECK(in.bytes == out.bytes);  // both sides count the same against a window
  CHECK(written(little, out).size() > 75);
  CHECK(out.handles.size() == 1);
}

TEST_CASE("a handle that stands for other bytes, or for none, is refused") {
  Shelf shelf;
  wire::Lending out{&shelf, {2, 1}};
  std::string error;
  wire::Bytes bytes = written(picture(50), out);
  SECTION("nothing is shared here") {
    wire::Lending none;
    CHECK_FALSE(read(bytes, none, error));
    CHECK(error.find("does not share") != std::string::npos);
  }
  SECTION("more than a message may have") {
    wire::Lending in{&shelf, {1, 1}};
    CHECK_FALSE(read(bytes, in, error, 7499));
    CHECK(error.find("7500 bytes") != std::string::npos);
    CHECK(in.bytes == 0);
    CHECK(read(bytes, in, error, 7500));
    CHECK_FALSE(read(bytes, in, error, 7500));  // what the message has borrowed counts
  }
  SECTION("any other handle, shape or kind") {
    SplitMix64 random(1);
    for (int i = 0; i < 20'000; ++i) {
      wire::Bytes changed = bytes;
      changed[random.next() % changed.size()] = static_cast<std::byte>(random.next());
      wire::Lending in{&shelf, {1, 1}};
      const PayloadRef other = read(changed, in, error);
      if (!other) continue;
      wire::Lending again{&shelf, {2, 1}};
      REQUIRE(other->tensor.bytes_size() == in.bytes);
    }
  }
  SECTION("the tensor is there twice") {
    bytes[1] |= std::byte{2};
    wire::Lending in{&shelf, {1, 1}};
    CHECK_FALSE(read(bytes, in, error));
  }
  SECTION("it was taken back") {
    out.take_back();
    CHECK(shelf.lent.empty());
    CHECK(out.bytes == 0);
    wire::Lending in{&shelf, {1, 1}};
    CHECK_FALSE(read(bytes, in, error));
    CHECK(error.find("no such block") != std::string::npos);
  }
}

TEST_CASE("a message that cannot be sent lends nothing") {
  const Plan plan = plan_of(everything);
  WireWorld world(plan, 1);
  wire::Bytes sample;
  world.sent = [&](const wire::Bytes& bytes, NodeId, NodeId) {
    if (sample.empty()) sample = bytes;
  };
  world.call(1);
  Pools pools;
  Message* const message = wire::decode(plan, sample, {}, wire::Limits{}, pools).value();
  REQUIRE(message->kind == Message::Kind::frame);
  const_cast<Frame&>(*message->frame).values[0] = picture(50);
  Shelf shelf;
  wire::Bytes bytes;
  wire::Lending lending{&shelf, {2, 1}};
  CHECK_FALSE(wire::encode(plan, *message, {}, {.bytes_max = 7500}, bytes, lending).ok());
  CHECK(bytes.empty());
  CHECK(shelf.lent.empty());
  CHECK(wire::encode(plan, *message, {}, {.bytes_max = 10'000}, bytes, lending).ok());
  CHECK(shelf.lent.size() == 1);
  CHECK(bytes.size() < 200);
  pools.give(message);
}
