// Control parcels: every place changed, and what the reader says of each.
#include <catch2/catch.hpp>

#include "control_sample.h"
#include "runtime/wire/codec.h"
#include "test_cluster.h"
#include "tests/outcomes.h"

namespace sluice {

TEST_CASE("each place of a control parcel that is changed is refused or read, as before") {
  test::Outcomes outcomes("control_parcels");
  const auto read = [](const wire::Bytes& bytes) {
    const Result<Control> control = decode_control(bytes);
    if (!control.ok()) return control.error().message;
    return std::string(encode_control(*control) == bytes ? "read"
                                                         : "read, and written in another way");
  };
  for (std::uint8_t kind = 0; kind <= static_cast<std::uint8_t>(Control::Kind::taken); ++kind) {
    Control control = control_of(static_cast<Control::Kind>(kind));
    control.calls = {1, 200};
    outcomes.change_bytes("kind " + std::to_string(kind), encode_control(control), read);
  }
  for (const std::size_t size : {wire::words_max, wire::words_max + 1}) {
    Control control{.kind = Control::Kind::unheard};
    control.text.assign(size, 'w');
    const wire::Bytes bytes = encode_control(control);
    outcomes.add("a text is cut", std::to_string(bytes.size()) + " bytes: " + read(bytes));
  }
  outcomes.require_as_kept();
}

TEST_CASE("what a machine says that is in no list is not looked at") {
  TestCluster cluster({chain_yaml}, {0, 1, 2}, chain_role);
  REQUIRE(cluster.call().first.ok);
  for (const Channel channel : {Channel::control, Channel::message})
    cluster.network.inject({3, 1}, 0, channel, wire::Bytes(40, std::byte{255}));
  REQUIRE(eventually([&] { return cluster.network.is_idle(); }));
  CHECK_FALSE(cluster.noticed("is refused"));
  CHECK(cluster.call().first.ok);
}

}  // namespace sluice
