#include "dataplane/page_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sluice {

Sequence::~Sequence() {
  if (table_ != nullptr) table_->release(*this);
}

PageTable::PageTable(std::uint32_t pages, std::uint32_t rows_per_page,
                     std::unique_ptr<EvictionPolicy> policy)
    : rows_per_page_(rows_per_page),
      policy_(std::move(policy)),
      watch_(pages),
      pages_(pages),
      held_(pages),
      index_(pages),
      tenants_(pages) {
  SLUICE_CHECK(pages > 0 && rows_per_page > 0);
  free_.reserve(pages);
  path_.reserve(pages);
  for (Page page = pages; page > 0; --page) free_.push_back(page - 1);
}

Page PageTable::find(const PageKey& key) const {
  const std::uint32_t page = index_.find(key.words[0]);
  return page != KeyTable::none && pages_[page].key == key ? page : no_page;
}

std::uint32_t PageTable::match(std::span<const PageKey> keys) const {
  std::uint32_t count = 0;
  Page parent = no_page;
  for (const PageKey& key : keys) {
    const Page page = find(key);
    if (page == no_page || pages_[page].parent != parent) break;
    parent = page;
    ++count;
  }
  return count;
}

std::vector<PageKey> PageTable::path(const PageKey& key) const {
  std::vector<PageKey> path;
  for (Page page = find(key); page != no_page; page = pages_[page].parent)
    path.push_back(pages_[page].key);
  std::ranges::reverse(path);
  return path;
}

Admission PageTable::ask(std::span<const PageKey> keys, std::uint32_t rows,
                         std::string_view tenant) const {
  Admission admission;
  const std::uint32_t needed = pages_for(rows);
  admission.cached = match(keys.first(std::min<std::size_t>(keys.size(), rows / rows_per_page_)));
  admission.fresh = needed - admission.cached;
  // Cached pages that this request itself would use; of those, the tenant's.
  const std::span<const PageKey> there = keys.first(admission.cached);
  std::uint32_t idle = 0;
  for (const PageKey& key : there) idle += pages_[find(key)].references == 0 ? 1 : 0;
  admission.fits = admission.fresh <= free_pages() + cached_ - idle;
  if (!tenant.empty() && tenants_.quota())
    admission.fits = admission.fits && tenants_.pages_of(tenant).held() + unused_by_tenants(there) +
                                               admission.fresh <=
                                           *tenants_.quota();
  return admission;
}

std::uint32_t PageTable::unused_by_tenants(std::span<const PageKey> keys) const {
  std::uint32_t unused = 0;
  for (const PageKey& key : keys) {
    const Page page = find(key);
    if (page != no_page && pages_[page].references == 0 && tenants_.owner(page) != no_tenant)
      ++unused;
  }
  return unused;
}

void PageTable::refer(Page page) {
  if (pages_[page].references++ == 0 && pages_[page].is_published) {
    --cached_;
    tenants_.use(page);
  }
  hold(page);
}

void PageTable::unrefer(Page page) {
  State& state = pages_[page];
  SLUICE_CHECK(state.references > 0);
  if (--state.references > 0) return;
  hold(page);
  if (state.is_published) {
    ++cached_;
    tenants_.let_go(page);
    return;
  }
  if (std::exchange(state.is_known, false)) {  // it was foretold
    catch_up();
    policy_->removed(page);
  }
  if (tenants_.are_known()) tenants_.give(page);
  ++state.generation;
  free_.push_back(page);
}

Sequence PageTable::open(std::span<const PageKey> keys, const PageOwner& owner) {
  Sequence sequence;
  sequence.table_ = this;
  sequence.tenant_ = tenants_.join(owner.tenant);
  sequence.once_published_ = owner.once_published;
  sequence.published_ = match(keys);
  sequence.rows_ = sequence.published_ * rows_per_page_;
  for (const PageKey& key : keys.first(sequence.published_)) {
    sequence.pages_.push_back(find(key));
    refer(sequence.pages_.back());
  }
  return sequence;
}

bool PageTable::follow(Sequence& sequence, const PageKey& key) {
  SLUICE_CHECK(sequence.table_ == this && sequence.pages_.size() == sequence.published_);
  const Page page = find(key);
  const Page before = sequence.pages_.empty() ? no_page : sequence.pages_.back();
  if (page == no_page || pages_[page].parent != before) return false;
  refer(page);
  sequence.pages_.push_back(page);
  sequence.rows_ += rows_per_page_;
  ++sequence.published_;
  return true;
}

