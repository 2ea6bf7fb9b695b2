#include "dataplane/page_tenants.h"

namespace sluice {

Error tenant_is_full(std::string_view tenant, std::size_t needed, const TenantRoom& room) {
  return {
      ErrorCode::exhausted,
      "the tenant '" + std::string(tenant) +
          "' has no more of the KV pool: " + std::to_string(needed) + " pages are needed, " +
          (needed > room.quota
               ? "more than the " + std::to_string(room.quota) + " that it may have; ask for less"
               : "and of the " + std::to_string(room.quota) + " that it may have it holds " +
                     std::to_string(room.held) + "; end one of its sessions") +
          " or raise `tenant_pages`"};
}

void PageTenants::limit(std::uint32_t quota) {
  SLUICE_CHECK(quota > 0 && !are_known());
  quota_ = quota;
}

TenantNumber PageTenants::join(std::string_view name) {
  if (name.empty()) return no_tenant;
  if (!are_known()) {
    tenants_.resize(tenants_most + 1);
    unused_.clear();
    for (TenantNumber number = tenants_most - 1; number > 0; --number) unused_.push_back(number);
    if (quota_) leaves_.emplace(pages_, tenants_most + 1);
    owners_.resize(pages_, no_tenant);  // the last: from then on they are known
  }
  TenantNumber number = tenants_most;
  if (const auto it = numbers_.find(name); it != numbers_.end()) {
    number = it->second;
  } else if (!unused_.empty()) {
    number = unused_.back();
    tenants_[number].name = name;
    numbers_.emplace(name, number);
    unused_.pop_back();
  }
  ++tenants_[number].sequences;
  return number;
}

void PageTenants::give(Slot page) {
  const TenantNumber tenant = owner(page);
  if (tenant == no_tenant) return;
  owners_[page] = no_tenant;
  --tenants_[tenant].pages;
  forget(tenant);
}

/// Who has neither a page nor a sequence has no number.
void PageTenants::forget(TenantNumber tenant) {
  Tenant& one = tenants_[tenant];
  if (one.pages > 0 || one.sequences > 0 || tenant == tenants_most) return;
  numbers_.erase(one.name);
  one.name.clear();
  unused_.push_back(tenant);
}

void PageTenants::set_leaf(Slot page, bool is_leaf, bool is_next) {
  const TenantNumber tenant = owner(page);
  if (tenant == no_tenant || !leaves_ || leaves_->in_any(page) == is_leaf) return;
  if (!is_leaf)
    leaves_->remove(page);
  else if (is_next)
    leaves_->push_front(tenant, page);
  else
    leaves_->push_back(tenant, page);
}

TenantPages PageTenants::pages_of(TenantNumber tenant) const {
  const Tenant& one = tenants_[tenant];
  return {one.name, one.pages, one.cached};
}

TenantPages PageTenants::pages_of(std::string_view name) const {
  if (name.empty() || !are_known()) return {};
  const auto it = numbers_.find(name);
  if (it != numbers_.end()) return pages_of(it->second);
  return unused_.empty() ? pages_of(tenants_most) : TenantPages{};
}

std::vector<TenantPages> PageTenants::all() const {
  std::vector<TenantPages> all;
  for (const auto& [name, number] : numbers_)
    if (tenants_[number].pages > 0) all.push_back(pages_of(number));
  if (are_known() && tenants_[tenants_most].pages > 0) all.push_back(pages_of(tenants_most));
  return all;
}

}  // namespace sluice
