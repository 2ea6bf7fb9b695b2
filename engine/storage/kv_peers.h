// The pool's pages on other machines: given to them, and pulled before a prompt is computed.
//
// Joins what decides (`PageHandshake`, `PageServer`, `PagePuller`, `ReadGuard`) with a pool and a
// port. Questions are answered on the port's thread, or the way's on which pages are read
// (`PageGuide`), page by page, from what is published; what comes for this pool waits for its
// owner, for each peer as much as this side has asked it for. A page that memory has is not pulled,
// and prompts that begin alike share one pull. What stands in memory that is mapped here is found
// there without a question; else the port's index is asked, where there is one, and who it names
// for the pages at once; else the machines, and where it named one that has given them up. What is
// pulled comes into pages of the pool that nobody may find before they were checked
// (`IncomingPages`); it is held until its pull ends, and becomes cache then, in the order of its
// chain. Where the port has memory that machines read by themselves pages are read where they
// stand; else their content comes in messages. Where pulling fails or costs too much the prompt is
// computed; a counter says why. Users of the pools may `tell` each other something. What others
// publish may be pulled before anybody asks (`preload`), one run at a time, while no task waits.
// Thread: the pool's owner; counts from any. Source: omni-flow, section 4.2.
#pragma once

#include <array>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/pool_report.h"
#include "dataplane/numbered.h"
#include "dataplane/page_handshake.h"
#include "dataplane/page_preloads.h"
#include "dataplane/read_guard.h"
#include "engine/storage/kv_fetch.h"
#include "engine/storage/kv_index.h"
#include "engine/storage/kv_news.h"
#include "engine/storage/page_questions.h"
#include "engine/storage/page_source.h"

