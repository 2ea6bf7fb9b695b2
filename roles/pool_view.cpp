#include "roles/pool_view.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace sluice {

void PromptCounts::add(std::size_t tokens, std::size_t kept, std::size_t brought,
                       std::size_t of_folder) {
  ++prompts_;
  memory_ += kept - brought;
  brought_ += brought;
  of_folder_ += of_folder;
  computed_ += tokens - kept;
}

void PromptCounts::show(PoolReport& report) const {
  report.prompts = prompts_;
  report.memory = memory_;
  report.brought = brought_;
  report.disk_tokens = of_folder_;
  report.computed = computed_;
  report.asked = memory_ + brought_ + computed_;
}

PoolReport unseen_pool(const std::string& name, const std::string& model) {
  PoolReport report;
  report.name = name;
  report.model = model;
  return report;
}

void add_pages(const KvPages& pool, PoolReport& report) {
  const KvShape& shape = pool.shape();
  report.layout = std::to_string(shape.layers) + " layers, keys and values of " +
                  std::to_string(shape.row) + " in " + std::string(to_string(shape.dtype));
  report.page_tokens = shape.page_tokens;
  report.page_bytes = shape.page_bytes();
  report.pages = pool.pages();
  if (pool.is_attached()) {  // as its table's process says, which knows the rest
    report.cached = pool.client().pages_cached();
    report.free = pool.pages_free() - report.cached;
    report.used = report.pages - report.free - report.cached;
    return;
  }
  const PageTable& table = pool.table();
  report.free = table.free_pages();
  report.cached = table.cached_pages();
  for (Page page = 0; page < table.capacity(); ++page) {
    report.used += table.references(page) > 0 ? 1 : 0;
    report.shared += table.references(page) > 1 ? 1 : 0;
    report.published += table.is_published(page) ? 1 : 0;
  }
  report.tenant_pages = table.tenants().quota().value_or(0);
  for (TenantPages& one : table.tenants().all())
    report.tenant_list.push_back({std::move(one.name), one.pages, one.cached});
  report.tenants = report.tenant_list.size();
  std::ranges::stable_sort(report.tenant_list, std::greater(), &PoolTenant::pages);
  report.tenant_list.resize(std::min(report.tenant_list.size(), PoolReport::tenants_most));
  const HitWindow window = table.hit_window();
  report.window_blocks = window.blocks;
  report.window_hits = window.hits;
  report.window_optimum = window.optimum;
}

namespace {

void add_folder(const PageStore& store, bool is_alone, PoolReport& report) {
  const PageStoreCounts& counts = store.counts();
  report.source_pages = store.index().pages();
  report.source_bytes = store.index().bytes() - store.index().unwritten();
  report.source_bytes_most = store.index().limits().bytes_most;
  report.source_off = store.health().reason();
  report.source = is_alone ? PoolReport::Source::disk : PoolReport::Source::both;
  report.disk_read = counts.read;
  report.disk_written = counts.written;
  report.disk_broken = counts.broken;
  report.disk_reads = counts.read_times;
  report.disk_writes = counts.write_times;
  if (!is_alone) return;
  report.brought_pages = counts.read;
  report.given_pages = counts.written;
  report.brought_bytes = counts.read * store.page_bytes();
  report.given_bytes = counts.written * store.page_bytes();
}

void add_machines(const KvPeers::Counts& counts, PoolReport& report) {
  report.source = PoolReport::Source::machines;
  report.brought_pages = counts.pulled;
  report.brought_bytes = counts.pulled_bytes;
  report.pulls = counts.times;
  // In messages, and of which the place was told, where the other reads them.
  report.given_pages = counts.served.pages + counts.served.placed;
  report.given_bytes = counts.served.bytes + counts.served.placed * report.page_bytes;
  if (counts.preloads.has_value()) {
    const PagePreloads::Counts& ahead = *counts.preloads;
    report.preloads = PoolReport::Preloads{ahead.told,   ahead.had,    ahead.taken,
                                           ahead.missed, ahead.useful, ahead.wasted};
  }
  if (counts.index.has_value()) {
    const PageIndex::Counts& index = counts.index->index;
    report.index =
        PoolReport::Index{index.asked, index.found, index.unanswered,  counts.index->stale,
                          index.told,  index.anew,  counts.index->down};
  }
}

}  // namespace

void add_source(const KeptPool& kept, PoolReport& report) {
  if (kept.peers != nullptr) add_machines(kept.peers->counts(), report);
  if (kept.tier != nullptr) add_folder(kept.tier->store(), kept.peers == nullptr, report);
}

void add_host(const HostTier* tier, PoolReport& report) {
  if (tier == nullptr) return;
  const KvPool& host = tier->host();
  const HostTier::Counts& counts = tier->counts();
  report.host = PoolReport::Host{host.pages(),        host.table().free_pages(),
                                 host.pages_cached(), counts.lowered,
                                 counts.raised,       counts.missed,
                                 tier->off(),         tier->unpinned()};
}

std::vector<std::pair<std::string, std::uint64_t>> counts_of(const KeptPool& kept) {
  if (kept.peers == nullptr) return {};
  const KvPeers::Counts counts = kept.peers->counts();
  std::vector<std::pair<std::string, std::uint64_t>> list{
      {"pulled_pages", counts.pulled},
      {"pulled_bytes", counts.pulled_bytes},
      {"pulled_by_reading", counts.read},
      {"reads_without_bytes", counts.not_read},
      {"not_worth", counts.not_worth},
      {"stale_messages", counts.stale},
      {"served_pages", counts.served.pages},
      {"served_bytes", counts.served.bytes},
      {"served_places", counts.served.placed},
      {"served_short", counts.served.missing},
      {"told_pages", counts.told},
      {"served_busy", counts.served.busy},
      {"refused_messages", counts.served.refused}};
  if (counts.preloads.has_value()) {
    const PagePreloads::Counts& ahead = *counts.preloads;
    list.insert(list.end(), {{"preload_told", ahead.told},
                             {"preload_had", ahead.had},
                             {"preload_taken", ahead.taken},
                             {"preload_missed", ahead.missed},
                             {"preload_useful", ahead.useful},
                             {"preload_wasted", ahead.wasted}});
  }
  for (std::size_t end = 0; end < pull_ends; ++end)
    list.emplace_back("pulls_" + std::string(to_string(static_cast<PullEnd>(end))),
                      counts.ends[end]);
  return list;
}

std::string FolderWatch::take_trouble(const KeptPool& kept, const std::string& pool) {
  if (kept.tier == nullptr) return {};
  const PageStore& store = kept.tier->store();
  const bool was_off = std::exchange(was_off_, !store.health().works());
  if (store.health().works() || was_off) return {};
  return "pages of '" + pool + "' are kept in memory alone for a while, not in " + store.path() +
         ": " + store.health().reason();
}

PoolReport PoolView::read(SharedEngine* engine, const std::function<PoolReport()>& make,
                          std::chrono::milliseconds patience, PoolReport unseen) {
  const std::lock_guard lock(mutex_);
  std::optional<PoolReport> made;
  const std::function<void()> look = [&] { made = make(); };
  if (engine == nullptr)
    look();
  else
    (void)engine->between_turns(look, patience);
  if (made.has_value()) {
    last_ = std::move(made);
    at_ = engine_clock();
  }
  PoolReport told = last_.value_or(std::move(unseen));
  told.age_ms = last_.has_value() ? (engine_clock() - at_) / 1'000'000 : -1;
  return told;
}

}  // namespace sluice
