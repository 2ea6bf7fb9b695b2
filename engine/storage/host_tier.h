// The host's memory below a pool of pages that stands elsewhere, on a GPU: what is published there
// is copied down behind the forwards, and what a prompt begins with is copied up before it is
// computed.
//
// The host's pages are a pool of their own, under the same keys: so what stands behind that (a
// folder, other machines) is this pool's too, through the host's memory. A page that is under way
// is found by nobody before it is there. No page of the host goes while it is copied up; a page of
// the device that is to be written anew while it is copied down waits for that copy. Whoever misses
// the same pages shares the copy. The host's policy hears of each prompt, whoever has its pages.
// Where a copy fails nothing is copied any more, and prompts are computed. Thread: the pool's
// owner. Source: omni-flow, section 4.1 (tiers).
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dataplane/read_guard.h"
#include "engine/layers/kv.h"
#include "engine/layers/page_copies.h"
#include "engine/storage/page_source.h"

namespace sluice {

class HostTier final : public PageSource, private PageWatcher {
 public:
  /// Under way down at once, or one page.
  static constexpr std::size_t window = std::size_t{256} << 20U;

  struct Counts {
    std::uint64_t lowered = 0, raised = 0;  // pages
    // Pages that were given up before they were copied down, or stand so far back in their chain
    // that the host has no room for them.
    std::uint64_t missed = 0;
    std::uint64_t not_worth = 0;  // prompts for which computing is quicker
  };

  /// Borrows all. `pages` and `host` have one shape and one secret. `below`: where pages may be
  /// that the host has not; null: nowhere. `others_read`: the host's pages, whenever they like.
  HostTier(KvPages& pages, PageCopies& copies, KvPool& host, PageSource* below,
           bool others_read = false);
  /// As `drain`.
  ~HostTier() override;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  bool begin(std::uint64_t task, const RowsOrigin& origin, std::span<const std::int32_t> tokens,
             std::optional<double> per_token, std::int64_t now) override;
  void forget(std::uint64_t task) override;
  void poll(std::int64_t now, std::vector<Ready>& ready,
            std::chrono::nanoseconds most = {}) override;
  bool is_waited_for() const override { return !fetches_.empty(); }
  std::size_t pages_awaited() const override;
  bool holds_pages() const override { return !fetches_.empty() || !rises_.empty(); }
  bool has_backlog() const override { return below_ != nullptr && below_->has_backlog(); }
  /// Begins to copy down what waits; where others read the host's pages, to the end.
  void rest() override;
  /// Until all that waits is copied down.
  void drain();

  const Counts& counts() const { return counts_; }
  const KvPool& host() const { return host_; }
  /// Why nothing is copied; empty: it is.
  const std::string& off() const { return off_; }
  /// Why copies are slower than they could be; empty: they are not.
  const std::string& unpinned() const { return unpinned_; }

 private:
  struct Fetch {
    std::uint64_t task = 0;
    std::vector<PageKey> keys = {};
    std::string tenant = {};  // whose they are; empty: nobody's
    Sequence there = {};  // the device's pages before `next`, held
    std::size_t begin = 0, next = 0, end = 0;
    std::optional<double> per_token = {};
    bool is_below = false;   // waits for what is behind the host
    bool is_rising = false;  // what it lacks
    bool is_over = false;    // whatever is there now it goes on with
  };
  /// Pages on their way up: those of a chain from `first` on, out of the host's `from` into `to`.
  struct Rise {
    std::vector<PageKey> keys;
    std::size_t first = 0;
    Sequence from, to;
    std::int64_t began = 0;
    bool is_beside = false;  // of other work, which its time says nothing about
  };
  /// The same down: out of the device's `from`, in their order, into `to`.
  struct Lowering {
    std::vector<PageKey> keys;
    std::size_t first = 0;
    std::vector<Page> from;
    Sequence to;
  };

  bool host_has(Page page) const;
  void published(Page page) override;
  void dropped(Page page) override;
  bool look(Fetch& fetch) const;
  bool pays(Fetch& fetch);
  bool advance(Fetch& fetch, bool may_rise, std::int64_t now);
  bool rise(Fetch& fetch, std::int64_t now);
  bool is_rising(const PageKey& key, std::size_t at) const;
  Result<bool> has_risen(std::int64_t until);
  void take_risen(std::int64_t now, std::optional<std::int64_t> until);
  void hear_below(std::int64_t now, std::chrono::nanoseconds most);
  void lower();
  std::size_t next_run(std::size_t most) const;
  void forget_waiting(std::size_t count);
  bool lower_next(std::vector<Lowering>& begun, std::vector<PageCopies::One>& copies);
  void take_lowered(bool waits);
  void give_up(const Error& error);

  KvPages& pages_;
  PageCopies& copies_;
  KvPool& host_;
  PageSource* below_;
  bool others_read_;
  ReadGuard guard_;
  std::vector<Fetch> fetches_;
  std::vector<Rise> rises_;          // under way, all of them
  std::vector<Lowering> lowerings_;  // the same
  std::deque<PageKey> backlog_;      // each behind the one that it follows
  std::set<PageKey> waiting_;        // those
  std::vector<bool> is_lowered_;     // by page of the device: it is being read
  std::vector<Ready> below_ready_;
  Counts counts_;
  std::optional<Error> failed_;  // amid another's work, to be dealt with
  std::string off_, unpinned_;
};

}  // namespace sluice
