#include "runtime/shm/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace sluice::shm {

void BlockPool::put_free(Slab& slab, std::uint32_t at, unsigned order) {
  Unit& unit = slab.units[at];
  unit.state = State::free;
  unit.order = static_cast<std::uint8_t>(order);
  unit.previous = none;
  unit.next = slab.first[order];
  if (unit.next != none) slab.units[unit.next].previous = at;
  slab.first[order] = at;
}

void BlockPool::take_free(Slab& slab, std::uint32_t at) {
  Unit& unit = slab.units[at];
  if (unit.next != none) slab.units[unit.next].previous = unit.previous;
  if (unit.previous != none)
    slab.units[unit.previous].next = unit.next;
  else
    slab.first[unit.order] = unit.next;
  unit.state = State::inside;
}

void BlockPool::grow() {
  SLUICE_CHECK(may_grow());
  Slab& slab = slabs_.emplace_back();
  slab.units.resize(slab_units);
  slab.first.fill(none);
  put_free(slab, 0, orders - 1);
}

std::optional<wire::Handle> BlockPool::acquire(std::size_t size, std::size_t slabs) {
  if (size == 0 || size > slab_bytes) return std::nullopt;
  const std::size_t units = (size + unit_bytes - 1) / unit_bytes;
  const auto wanted = static_cast<unsigned>(std::bit_width(units - 1));
  for (std::uint32_t i = 0; i < std::min(slabs, slabs_.size()); ++i) {
    Slab& slab = slabs_[i];
    unsigned order = wanted;
    while (order < orders && slab.first[order] == none) ++order;
    if (order == orders) continue;
    const std::uint32_t at = slab.first[order];
    take_free(slab, at);
    while (order > wanted) {
      --order;
      put_free(slab, at + (1U << order), order);
    }
    Unit& unit = slab.units[at];
    unit.state = State::held;
    unit.order = static_cast<std::uint8_t>(wanted);
    unit.owned = true;
    unit.generation = ++generation_;
    return wire::Handle{i, at, unit.generation};
  }
  return std::nullopt;
}

bool BlockPool::holds(const wire::Handle& handle) const {
  if (handle.slab >= slabs_.size() || handle.block >= slab_units) return false;
  const Unit& unit = slabs_[handle.slab].units[handle.block];
  return unit.state == State::held && unit.generation == handle.generation;
}

std::size_t BlockPool::size_of(const wire::Handle& handle) const {
  return bytes_of(slabs_[handle.slab].units[handle.block]);
}

void BlockPool::free_if_unheld(const wire::Handle& handle) {
  Slab& slab = slabs_[handle.slab];
  std::uint32_t at = handle.block;
  const Unit& unit = slab.units[at];
  if (unit.owned || !unit.holders.empty()) return;
  unsigned order = unit.order;
  slab.units[at].state = State::inside;
  while (order + 1 < orders) {
    const std::uint32_t other = at ^ (1U << order);
    const Unit& half = slab.units[other];
    if (half.state != State::free || half.order != order) break;
    take_free(slab, other);
    at = std::min(at, other);
    ++order;
  }
  put_free(slab, at, order);
}

void BlockPool::let_go(const wire::Handle& handle) {
  SLUICE_CHECK(holds(handle) && unit(handle).owned);
  unit(handle).owned = false;
  free_if_unheld(handle);
}

void BlockPool::lend(const wire::Handle& handle, Reader reader) {
  SLUICE_CHECK(holds(handle));
  Unit& block = unit(handle);
  for (Holder& holder : block.holders)
    if (holder.reader == reader) {
      ++holder.times;
      return;
    }
  block.holders.push_back({reader, 1});
  readers_[reader].bytes += bytes_of(block);
}

void BlockPool::drop_holder(const wire::Handle& handle, std::size_t which) {
  Unit& block = unit(handle);
  readers_[block.holders[which].reader].bytes -= bytes_of(block);
  block.holders.erase(block.holders.begin() + static_cast<std::ptrdiff_t>(which));
  free_if_unheld(handle);
}

bool BlockPool::give_back(const wire::Handle& handle, Reader reader) {
  if (!holds(handle)) return false;
  std::vector<Holder>& holders = unit(handle).holders;
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].reader != reader) continue;
    if (--holders[i].times == 0) drop_holder(handle, i);
    return true;
  }
  return false;
}

void BlockPool::suspect(Reader reader, bool is_suspected) {
  readers_[reader].suspected = is_suspected;
}

std::vector<wire::Handle> BlockPool::gone(Reader reader) {
  std::vector<wire::Handle> had;
  for (std::uint32_t i = 0; i < slabs_.size(); ++i)
    for (std::uint32_t at = 0; at < slab_units; ++at) {
      const Unit& block = slabs_[i].units[at];
      if (block.state != State::held) continue;
      const auto holder = std::ranges::find(block.holders, reader, &Holder::reader);
      if (holder == block.holders.end()) continue;
      had.push_back({i, at, block.generation});
      drop_holder(had.back(), static_cast<std::size_t>(holder - block.holders.begin()));
    }
  readers_.erase(reader);
  return had;
}

std::size_t BlockPool::held_by(Reader reader) const {
  const auto found = readers_.find(reader);
  return found == readers_.end() ? 0 : found->second.bytes;
}

bool BlockPool::is_quarantined(const Unit& unit) const {
  return !unit.owned && std::ranges::all_of(unit.holders, [&](const Holder& holder) {
    return readers_.at(holder.reader).suspected;
  });
}

BlockPool::Totals BlockPool::totals() const {
  Totals totals;
  totals.capacity = slabs_.size() * slab_bytes;
  for (const Slab& slab : slabs_)
    for (const Unit& unit : slab.units) {
      if (unit.state == State::free) totals.free += bytes_of(unit);
      if (unit.state != State::held) continue;
      (is_quarantined(unit) ? totals.quarantined : totals.used) += bytes_of(unit);
    }
  return totals;
}

}  // namespace sluice::shm
