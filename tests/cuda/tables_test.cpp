// Tables that one copy brings to the device.
#include "engine/device/device_tables.h"
#include "on_device.h"
#ifdef SLUICE_EMULATED_TESTS
#include "kernels/cuda/emulation.h"
#endif

using namespace sluice;
using namespace sluice::device;

namespace {

template <typename T>
std::vector<T> read(DeviceWork& work, const DeviceTable& table, std::size_t count) {
  std::vector<T> values(count);
  copy_out(values.data(), table.as<T>(), count * sizeof(T), work.stream());
  REQUIRE(work.synchronise().ok());
  return values;
}

}  // namespace

TEST_CASE("tables come to the device whole, and stand where their sizes say") {
  if (!there()) return;
  const std::unique_ptr<DeviceWork> work = std::move(DeviceWork::make()).value();
  DeviceTables tables;
  DeviceTable words, bytes, none, numbers;
  SplitMix64 random(9);
  const float* first = nullptr;
  const std::uint32_t* words_first = nullptr;
  for (const std::size_t last : {65U, 1U, 700U, 0U, 65U}) {
    const std::vector<std::uint32_t> some{1, 2, 3};
    const std::vector<std::uint8_t> more(257, static_cast<std::uint8_t>(last));
    const std::vector<float> most = random_floats(last, random);
    const DeviceTables::Filled filled[] = {
        {words, some}, {bytes, more}, {none, std::vector<float>()}, {numbers, most}};
    const std::size_t moves = tables.moves();
    REQUIRE(tables.send(*work, filled).ok());
    CHECK(read<std::uint32_t>(*work, words, 3) == some);
    CHECK(read<std::uint8_t>(*work, bytes, 257) == more);
    CHECK(read<float>(*work, numbers, last) == most);
    CHECK(reinterpret_cast<std::uintptr_t>(bytes.as<void>()) % 256 == 0);
    CHECK(numbers.as<std::byte>() - words.as<std::byte>() == 256 + 512);
    // The size of the last one moves nothing but when there is no room.
    if (tables.moves() == moves) {
      CHECK(numbers.as<float>() == first);
      CHECK(words.as<std::uint32_t>() == words_first);
    }
    first = numbers.as<float>();
    words_first = words.as<std::uint32_t>();
  }
  CHECK(tables.moves() == 2);  // the first time, and for the 700
}

TEST_CASE("tables are not written again before their copy was waited for") {
  if (!there()) return;
  const std::unique_ptr<DeviceWork> work = std::move(DeviceWork::make()).value();
  DeviceTables tables;
  DeviceTable table;
  const auto send = [&](std::uint32_t value) {
    const std::vector<std::uint32_t> values(5, value);
    const DeviceTables::Filled filled[] = {{table, values}};
    REQUIRE(tables.send(*work, filled).ok());
  };
  send(1);
  CHECK(work->waits() == 0);
  REQUIRE(work->synchronise().ok());
  send(2);
  CHECK(work->waits() == 1);  // the caller has waited: nothing else does
  send(3);
  CHECK(work->waits() == 2);
  CHECK(read<std::uint32_t>(*work, table, 5) == std::vector<std::uint32_t>(5, 3));
  send(4);  // and goes before anybody waits
}

#ifdef SLUICE_EMULATED_TESTS
TEST_CASE("tables whose copy cannot be waited for stay as they are") {
  const std::unique_ptr<DeviceWork> work = std::move(DeviceWork::make()).value();
  DeviceTables tables;
  DeviceTable table;
  const std::vector<std::uint32_t> one{1}, two{2};
  const DeviceTables::Filled first[] = {{table, one}}, second[] = {{table, two}};
  REQUIRE(tables.send(*work, first).ok());
  emulated::Fault fault{emulated::Fault::Of::waits};
  emulated::plan_fault(&fault);
  CHECK_FALSE(tables.send(*work, second).ok());
  emulated::plan_fault(nullptr);
  CHECK(read<std::uint32_t>(*work, table, 1) == one);
  REQUIRE(tables.send(*work, second).ok());
  CHECK(read<std::uint32_t>(*work, table, 1) == two);
}
#endif