namespace sluice {

class KvPeers final : public PageSource,
                      private PeerPort::Listener,
                      private RemoteRegion::Listener {
 public:
  static constexpr std::size_t inbox_slack = std::size_t{4} << 20U;  // beside what was asked for
  static constexpr std::size_t news_overhead = 128;                  // of a message that waits
  static constexpr std::size_t tells_most = 256;                     // that have not arrived
  static constexpr std::size_t tell_bytes_most = std::size_t{8} << 20U;  // of those
  /// Of one machine, until the role that they are for takes them: it may be idle for long.
  static constexpr std::size_t words_most = 4096;
  static constexpr std::size_t words_bytes_most = std::size_t{32} << 20U;
  /// The owner is told of so many pages at once that were read where they stand, or of the last.
  static constexpr std::size_t reads_at_once = 32;
  static constexpr std::size_t early_most = pages::brief_bytes_most;  // `PagePuller`'s
  static constexpr std::size_t places_first = 64;  // of a pull, before the others are made room for
  static constexpr std::chrono::seconds leaving_most{2};  // at the end, for reads under way

  struct Counts {
    std::uint64_t pulled = 0, pulled_bytes = 0;   // pages that came and were put into the pool
    std::uint64_t read = 0;                       // of those, where they stood
    std::uint64_t not_read = 0;                   // reads where they stand that brought nothing
    std::array<std::uint64_t, pull_ends> ends{};  // of pulls, by `PullEnd`
    PoolTimes times = {};                         // of pulls that brought pages
    std::uint64_t not_worth = 0;                  // prompts for which computing is quicker
    std::uint64_t stale = 0;                      // messages that nobody waited for
    PageServerCounts served;
    std::optional<KvIndexCounts> index = {};            // none: there is none
    std::uint64_t told = 0;                             // pages of which others were told
    std::optional<PagePreloads::Counts> preloads = {};  // none: nothing is preloaded
  };
  struct Word {
    PeerLife from;
    pages::Bytes text;
  };

  /// Borrows both; the pool was made with the port's secret. `name`: of the pool, the same on all
  /// machines. Where another pool has the name (`is_open`: not) nothing is given and nothing
  /// pulled. `memory`: of the port's, a region with the pool's pages; null: nobody else reads them.
  KvPeers(KvPool& pool, PeerPort& port, const std::string& name, Ref<Buffer> memory = {});
  ~KvPeers() override;
  KvPeers(const KvPeers&) = delete;
  KvPeers& operator=(const KvPeers&) = delete;

  bool begin(std::uint64_t task, const RowsOrigin& origin, std::span<const std::int32_t> tokens,
             std::optional<double> per_token, std::int64_t now) override;
  void forget(std::uint64_t task) override;
  void poll(std::int64_t now, std::vector<Ready>& ready,
            std::chrono::nanoseconds most = {}) override;
  bool is_waited_for() const override;
  std::size_t pages_awaited() const override;
  bool holds_pages() const override;

  /// Moves on what is pulled before anybody asks, where no task waits for pages. `wanted`: pages
  /// that tasks will take, which are left to them. True: there is more to do, soon.
  bool preload(std::optional<double> per_token, std::size_t wanted, std::int64_t now);
  void drop_preload();  // gives up what is under way of that, for its pages
  /// Until `preload` has something to do, or `stop_waiting` was called: true. Thread: another.
  bool wait_for_news(std::chrono::nanoseconds most);
  void stop_waiting();

  bool is_open() const { return is_open_; }
  bool preloads() const { return preloads_.has_value(); }
  PeerLife self() const { return port_.self(); }
  /// Whom tasks that begin from now on ask first: who has read their prompts. None: nobody.
  void ask_first(std::optional<PeerLife> peer) { first_ = peer; }
  std::optional<PeerLife> asked_first() const { return first_; }
  /// The first page that memory lacks of these is on its way here.
  bool is_pulling(const RowsOrigin& origin, std::span<const std::int32_t> tokens) const;
  bool has_met(std::uint32_t machine) const;  // ever, any life of it: it has the pool's secret
  std::optional<PageMismatch> mismatch(PeerLife peer) const;  // none: it may be met yet
  /// Tells the users of the pool there, as soon as it has been met. Returns its number.
  std::uint64_t tell(PeerLife peer, pages::Bytes text);
  /// failed: it was not heard, and never will be. unsure: it was on its way.
  enum class Told : std::uint8_t { waiting, arrived, failed, unsure };
  Told told(std::uint64_t number);     // asked about until it does not wait any more
  Told give_up(std::uint64_t number);  // what was not sent by now never is
  std::vector<Word> take_words();

  Counts counts() const;
  std::size_t unheard() const;  // messages, machines met and lost, that the owner has not taken
  const KvIndex* index() const { return index_.get(); }  // null: there is none

 private:
  struct News {
    enum class Kind : std::uint8_t { met, lost, message, region, published, unanswered };
    Kind kind = Kind::message;
    PeerLife peer;
    pages::Bytes message = {};
    pages::Hello hello = {};  // of one that was met
    Ref<Buffer> body = {};    // of a message whose end stands elsewhere
    std::size_t bytes() const { return message.size() + (body ? body->size() : 0); }
  };
  struct Telling {
    PeerLife peer;
    Told how = Told::waiting;
    bool is_sent = false, is_given_up = false;
    std::size_t bytes = 0;
    pages::Bytes text = {};  // until then
  };
  using Fetch = KvFetch;
  using ReadEnd = KvReadEnd;

  void joined(PeerLife peer) override;
  void lost(PeerLife peer) override;
  void arrived(PeerLife peer, std::vector<std::byte> message) override;
  void arrived(PeerLife peer, std::vector<std::byte> message, Ref<Buffer> body) override;
  void read_ended(std::uint64_t number, Ref<Buffer> bytes,
                  std::optional<std::uint32_t> sum) override;
  void reads_ended(std::vector<RemoteRegion::Ended> ended) override;
  void answered(std::uint64_t number, Ref<Buffer> answer) override;
  /// Under the lock, but where it sums what this thread has in its cache.
  void end_read(RemoteRegion::Ended& ended, std::unique_lock<std::mutex>& lock);
  void close_region(PeerLife peer);  // what is read of it ends unheard
  void take_handshake(PeerLife peer, const PageHandshake::Outcome& outcome);
  void met(PeerLife peer, const pages::Hello& hello);
  void hear(PeerLife peer, const pages::Note& note);
  void hear(PeerLife peer, const pages::Noted& noted);
  void serve(PeerLife peer, const pages::Message& message);
  void hold(PeerLife peer, News::Kind kind, pages::Bytes bytes, Ref<Buffer> body);  // for the owner
  void send(std::vector<PeerMessage>& messages);

  std::optional<std::int64_t> compute_time(const Fetch& fetch, std::size_t pages) const;
  bool start(Fetch& fetch, std::int64_t now);
  /// In memory of others that is mapped here. False: they are to be asked.
  bool find_near(Fetch& fetch, std::int64_t now);
  bool ask_index(Fetch& fetch, std::optional<std::int64_t> compute, std::int64_t now);
  bool wants_content(const Fetch& fetch, std::int64_t now) const;
  bool ask_machines(Fetch& fetch, std::int64_t now);
  void take_found(std::int64_t now);
  bool begin_at(Fetch& fetch, const PageIndex::Found& found, std::int64_t now);
  /// Whoever was named has given up what it had: others may have it.
  bool ask_others(Fetch& fetch, PullEnd how, std::int64_t now);
  bool is_news() const;  // under the lock
  void take_news(std::int64_t now);
  void take_read_ends(std::int64_t now);
  void take(News& one, std::int64_t now);
  void take_told(const News& one);
  void take_read(const ReadEnd& one, std::int64_t now);
  /// The peer's pages can be read from now on, if what it says of them can be.
  void reach(PeerLife peer, const pages::Bytes& message);
  void take_events(std::int64_t now, bool waits);
  void found(Fetch& fetch, const PullEvent& event, std::int64_t now);
  /// Asks for the content of what was found, or for as much as there is room for if it `waited`.
  void make_places(Fetch& fetch, bool waited, std::int64_t now);
  void publish_arrived(Fetch& fetch);
  void leave(Fetch& fetch);  // its pages are the pool's again when nobody writes them any more
  void learn(const Fetch& fetch, std::int64_t now, bool waits);
  void begin_preload(std::optional<double> per_token, std::size_t room, std::int64_t now);
  void page_dropped(const PageKey& key);
  void note_preloads();
  void end_fetches(std::int64_t now, std::vector<Ready>& ready);
  bool ask_there(const PeerMessage& question);  // where its pages are read, not by the link
  void send_all();

  KvPool& pool_;
  PeerPort& port_;
  const std::uint64_t channel_;
  const pages::Hello hello_;
  const Ref<Buffer> memory_;
  const PageRegion region_;
  PageExport export_;
  std::optional<PageGuide> guide_;
  KvNews tells_;
  bool is_open_ = false;
  // The owner's.
  PagePuller puller_;
  std::optional<PagePreloads> preloads_;       // none: nothing is preloaded
  bool takes_for_preload_ = false;             // pages, now
  std::map<std::uint32_t, ReadGuard> guards_;  // by machine
  ReadGuard find_guard_, index_guard_;         // of questions, each a "byte"
  std::vector<Fetch> fetches_;
  std::vector<std::unique_ptr<IncomingPages>> left_;  // given up while they were written
  std::uint64_t next_pull_ = 1, next_note_ = 1;
  std::optional<PeerLife> first_;
  std::map<PeerLife, std::unique_ptr<RemoteRegion>> regions_;
  PageQuestions questions_;        // under way to those
  std::set<PeerLife> unreadable_;  // of those, that cannot be reached: said once
  // The listener's, of which one call runs at a time.
  PageHandshake handshake_;
  PageServer server_;
  std::set<PeerLife> known_;  // that were met

  mutable std::mutex mutex_;  // of what follows; held for no page's time
  std::condition_variable news_came_;
  std::list<News> news_;
  struct Reading {
    PeerLife peer;
    std::uint64_t number = 0;  // the puller's
    pages::PageHead head;
    Ref<Buffer> place;
  };
  Numbered<Reading> readings_;                       // under way, by the region's number
  std::vector<ReadEnd> read_ends_;                   // that the owner has not heard of
  bool is_read_amiss_ = false;                       // one of those is not whole
  std::map<std::uint32_t, std::size_t> news_bytes_;  // by machine: lives are its choice
  std::map<std::uint64_t, Telling> telling_;
  std::vector<Word> words_;
  std::set<PeerLife> there_;  // as the port's thread knows it
  std::set<std::uint32_t> met_machines_;
  std::map<PeerLife, PageMismatch> refused_;
  Counts counts_;
  bool index_answered_ = false, was_told_ = false, stops_waiting_ = false;
  std::unique_ptr<KvIndex> index_;  // the first to go: it tells the others
};

std::string_view to_string(PullEnd end);

}  // namespace sluice
