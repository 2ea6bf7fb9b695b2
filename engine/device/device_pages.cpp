#include "engine/device/device_pages.h"

#include <utility>

namespace sluice {

Result<std::unique_ptr<DevicePages>> DevicePages::make(device::Stream forwards, std::byte* store,
                                                       std::size_t page_bytes) {
  auto made = std::unique_ptr<DevicePages>(new DevicePages(forwards, store, page_bytes));
  for (device::Stream* stream : {&made->down_, &made->up_}) {
    Result<device::Stream> one = device::make_stream();
    if (!one.ok()) return one.error();
    *stream = *one;
  }
  return made;
}

DevicePages::~DevicePages() {
  for (device::Stream stream : {down_, up_}) {
    if (stream == nullptr) continue;
    (void)device::wait(stream);
    device::free_stream(stream);
  }
}

Result<void> DevicePages::pin(std::span<std::byte> host) {
  Result<device::Pinned> pinned = device::Pinned::make(host);
  if (!pinned.ok()) return pinned.error();
  pinned_ = std::move(pinned).value();
  return {};
}

Result<void> DevicePages::begin(Way way, std::span<const One> copies) {
  if (Result<void> ordered = device::follow(stream(way), forwards_); !ordered.ok()) return ordered;
  for (const One& one : copies) {
    std::byte* const page = store_ + one.page * page_bytes_;
    const Result<void> begun =
        way == Way::down ? device::copy_out_later(one.host, page, page_bytes_, stream(way))
                         : device::copy_in_later(page, one.host, page_bytes_, stream(way));
    if (!begun.ok()) return begun;
  }
  return {};
}

}  // namespace sluice
