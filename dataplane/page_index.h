// One pool's side of the index of pages that a cluster's machines share: what this machine tells
// of its own pages, what it asks for others', and what the answers mean.
//
// The pool is the truth, and the index what it has told: changes in batches, in the order in which
// they happened, each batch with a number. Where the index does not know the batch before (it was
// emptied, or has older data), or has other data than it had, all is told anew, from the page that
// was published first on; what changes meanwhile goes with it. A page that comes and goes between
// two batches is not told. What is told holds for a lease, and is told again before that. Whoever
// asks is answered once: by whom the index knows, or, where it is away, slow or makes no sense, by
// nothing within `find_patience`. Answers are hints: who is asked for a page may have given it up,
// and every page is checked. Pages are named by half of their keys, so that the server knows no
// key. Pure. Thread: one at a time. Bounds: changes that wait are as many as pages that were told
// and are there. Cost: a turn looks at a batch of pages, however many there are.
// Source: runtime/redis/page_index.lua; docs/POOL.md.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index_port.h"
#include "base/peer_port.h"
#include "dataplane/page_key.h"

namespace sluice {

struct PageProvider {
  PeerLife peer;
  std::size_t pages = 0;  // leading ones of those that were asked for
  bool operator==(const PageProvider&) const = default;
};

class PageIndex final : public IndexClient {
 public:
  static constexpr Instant find_patience{50'000'000}, tell_patience{250'000'000};
  static constexpr Instant linger{1'000'000};  // for changes that follow
  static constexpr Instant first_pause{100'000'000}, longest_pause{5'000'000'000};
  static constexpr Instant first_full_pause{1'000'000'000}, longest_full_pause{60'000'000'000};
  static constexpr std::size_t batch_most = 512;            // pages
  static constexpr std::size_t finds_most = 64;             // that wait
  static constexpr std::size_t providers_most = 8;          // of an answer
  static constexpr std::size_t pages_asked_most = 4096;     // of a question
  static constexpr std::uint64_t pages_told_most = 262144;  // by all machines, of one pool
  static constexpr int keep_leases = 8;  // how long a silent machine's pages are kept

  struct Settings {
    std::string base;  // the keys' beginning
    PeerLife self;
    std::chrono::milliseconds lease{3000};
    std::string epoch;  // the name of new data
    // Changes are numbered behind it. A later pool of this name in this life has a higher one than
    // any number of an earlier pool's, or its changes would be taken for those told again.
    std::uint64_t start = 0;
    std::size_t batch = batch_most;
  };
  struct Found {
    std::uint64_t id = 0;
    bool is_answered = false;
    std::vector<PageProvider> providers = {};  // who has most pages first
  };
  struct Counts {
    std::uint64_t asked = 0, found = 0;  // prompts; those of which somebody has some
    std::uint64_t unanswered = 0;        // in time
    std::uint64_t told = 0, anew = 0;    // changes; how often all was told
    bool operator==(const Counts&) const = default;
  };

  /// Requires: `start` is far below 2^52.
  explicit PageIndex(Settings settings);

  // What happens in the pool, in its order.
  void published(const PageKey& key, Instant now);
  void dropped(const PageKey& key, Instant now);

  /// Who has the first of these? False: it is not to be asked now. Requires: a new number, keys.
  bool find(std::uint64_t id, std::span<const PageKey> keys, Instant now);
  void forget(std::uint64_t id);
  /// What was answered since the last time, and what will not be.
  std::vector<Found> take_found(Instant now);

  std::optional<IndexQuestion> ask(Instant now) override;
  Instant due() const override;
  void answered(std::uint64_t number, const std::vector<std::string>& words, Instant now) override;
  void refused(std::uint64_t number, const std::string& why, Instant now) override;
  void broke(const std::string& why, Instant now) override;
  std::vector<std::string> farewell() const override;

  const Counts& counts() const { return counts_; }
  /// Why it is not used; empty: it is.
  const std::string& down() const { return down_; }
  /// All that happened has been told and taken.
  bool is_told() const { return state_ == State::known && !has_changes() && open_changes_ == 0; }

 private:
  using Name = std::array<std::uint64_t, 2>;
  /// Told, and given up since.
  struct Gone {
    Name page{};
    std::uint64_t order = 0;  // that it had
  };
  struct Leaving {
    std::map<std::uint64_t, Gone> pages;  // in the order in which they were given up
    std::map<Name, std::uint64_t> numbers;
  };
  struct Find {
    std::vector<std::string> names;
    Instant until{};
  };
  /// unknown: all is to be told. known: what changes is. full: there is no room, so nothing is
  /// there of this machine. fenced: a later life of this machine tells.
  enum class State : std::uint8_t { unknown, known, full, fenced };
  enum class Open : std::uint8_t { nothing, tell, find, leave };

  static std::string text_of(const Name& name);
  bool is_mute() const { return state_ == State::fenced || (state_ == State::full && !leaves_); }
  bool may_find(Instant now) const;
  std::vector<std::string> command(const char* function) const;
  bool has_changes() const {
    return !leaving_.pages.empty() || (!pages_.empty() && pages_.rbegin()->first > cursor_);
  }
  void note_change(Instant now);
  void forget_some();
  void make_batch();
  // Whether an answer makes sense.
  bool take_providers(const std::vector<std::string>& words);
  bool take_standing(const std::vector<std::string>& words, Instant now);
  bool take_leave(const std::vector<std::string>& words, Instant now);
  /// The index has not what was told: all will be told.
  void lose_standing();
  void no_room(Instant now);
  void pause(const std::string& why, Instant now);

  const Settings settings_;
  std::map<std::uint64_t, Name> pages_;  // of the pool: each behind the one that it follows
  std::map<Name, std::uint64_t> orders_;
  std::uint64_t cursor_ = 0;       // up to here pages have been told, or are in the batch
  Leaving leaving_;                // not told yet
  std::vector<Leaving> obsolete_;  // of data that the index has lost: to be freed by and by
  std::uint64_t next_order_ = 1;

  State state_ = State::unknown;
  std::vector<std::string> batch_;  // until it is taken: it is repeated as it was
  std::size_t open_changes_ = 0;    // of the batch
  bool is_anew_ = false;            // the batch
  std::uint64_t number_;            // of the last batch
  std::string epoch_;               // of the index that took it

  std::map<std::uint64_t, Find> finds_;
  std::set<std::uint64_t> waiting_;  // of those, not asked
  std::vector<Found> found_;

  std::uint64_t asked_ = 0;
  Open open_kind_ = Open::nothing;
  std::uint64_t open_find_ = 0;
  Instant asked_at_{}, renew_at_{}, linger_until_{};
  Instant resume_at_{}, pause_{};  // after an answer that was none
  bool leaves_ = false;            // of one that is full: what was there is to go
  Instant full_until_{}, full_pause_{};
  std::string down_ = "it has not been reached yet";
  Counts counts_;
};

}  // namespace sluice