Sequence PageTable::fork(const Sequence& sequence) {
  SLUICE_CHECK(sequence.table_ == this);
  Sequence copy;
  copy.table_ = this;
  copy.rows_ = sequence.rows_;
  copy.published_ = sequence.published_;
  copy.tenant_ = sequence.tenant_;
  copy.once_published_ = sequence.once_published_;
  tenants_.join(copy.tenant_);
  // Pages that are reserved and still empty stay with their owner.
  copy.pages_.assign(sequence.pages_.begin(), sequence.pages_.begin() + pages_for(sequence.rows_));
  for (const Page page : copy.pages_) refer(page);
  return copy;
}

/// Nobody finds it any more; it stays as it is otherwise, and so does what follows it.
void PageTable::hide(Page page) {
  if (watcher_ != nullptr) watcher_->dropped(page);
  SLUICE_CHECK(index_.erase(pages_[page].key.words[0]));
}

/// Of a page that is cache and a leaf.
void PageTable::give_up(Page page) {
  State& state = pages_[page];
  if (find(state.key) == page) hide(page);
  if (tenants_.are_known()) {
    tenants_.set_leaf(page, false);
    tenants_.use(page);
    tenants_.give(page);
  }
  if (state.parent != no_page) {
    --pages_[state.parent].children;
    hold(state.parent, true);
  }
  --cached_;
  state = {.key = {}, .generation = state.generation + 1};
  free_.push_back(page);
}

/// Out of the tenant's own cache. False: it may not have so many more.
bool PageTable::make_own_room(std::uint32_t count, TenantNumber tenant) {
  if (!tenants_.may_have(tenant, count)) return false;
  if (tenants_.is_over(tenant, count)) catch_up();
  while (tenants_.is_over(tenant, count)) {
    const Page page = tenants_.next_leaf(tenant);
    if (page == no_page) return false;
    policy_->removed(page);
    give_up(page);
  }
  return true;
}

bool PageTable::make_room(std::uint32_t count, TenantNumber tenant) {
  if (count > free_pages() + cached_ || !make_own_room(count, tenant)) return false;
  if (free_pages() < count) catch_up();
  while (free_pages() < count) {
    const Page page = policy_->victim(held_);
    SLUICE_CHECK(page != no_page && held_[page] == 0 && pages_[page].is_published);
    give_up(page);
  }
  return true;
}

Page PageTable::take(TenantNumber tenant) {
  const Page page = free_.back();
  free_.pop_back();
  tenants_.take(tenant, page);
  refer(page);
  return page;
}

Result<void> PageTable::reserve(Sequence& sequence, std::uint32_t rows,
                                std::vector<CopyPage>& copies) {
  SLUICE_CHECK(sequence.table_ == this && rows >= sequence.rows_ && !sequence.is_told_);
  const auto have = static_cast<std::uint32_t>(sequence.pages_.size());
  const std::uint32_t needed = std::max(have, pages_for(rows));
  const std::uint32_t at = sequence.rows_ / rows_per_page_;
  const std::uint32_t used = sequence.rows_ % rows_per_page_;
  const bool copy = rows > sequence.rows_ && at < have && must_copy(sequence.pages_[at]);
  const TenantNumber tenant = sequence.once_published_ ? no_tenant : sequence.tenant_;
  const std::uint32_t more = needed - have + (copy ? 1 : 0);
  // Where it counts later its tenant's cache goes for it all the same, before anybody else's.
  if (sequence.once_published_ && more <= free_pages() + cached_)
    (void)make_own_room(more, sequence.tenant_);
  if (!make_room(more, tenant))
    return Error{ErrorCode::exhausted, "a sequence needs " + std::to_string(more) +
                                           " pages more; " + std::to_string(free_pages()) +
                                           " are free and " + std::to_string(cached_) +
                                           " unused of " + std::to_string(capacity())};
  if (copy) {
    const Page to = take(tenant);
    if (used > 0) copies.push_back({sequence.pages_[at], to, used});
    unrefer(sequence.pages_[at]);
    sequence.pages_[at] = to;
  }
  while (sequence.pages_.size() < needed) sequence.pages_.push_back(take(tenant));
  return {};
}

void PageTable::wrote(Sequence& sequence, std::uint32_t rows) {
  SLUICE_CHECK(sequence.table_ == this && rows >= sequence.rows_);
  SLUICE_CHECK(pages_for(rows) <= sequence.pages_.size());
  for (std::uint32_t at = sequence.rows_ / rows_per_page_; at < pages_for(rows); ++at)
    SLUICE_CHECK(rows == sequence.rows_ || !must_copy(sequence.pages_[at]));
  sequence.rows_ = rows;
}

