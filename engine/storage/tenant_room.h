// How many pages may still come into a pool for one tenant, beside those that are on their way.
// Thread: the pool's owner; no state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/layers/kv.h"

namespace sluice {

/// Behind `keys[0, first)`, which are there: as many as its quota leaves. `fetches`: all that is on
/// its way, each with `tenant`, `keys` and the pages [next, end) of these that are to come; those
/// that are among `keys` too come once for both. Cost: without a quota, none.
template <typename Fetches>
std::size_t tenant_room_behind(const KvPages& pool, std::span<const PageKey> keys,
                               std::size_t first, std::string_view tenant,
                               const Fetches& fetches) {
  const std::optional<TenantRoom> room = pool.tenant_room(tenant);
  if (!room.has_value()) return pool.pages();
  std::vector<PageKey> awaited;
  for (const auto& one : fetches) {
    const std::size_t end = one.tenant == tenant ? std::min(one.end, one.keys.size()) : 0;
    for (std::size_t at = one.next; at < end; ++at)
      if (at >= keys.size() || keys[at] != one.keys[at]) awaited.push_back(one.keys[at]);
  }
  std::ranges::sort(awaited);
  const auto same = std::ranges::unique(awaited);
  const std::size_t others = awaited.size() - same.size();
  // Of its cache, what it begins with is held then.
  const std::size_t taken = others + pool.table().unused_by_tenants(keys.first(first));
  return room->free() - std::min<std::size_t>(room->free(), taken);
}

}  // namespace sluice
