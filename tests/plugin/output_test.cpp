// Memory that a plugin asks for to make an output in (ABI 1.1).
#include <catch2/catch.hpp>
#include <cstring>

#include "plugin/host.h"
#include "plugin/text.h"
#include "tests/roles/fake_activation.h"

namespace sluice {
namespace {

struct World {
  PluginHost host{"painter", false};
  FakeActivation activation;
  std::uint64_t id = host.begin(activation);
  sluice_value value{};
  void* at = nullptr;
  World() { value.struct_size = sizeof value; }
  std::int32_t make(sluice_text field, std::uint32_t type, std::uint32_t dtype,
                    const std::vector<std::int64_t>& shape) {
    return host.make_output(&host, id, field, type, dtype, shape.data(), shape.size(), &value, &at);
  }
};

}  // namespace

TEST_CASE("an output of a plugin's is made where the runtime says, and yielded without a copy") {
  World world;
  REQUIRE(world.make(to_c("pose"), SLUICE_TENSOR, SLUICE_F32, {2, 3}) == SLUICE_OK);
  REQUIRE(world.activation.outputs["pose"].size() == 1);
  CHECK(world.at == world.activation.outputs["pose"][0]->data());
  CHECK(world.value.data == world.at);
  CHECK(world.value.data_size == 24);
  std::memset(world.at, 0, 24);
  const sluice_field field{to_c("pose"), &world.value};
  CHECK(world.host.yield(&world.host, world.id, &field, 1) == SLUICE_OK);
  REQUIRE(world.activation.frames.size() == 1);
  CHECK(world.activation.frames[0].second->tensor.buffer().get() ==
        world.activation.outputs["pose"][0]);
  CHECK(world.host.end(world.id, {}).ok());
}

TEST_CASE("an output that cannot be is refused, and nothing is asked for") {
  World world;
  const std::string long_name(65, 'n');
  CHECK(world.make({nullptr, 3}, SLUICE_TENSOR, SLUICE_F32, {2}) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c(long_name), SLUICE_TENSOR, SLUICE_F32, {2}) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c("pose"), SLUICE_TEXT, SLUICE_F32, {2}) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c("pose"), SLUICE_TENSOR, 9, {2}) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c("pose"), SLUICE_TENSOR, SLUICE_F32, {-1}) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c("pose"), SLUICE_TENSOR, SLUICE_F32, std::vector<std::int64_t>(9, 1)) ==
        SLUICE_INVALID_ARGUMENT);
  CHECK(world.make(to_c("pose"), SLUICE_TENSOR, SLUICE_F32, {1LL << 50}) == SLUICE_EXHAUSTED);
  CHECK(world.host.make_output(&world.host, world.id, to_c("pose"), SLUICE_TENSOR, SLUICE_F32,
                               nullptr, 1, &world.value, &world.at) == SLUICE_INVALID_ARGUMENT);
  CHECK(world.host.make_output(&world.host, world.id + 1, to_c("pose"), SLUICE_TENSOR, SLUICE_F32,
                               nullptr, 0, &world.value, &world.at) == SLUICE_STALE);
  CHECK(world.at == nullptr);
  CHECK(world.activation.outputs.empty());
  CHECK(world.host.end(world.id, {}).ok());
}

}  // namespace sluice
