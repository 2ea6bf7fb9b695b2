// One life's slabs and what is in them. They outlive it while a role here writes or reads there.
//
// Private to runtime/shm. Thread: under `mutex`. Invariant: a block's place in its slab's table
// says which generation may be read there, and 0 where nothing may.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/shm/shared_memory.h"

namespace sluice::shm {

struct SharedMemory::Store {
  explicit Store(std::size_t slabs_max) : pool(slabs_max) {}
  static Result<std::shared_ptr<Store>> make(std::size_t slabs);

  std::byte* at(const wire::Handle& handle) const { return slabs[handle.slab]->at(handle.block); }
  /// A block with memory behind it, held here.
  std::optional<wire::Handle> place(std::size_t size);
  /// Follows whatever may have freed the block.
  void settle(const wire::Handle& handle) const {
    if (!pool.holds(handle)) slabs[handle.slab]->mark(handle.block, 0);
  }
  void gone(shm::Reader reader) {
    for (const wire::Handle& handle : pool.gone(reader)) settle(handle);
  }

  mutable std::mutex mutex;
  BlockPool pool;
  std::vector<std::unique_ptr<Slab>> slabs;
};

}  // namespace sluice::shm
