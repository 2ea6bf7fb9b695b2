#include "engine/device/device_tables.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sluice {

namespace {

/// Where the next table begins: kernels read several values at once.
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Result<void> DeviceTables::make_room(std::size_t bytes) {
  Room room;
  room.need(memory_, bytes);
  if (room.moved()) ++moves_;
  if (!room.outcome().ok() || pinned_.bytes() >= memory_.bytes()) return room.outcome();
  pinned_ = device::HostMemory();  // first, so that both need not fit
  Result<device::HostMemory> made = device::HostMemory::allocate(memory_.bytes());
  if (!made.ok()) return made.error();
  pinned_ = std::move(made).value();
  return {};
}

Result<void> DeviceTables::send(DeviceWork& work, std::span<const Filled> tables) {
  std::size_t bytes = 0;
  for (const Filled& each : tables) bytes += aligned(each.values.size());
  if (sent_ == work.waits())
    if (Result<void> waited = work.synchronise(); !waited.ok()) return waited;
  if (Result<void> made = make_room(bytes); !made.ok()) return made;
  std::size_t at = 0;
  for (const Filled& each : tables) {
    std::ranges::copy(each.values, pinned_.data() + at);
    each.table = DeviceTable(memory_.as<std::byte>() + at);
    at += aligned(each.values.size());
  }
  device::copy_pinned(memory_.as<void>(), pinned_, bytes, work.stream());
  sent_ = work.waits();
  return {};
}

}  // namespace sluice
