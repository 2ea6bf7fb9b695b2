// Which pages that other machines tell of are pulled before anybody asks for them.
//
// A peer is asked what it publishes (`PageNews`), and asked on as long as not too many that it has
// told of wait here. Of these, in their order, pages that memory has are passed over, and a run of
// others, each behind the one before, is pulled at a time, from who told of them. One whose parent
// is not here is of no use, and missed. What comes may take empty pages; of those that hold
// something that was not preloaded it takes no more than preloads have been worth: each that a
// task uses earns one, beyond an eighth of the pool; and as many each seventeenth time. Each page
// that was told ends once: it was here (`had`), came (`taken`), or did not (`missed`); one that
// came ends once more: it was used (`useful`), or given up before (`wasted`). Pure. Thread: one.
// Bounds: `queued_most` pages of a peer, a run of one question.
// Source: omni-flow, section 4.1 (preload) and 4.2 (notify).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/peer_port.h"
#include "dataplane/page_server.h"

namespace sluice {

class PagePreloads {
 public:
  /// Of one peer: no more than these wait once it has answered.
  static constexpr std::size_t queued_most = 1024;
  static constexpr std::uint32_t tries_after = 16;  // runs that displaced nothing

  struct Run {
    PeerLife peer;
    PageKey parent;  // which is here; zeros: none
    std::vector<PageKey> keys;
  };
  struct Counts {
    std::uint64_t told = 0, had = 0, taken = 0, missed = 0;
    std::uint64_t useful = 0, wasted = 0;
    std::uint64_t displaced = 0;  // pages that a task had used, for those that were taken
    std::uint64_t refused = 0;    // messages that nobody asked for, or that cannot be
    bool operator==(const Counts&) const = default;
  };

  /// `pages`: of the pool.
  explicit PagePreloads(std::size_t pages) : free_credit_(static_cast<std::int64_t>(pages / 8)) {}

  void met(PeerLife peer);
  /// What it has told of and is not under way is missed.
  void lost(PeerLife peer);
  void take(PeerLife peer, const pages::Published& told);

  /// Pages wait to be looked at, and none is under way.
  bool has_more() const { return !run_.has_value() && queued_ > 0; }
  bool is_under_way() const { return run_.has_value(); }
  /// At most `most` pages, which are under way until `ended`. None: nothing is to be pulled now.
  /// `has`: whether memory has a page. `may_ask`: whether a machine may be asked now, else what it
  /// has told of waits; null: all. Requires: none is under way; `most` is not 0.
  std::optional<Run> next(const std::function<bool(const PageKey&)>& has, std::size_t most,
                          const std::function<bool(PeerLife)>& may_ask = {});
  /// Of so many of its pages nobody knows better than that they did not come.
  void ended();
  /// One of the run has become cache. `is_new`: it was not there meanwhile.
  void came(const PageKey& key, bool is_new);

  /// How many pages that are not empty may be given up for a run.
  std::size_t may_displace();
  /// A task has found these in memory.
  void used(std::span<const PageKey> keys);
  /// One was given up; `for_run`: so that one of a run has its place.
  void dropped(const PageKey& key, bool for_run);

  /// What is to be sent, in this order: whoever has sent one takes it out.
  std::vector<PeerMessage>& out() { return out_; }
  std::vector<PeerMessage> take_out() { return std::exchange(out_, {}); }
  const Counts& counts() const { return counts_; }
  /// Pages that came and were neither used nor given up.
  std::size_t unused() const { return unused_.size(); }

 private:
  struct KeyHash {
    std::size_t operator()(const PageKey& key) const { return key.words[0]; }
  };
  struct Peer {
    std::deque<pages::ToldPage> queue;
    std::uint64_t since = 0, mark = 0;
    bool is_asked = false;
    bool is_over = false;  // it made no sense: it is asked no more
  };
  void ask(PeerLife life, Peer& peer);
  std::optional<Run> run_of(PeerLife life, Peer& peer,
                            const std::function<bool(const PageKey&)>& has, std::size_t most);
  void leave(Peer& peer);

  std::map<PeerLife, Peer> peers_;
  PeerLife last_{};  // whose run was last
  std::size_t queued_ = 0;
  std::optional<std::size_t> run_;  // pages of it that have not come
  std::unordered_set<PageKey, KeyHash> unused_;
  const std::int64_t free_credit_;
  std::uint32_t refusals_ = 0;
  Counts counts_;
  std::vector<PeerMessage> out_;
};

}  // namespace sluice
