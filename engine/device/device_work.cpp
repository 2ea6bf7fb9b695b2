#include "engine/device/device_work.h"

#include <algorithm>
#include <bit>

namespace sluice {

Result<std::unique_ptr<DeviceWork>> DeviceWork::make() {
  if (const Result<device::About> about = device::find_device(); !about.ok()) return about.error();
  Result<device::Stream> stream = device::make_stream();
  if (!stream.ok()) return stream.error();
  auto products = device::make_products();
  if (!products.ok()) {
    device::free_stream(*stream);
    return products.error();
  }
  return std::unique_ptr<DeviceWork>(new DeviceWork(*stream, std::move(products).value()));
}

Result<void> Recordings::run(DeviceWork& on, const Key& key, std::size_t moves,
                             const std::function<Result<void>()>& work) {
  if (moves != moves_) recorded_.clear();
  moves_ = moves;
  const auto [known, first] = recorded_.try_emplace(key);
  // The first time products are chosen, and what they need is made, which a recording must not do.
  if (first) {
    const Result<void> done = work();
    if (!done.ok()) recorded_.erase(known);
    return done;
  }
  if (known->second == nullptr) {
    device::begin_recording(on.stream());
    const Result<void> ran = work();
    auto graph = device::end_recording(on.stream());
    if (!ran.ok()) return ran;
    if (!graph.ok()) return graph.error();
    known->second = std::move(graph).value();
  }
  known->second->launch(on.stream());
  return {};
}

void Room::need(device::Memory& memory, std::size_t bytes) {
  if (!outcome_.ok() || (memory.bytes() >= bytes && memory.bytes() != 0)) return;
  moved_ = true;
  memory = device::Memory();  // first, so that both need not fit
  Result<device::Memory> made =
      device::Memory::allocate(std::bit_ceil(std::max<std::size_t>(bytes, 16)));
  if (made.ok())
    memory = std::move(made).value();
  else
    outcome_ = made.error();
}

}  // namespace sluice
