// What a machine has received: in order, but for what waits.
#include "runtime/node/received.h"

#include <catch2/catch.hpp>

namespace sluice {

TEST_CASE("what is received goes on in order, but for what waits on its link or of its home") {
  Received received(3);
  const auto add = [&](std::uint32_t from, std::uint8_t what) {
    return received.add({{from, 1}, Channel::message, wire::Bytes{std::byte{what}}});
  };
  const auto next = [&] {
    std::optional<Parcel> parcel = received.next();
    REQUIRE(parcel);
    return std::pair(*std::move(parcel), static_cast<int>(parcel->bytes.view()[0]));
  };
  for (std::uint8_t i = 1; i <= 6; ++i) REQUIRE(add(i % 2, i));  // 1, 3, 5 come from 1
  auto [first, one] = next();
  CHECK(one == 1);
  received.hold(7, std::move(first));
  CHECK(received.holds(1, 7));
  CHECK(!received.holds_any(0));
  auto [second, two] = next();
  CHECK(two == 2);
  received.hold_link(std::move(second));
  auto [third, three] = next();
  CHECK(three == 3);  // of another home on the same link
  received.done(1, Received::size_of(third));
  auto [fifth, five] = next();
  CHECK(five == 5);
  received.hold(7, std::move(fifth));
  CHECK(!received.next());
  REQUIRE(add(0, 8));  // of the link that waits
  CHECK(!received.next());
  received.go_on(9);  // of nothing that is held
  for (const int want : {2, 4, 6, 8}) CHECK(next().second == want);
  CHECK(!received.next());
  CHECK(received.holds(1, 7));
  received.go_on(7);
  for (const int want : {1, 5}) CHECK(next().second == want);
  CHECK(!received.holds_any(1));
  CHECK(!received.next());
}

TEST_CASE("a link that waits takes so many bytes, and the others as many") {
  Received received(2);
  const auto add = [&](std::uint32_t from, std::size_t bytes) {
    return received.add({{from, 1}, Channel::message, wire::Bytes(bytes)});
  };
  REQUIRE(add(0, Received::bytes_max));  // one is always taken
  CHECK(!add(0, 1));
  CHECK(add(1, 1));
  const std::optional<Parcel> parcel = received.next();
  received.done(0, Received::size_of(*parcel));
  CHECK(add(0, 1));
}

}  // namespace sluice
