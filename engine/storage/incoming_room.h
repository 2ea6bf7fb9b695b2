// How many pages may come into a pool from elsewhere: what running tasks were promised stays free,
// and a tenant gets no more than its quota. Thread: the pool's owner; no state. Units: pages.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/layers/kv.h"

namespace sluice {

/// So many may be taken now, or be held again, for the tenant; none where what is held already
/// leaves less than was promised. Cost: without a quota, none.
inline std::size_t incoming_room(const KvPages& pool, std::string_view tenant) {
  const auto less = [](std::uint64_t pages, std::uint64_t promised) {
    return static_cast<std::size_t>(pages - std::min(pages, promised));
  };
  const PromisedPages* const tasks = pool.promised;
  const std::size_t all = less(pool.pages_free(), tasks != nullptr ? tasks->promised() : 0);
  const std::optional<TenantRoom> own = pool.tenant_room(tenant);
  if (!own.has_value()) return all;
  return std::min(all, less(own->free(), tasks != nullptr ? tasks->promised_to(tenant) : 0));
}

/// What is held now leaves the tenant's tasks, and all others, what they were promised.
inline bool keeps_promises(const KvPages& pool, std::string_view tenant) {
  const PromisedPages* const tasks = pool.promised;
  if (tasks == nullptr) return true;
  const std::optional<TenantRoom> own = pool.tenant_room(tenant);
  return tasks->promised() <= pool.pages_free() &&
         (!own.has_value() || tasks->promised_to(tenant) <= own->free());
}

/// Of those that the tenant may have, behind `keys[0, first)`, which are there: beside those that
/// are on their way to it. `fetches`: all that is, each with `tenant`, `keys` and the pages
/// [next, end) of these that are to come; those that are among `keys` too come once for both.
/// Cost: without a quota, none.
template <typename Fetches>
std::size_t tenant_room_behind(const KvPages& pool, std::span<const PageKey> keys,
                               std::size_t first, std::string_view tenant, const Fetches& fetches) {
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
  std::uint64_t taken = others + pool.table().unused_by_tenants(keys.first(first));
  if (pool.promised != nullptr) taken += pool.promised->promised_to(tenant);
  return static_cast<std::size_t>(room->free() - std::min<std::uint64_t>(room->free(), taken));
}

}  // namespace sluice
