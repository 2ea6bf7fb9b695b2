// A pool of pages with its folder on a disk, where one is named.
//
// Errors: as `PageStore::open`. Thread: the pool's owner.
#pragma once

#include <memory>
#include <string>

#include "engine/storage/kv_tier.h"

namespace sluice {

struct KeptPool {
  std::unique_ptr<KvPool> pool;
  std::unique_ptr<KvTier> tier;  // null: no folder. Goes before the pool

  /// An empty `folder`: memory alone.
  static Result<KeptPool> make(const KvShape& shape, std::size_t pages, const std::string& folder,
                               std::uint64_t bytes_most);
};

}  // namespace sluice
