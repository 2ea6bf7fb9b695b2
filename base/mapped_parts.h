// Copies parts of a region of another process that is mapped here.
// Thread: any; no state. Units: bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "base/crc32c.h"
#include "base/remote_memory.h"

namespace sluice {

/// `first` to its place, summed as it is copied, or without one to `rest`; `then` behind what
/// stands there, when all of the first was read. Requires: both are within the region, and there is
/// room.
inline std::optional<std::uint32_t> copy_parts(const std::byte* region, RemoteRegion::Part first,
                                               RemoteRegion::Part then, const Ref<Buffer>& place,
                                               std::byte* rest) {
  const std::span<const std::byte> content(region + first.offset, first.size);
  __builtin_prefetch(region + then.offset);  // memory brings it meanwhile
  std::optional<std::uint32_t> sum;
  if (place) {
    sum = copy_with_crc32c(content, place->data());
  } else {
    std::memcpy(rest, content.data(), content.size());
    rest += content.size();
  }
  // What says whether the first is whole is looked at behind all of it.
  std::atomic_thread_fence(std::memory_order_acquire);
  std::memcpy(rest, region + then.offset, then.size);
  return sum;
}

}  // namespace sluice
