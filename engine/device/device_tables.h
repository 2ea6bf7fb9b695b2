// Tables that the host makes anew for each piece of work and the device reads: one copy sends them.
//
// Order: the host writes them to pinned memory, from which the copy reads until it is done. Before
// that memory is written again, the caller has waited for the work (`DeviceWork::waits` tells), or
// `send` does: whoever fails between sending and waiting leaves nothing behind that could be torn.
// On the device the copy is in the stream's order: behind all that reads the tables before it.
// Owns: both memories; they only grow. Thread: as `DeviceWork`.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/device/device_work.h"

namespace sluice {

/// Where a table is on the device, until tables are sent again.
class DeviceTable {
 public:
  DeviceTable() = default;
  explicit DeviceTable(std::byte* data) : data_(data) {}
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
};

class DeviceTables {
 public:
  struct Filled {
    DeviceTable& table;  // gets its place
    std::span<const std::byte> values;

    template <typename T>
    Filled(DeviceTable& to, const std::vector<T>& from)
        : table(to), values(std::as_bytes(std::span(from))) {}
  };
  /// A table's place depends on `moves` and the sizes of those before it, and on nothing else: a
  /// recording holds while these are the same. Errors: exhausted, and those of waiting.
  Result<void> send(DeviceWork& work, std::span<const Filled> tables);
  /// Grows when the memory on the device has another address.
  std::size_t moves() const { return moves_; }

 private:
  Result<void> make_room(std::size_t bytes);

  device::HostMemory pinned_;
  device::Memory memory_;  // behind `pinned_`: it is freed first, which waits for the device
  std::optional<std::size_t> sent_;  // what `waits` was when the last copy was sent
  std::size_t moves_ = 0;
};

}  // namespace sluice
