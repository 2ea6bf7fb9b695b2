// Copies of a device's pages to and from the host, each way in an order of its own.
//
// Thread: as `DeviceWork`. Errors: those of the device.
#pragma once

#include <memory>
#include <optional>

#include "engine/layers/page_copies.h"
#include "kernels/cuda/device.h"

namespace sluice {

class DevicePages final : public PageCopies {
 public:
  /// Pages of so many bytes that stand from `store` on. `forwards`: the order of the work that
  /// writes and reads them.
  static Result<std::unique_ptr<DevicePages>> make(device::Stream forwards, std::byte* store,
                                                   std::size_t page_bytes);
  /// Waits for what is under way.
  ~DevicePages() override;
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;

  Result<void> pin(std::span<std::byte> host) override;
  Result<void> begin(Way way, std::span<const One> copies) override;
  Result<bool> is_done(Way way) override { return device::is_done(stream(way)); }
  Result<void> wait(Way way) override { return device::wait(stream(way)); }

 private:
  DevicePages(device::Stream forwards, std::byte* store, std::size_t page_bytes)
      : forwards_(forwards), store_(store), page_bytes_(page_bytes) {}
  device::Stream stream(Way way) const { return way == Way::down ? down_ : up_; }

  device::Stream forwards_;
  std::byte* store_;
  std::size_t page_bytes_;
  device::Stream down_ = nullptr, up_ = nullptr;
  std::optional<device::Pinned> pinned_;
};

}  // namespace sluice
