// Whose the pages of a table are: how many each tenant has, and which of its own it gives up where
// it may have no more.
//
// A tenant has a number while it has a page or a sequence. What it may have, its quota, is one for
// all tenants; pages of nobody have none. The leaves of its cache stand in a list of their own, the
// one that was let go of longest ago first, so whoever is at its quota finds one at once.
// Bounds: `tenants_most` have numbers of their own; further ones share the last, and its quota.
// Thread: the table's. Units: pages. Cost: constant time for a page, a name costs the logarithm of
// the tenants; nothing, and no memory, before the first tenant comes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dataplane/slot_lists.h"

namespace sluice {

using TenantNumber = std::uint32_t;
inline constexpr TenantNumber no_tenant = 0;

struct TenantPages {
  std::string name;          // empty: those that share the last number
  std::uint32_t pages = 0;   // that it has
  std::uint32_t cached = 0;  // of those, that nobody uses
  std::uint32_t held() const { return pages - cached; }
};

/// What one tenant may have of a pool, and what it holds. Its cache is not held: that goes where it
/// wants more.
struct TenantRoom {
  std::uint32_t quota = 0, held = 0;
  std::uint32_t free() const { return quota > held ? quota - held : 0; }
};
/// Of a tenant that wants so many pages more.
Error tenant_is_full(std::string_view tenant, std::size_t needed, const TenantRoom& room);

class PageTenants {
 public:
  static constexpr TenantNumber tenants_most = 1024;

  explicit PageTenants(std::uint32_t pages) : pages_(pages) {}

  /// Requires: no tenant has come yet. `quota` > 0.
  void limit(std::uint32_t quota);
  /// None: a tenant may have all pages.
  std::optional<std::uint32_t> quota() const { return quota_; }
  bool are_known() const { return !owners_.empty(); }

  /// A sequence of it begins; an empty name is nobody's.
  TenantNumber join(std::string_view name);
  void join(TenantNumber tenant) {
    if (tenant != no_tenant) ++tenants_[tenant].sequences;
  }
  void leave(TenantNumber tenant) {
    if (tenant == no_tenant) return;
    --tenants_[tenant].sequences;
    forget(tenant);
  }

  TenantNumber owner(Slot page) const { return are_known() ? owners_[page] : no_tenant; }
  /// It gets a page that nobody has, which is used.
  void take(TenantNumber tenant, Slot page) {
    if (tenant == no_tenant) return;
    owners_[page] = tenant;
    ++tenants_[tenant].pages;
  }
  /// The page, which is no cache, is nobody's.
  void give(Slot page);
  /// The page becomes cache, or is used again.
  void let_go(Slot page) {
    if (owner(page) != no_tenant) ++tenants_[owners_[page]].cached;
  }
  void use(Slot page) {
    if (owner(page) != no_tenant) --tenants_[owners_[page]].cached;
  }
  /// Whether it is cache that may go now. `is_next`: it goes before all others of its tenant.
  void set_leaf(Slot page, bool is_leaf, bool is_next = false);

  /// Whether it may have so many more once its cache has gone.
  bool may_have(TenantNumber tenant, std::uint64_t more) const {
    return tenant == no_tenant || !quota_ || tenants_[tenant].held() + more <= *quota_;
  }
  /// Whether it must give up some of its own for so many more.
  bool is_over(TenantNumber tenant, std::uint64_t more) const {
    return tenant != no_tenant && quota_ && tenants_[tenant].pages + more > *quota_;
  }
  /// Of its cache, what goes next; `no_slot`: none of it may go now.
  Slot next_leaf(TenantNumber tenant) const { return leaves_ ? leaves_->front(tenant) : no_slot; }

  TenantPages pages_of(TenantNumber tenant) const;
  /// One that is not known: zeros, or, where all numbers are taken, what those that share the last
  /// one have together.
  TenantPages pages_of(std::string_view name) const;
  /// Those that have pages, by name, and what all of them have.
  std::vector<TenantPages> all() const;

 private:
  struct Tenant {
    std::string name;
    std::uint32_t pages = 0, cached = 0, sequences = 0;
    std::uint32_t held() const { return pages - cached; }
  };

  void forget(TenantNumber tenant);

  const std::uint32_t pages_;
  std::optional<std::uint32_t> quota_;
  std::vector<TenantNumber> owners_;  // by page; none before the first tenant
  std::vector<Tenant> tenants_;       // by number; the first is nobody, the last shared
  std::vector<TenantNumber> unused_;
  std::map<std::string, TenantNumber, std::less<>> numbers_;
  std::optional<SlotLists> leaves_;  // where there is a quota
};

}  // namespace sluice
