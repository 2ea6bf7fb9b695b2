// A pool whose owner gives pages up and writes others in their place meanwhile, and what copies
// them without asking it: the reader of a memory that it shares with the owner.
//
// Thread: the owner's is its own; a `Copier` is one reader's, which may act as the owner besides.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/page_puller.h"
#include "dataplane/page_region.h"
#include "dataplane/page_server.h"
#include "dataplane/page_table.h"
#include "soak_pages.h"

namespace sluice::soak {

inline constexpr std::size_t keys_there = 64;
inline constexpr std::uint32_t slots = 60;
inline constexpr PageRegion region{slots, page_bytes};

class ChangingPages final : private PageWatcher {
 public:
  struct Entry {
    Page page = no_page;  // none: it is not there
    std::uint64_t generation = 0;
  };

  /// `memory`: where they stand, and their stamps behind them; null: memory of their own.
  explicit ChangingPages(const Contents& contents, Ref<Buffer> memory = {});
  ~ChangingPages() override;
  ChangingPages(const ChangingPages&) = delete;
  ChangingPages& operator=(const ChangingPages&) = delete;

  const Contents& contents() const { return contents_; }
  Entry find(std::size_t number) const {
    const std::lock_guard lock(mutex_);
    return entries_[number];
  }
  /// Where it stands, with its stamp; none: it is not there.
  std::optional<PlacedPage> place(std::size_t number, std::uint64_t incarnation);
  /// Whatever stands there now.
  void copy(Page page, std::size_t from_word, std::size_t end_word, std::byte* to) const;
  /// As the owner does: gives up the page, if it has something, for another content.
  void replace(Page page);
  std::uint64_t replaced() const { return replaced_.load(std::memory_order_relaxed); }
  /// The owner begins anew soon, with generations that there were before.
  void restart() { restarts_.store(true, std::memory_order_relaxed); }
  /// A page was copied: the owner replaces one for some of them.
  void copied() {
    if (copied_.fetch_add(1, std::memory_order_relaxed) % copies_a_page == 0) wake_owner();
  }

 private:
  static constexpr std::uint64_t copies_a_page = 4;

  void run();
  void wake_owner() {
    turns_.fetch_add(1, std::memory_order_release);
    turns_.notify_one();
  }
  void begin_anew();
  void publish_another();
  void publish(std::size_t number);
  void published(Page) override {}
  void dropped(Page page) override;
  void write_stamp(Page page, std::span<const std::byte> stamp);

  const Contents& contents_;
  std::vector<std::atomic<std::uint64_t>> own_;
  const Ref<Buffer> memory_;
  std::span<std::atomic<std::uint64_t>> words_;  // in one of these
  mutable std::mutex mutex_;
  std::array<Entry, keys_there> entries_{};
  std::mutex owner_mutex_;            // whoever acts as the owner has it
  std::unique_ptr<PageTable> table_;  // the owner's, as what follows
  Page next_ = no_page;               // goes next, if it can
  std::vector<CopyPage> copies_;
  SplitMix64 random_{2};
  std::atomic<std::uint64_t> replaced_{0}, copied_{0}, turns_{0};
  std::atomic<bool> restarts_{false}, ends_{false};
  std::thread owner_;
};

/// Gives pages away as `PageServer` asks for them. Now and then the page is replaced before, or
/// amid it.
class Copier final : public PageLookup {
 public:
  /// `incarnation`: of the stamps.
  Copier(ChangingPages& pages, std::uint64_t seed, bool is_blind, std::uint64_t incarnation = 0)
      : pages_(pages), random_(seed), is_blind_(is_blind), incarnation_(incarnation) {}

  bool has(const PageKey& key) const override;
  std::optional<ServedPage> append(const PageKey& key, pages::Bytes& to) override;
  std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) override;
  std::optional<PlacedPage> place(const PageKey& key) override;

 private:
  void maybe_replace(Page page);

  ChangingPages& pages_;
  SplitMix64 random_;
  bool is_blind_;
  std::uint64_t incarnation_;
};

pages::Hello hello_of(std::uint64_t incarnation);

/// Asks for pages, one pull after the other, and looks at what comes.
class Asker {
 public:
  Asker(const Contents& contents, std::size_t keys_a_pull, std::uint64_t seed)
      : contents_(contents), keys_a_pull_(keys_a_pull), random_(seed) {}

  void met(PeerLife peer);
  void lost(PeerLife peer);
  void begin();
  void take(PeerLife peer, pages::Bytes message);
  /// What was asked takes too long.
  void tick();
  bool is_over() const { return is_over_; }
  /// The peer's pages are read where they stand.
  void open(PeerLife peer) { puller_.opened(peer, slots); }
  std::vector<PageRead> take_reads() { return puller_.take_reads(); }
  void read_ended(std::uint64_t number, const Ref<Buffer>& stamp, bool is_whole);
  std::vector<PeerMessage> take_out() { return puller_.take_out(); }

  Tally tally;

 private:
  void take_events();
  std::int64_t now() const;
  std::vector<Ref<Buffer>> places(std::size_t count);

  const Contents& contents_;
  std::size_t keys_a_pull_;
  SplitMix64 random_;
  PagePuller puller_{hello_of(0)};
  std::uint64_t pull_ = 0;
  std::vector<PageKey> asked_;
  std::vector<Ref<Buffer>> places_;  // used again when nobody writes there any more
  bool is_over_ = true;
  std::int64_t ahead_ = 0;  // its clock: pauses of peers pass at once
};

}  // namespace sluice::soak