/// A page is of whose page it follows: so what follows a tenant's pages is all its own, and of its
/// cache there is always a leaf.
bool PageTable::become_tenants(const Sequence& sequence, Page page, Page before) {
  if (!tenants_.are_known()) return true;
  const TenantNumber of_before = before == no_page ? no_tenant : tenants_.owner(before);
  const TenantNumber tenant = of_before != no_tenant ? of_before : sequence.tenant_;
  if (tenants_.owner(page) == tenant) return true;
  if (!make_own_room(1, tenant)) return false;
  tenants_.give(page);
  tenants_.take(tenant, page);
  return true;
}

bool PageTable::publish(Sequence& sequence, const PageKey& key) {
  SLUICE_CHECK(sequence.table_ == this);
  SLUICE_CHECK((sequence.published_ + 1) * rows_per_page_ <= sequence.rows_);
  Page& mine = sequence.pages_[sequence.published_];
  const Page before = sequence.published_ == 0 ? no_page : sequence.pages_[sequence.published_ - 1];
  if (pages_[mine].is_published) {  // by a fork that shares it
    SLUICE_CHECK(pages_[mine].key == key && pages_[mine].parent == before);
    ++sequence.published_;
    return true;
  }
  const std::uint32_t other = index_.find(key.words[0]);
  // A key that meets another one in 64 bits of 256 is not shared.
  if (other != KeyTable::none && pages_[other].key != key) return false;
  if (other != KeyTable::none && pages_[other].parent == before) {
    // A fork keeps its pages: what it shares would else follow a page that it does not have.
    if (pages_[mine].references > 1) return false;
    refer(other);
    unrefer(mine);
    mine = other;
    ++sequence.published_;
    return true;
  }
  if (!become_tenants(sequence, mine, before)) return false;
  // Somebody has said that it stands elsewhere: no prompt finds it there, and it is in the way
  // here.
  if (const Page wrong = find(key); wrong != no_page) hide(wrong);
  State& state = pages_[mine];
  state.key = key;
  state.is_published = true;
  state.parent = before;
  index_.insert(key.words[0], mine);
  if (before != no_page) {
    ++pages_[before].children;
    hold(before);
  }
  ++sequence.published_;
  if (watcher_ != nullptr) watcher_->published(mine);
  return true;
}

void PageTable::tell_policy(const Sequence& sequence, bool is_use) {
  if (sequence.published_ == 0 || sequence.is_told_) return;
  begin_visit(is_use);
  for (const Page page : std::span(sequence.pages_).first(sequence.published_))
    add_to_visit(page, pages_[page].key.words[0]);
  if (is_use) watch_.visit(path_);
}

void PageTable::foretell(Sequence& sequence, std::span<const PageKey> keys, bool is_use) {
  SLUICE_CHECK(sequence.table_ == this && keys.size() == sequence.pages_.size());
  SLUICE_CHECK(!std::exchange(sequence.is_told_, true));
  begin_visit(is_use);
  for (std::size_t i = 0; i < keys.size(); ++i) add_to_visit(sequence.pages_[i], keys[i].words[0]);
  if (is_use) watch_.visit(path_);
}

void PageTable::begin_visit(bool is_use) {
  catch_up();
  path_ms_ = now_ms_;
  path_is_use_ = is_use;
}

void PageTable::catch_up() {
  if (!path_.empty()) policy_->visit({path_ms_, path_, path_is_use_});
  path_.clear();
}

void PageTable::truncate(Sequence& sequence, std::uint32_t rows, std::uint32_t reserved) {
  SLUICE_CHECK(sequence.table_ == this && rows <= sequence.rows_ && !sequence.is_told_);
  const std::uint32_t keep = pages_for(rows);
  if (rows / rows_per_page_ < sequence.published_) tell_policy(sequence);
  const std::uint32_t most = std::max(keep, pages_for(reserved));
  std::uint32_t kept = keep;
  for (std::size_t at = keep; at < sequence.pages_.size(); ++at)
    if (kept < most && !must_copy(sequence.pages_[at]))
      std::swap(sequence.pages_[kept++], sequence.pages_[at]);
  for (; sequence.pages_.size() > kept; sequence.pages_.pop_back()) unrefer(sequence.pages_.back());
  sequence.rows_ = rows;
  sequence.published_ = std::min(sequence.published_, rows / rows_per_page_);
}

void PageTable::release(Sequence& sequence, bool is_use) {
  SLUICE_CHECK(sequence.table_ == this);
  tell_policy(sequence, is_use);
  for (; !sequence.pages_.empty(); sequence.pages_.pop_back()) unrefer(sequence.pages_.back());
  sequence.rows_ = sequence.published_ = 0;
  sequence.is_told_ = false;
  tenants_.leave(sequence.tenant_);
  sequence.tenant_ = no_tenant;
  sequence.table_ = nullptr;
}

}  // namespace sluice
