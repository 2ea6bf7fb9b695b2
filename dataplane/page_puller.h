// Pulls pages from other machines: asks who has them, then for their content, which it checks.
//
// A pull is: a question to several peers how much of a chain they have; the caller's choice whether
// that is worth it; some pages in flight until all are there. It ends once, with one status,
// whatever the peers do: answer late, wrongly, in part, or never. Each page is compared with what
// was asked for (peer, incarnation, place, key, length) and its CRC-32C with its content; the first
// that differs ends the pull. Peers that failed are left alone for a while. Each page goes where
// the caller says, which nobody looks at before it was checked there. What comes for a pull that
// has ended is dropped, and counts as in flight until then: a slow way is not filled with more.
// - Memory of a peer that this side can read: it asks for places instead of content, and reads the
//   pages there, each with the stamp behind it (`PageRegion`). One that was given up meanwhile is a
//   miss, and for a while that peer's pages come in messages.
// - Early, beside the question how many pages there are, or instead of it where those are all: who
//   is likely to have them is asked for the first places; of few small pages, unless this side can
//   copy them from where they stand, for the content.
// Thread: one. Units: bytes; nanoseconds of a clock that rises. Source: omni-flow, section 4.2.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/peer_port.h"
#include "dataplane/numbered.h"
#include "dataplane/page_answers.h"
#include "dataplane/page_region.h"

namespace sluice {

enum class PullEnd : std::uint8_t {
  done,     // all that was asked for came
  nobody,   // no peer has any
  missing,  // the peer had fewer than it said
  busy,     // the peer serves too much
  late,     // no answer, or not to its end, in time
  lost,     // the peer is gone
  broken,   // a page was another than asked for, or other bytes
  refused,  // the peer does not answer these questions
  changed,  // a page that was read where it stands had been given up, or is another
};
inline constexpr std::size_t pull_ends = 9;

struct PullEvent {
  enum class Kind : std::uint8_t { found, page, ended };
  Kind kind = Kind::ended;
  std::uint64_t pull = 0;
  PeerLife peer;
  std::size_t pages = 0;          // found: leading ones; page: its number in the pull
  PullEnd end = PullEnd::nobody;  // of an ended one
  Ref<Buffer> place;              // of a page: where it is, checked
  bool is_read = false;           // of a page: where it stood
  bool has_come = false;          // found: with their content
};

/// To be read where it stands, into its place, with its stamp.
struct PageRead {
  std::uint64_t number = 0;
  PeerLife peer;
  RemoteRegion::Part content, stamp;  // of the peer's region
  pages::PageHead head;               // what is read is whole if it is this (`is_whole`)
  Ref<Buffer> place;
};

class PagePuller {
 public:
  static constexpr std::int64_t find_patience = 250'000'000;    // and without an early page
  static constexpr std::int64_t page_patience = 1'500'000'000;  // without a page
  static constexpr std::int64_t pull_patience = 5'000'000'000;
  static constexpr std::int64_t first_pause = 1'000'000'000, longest_pause = 60'000'000'000;
  static constexpr std::size_t peers_asked = 8;                          // of one pull
  static constexpr std::size_t in_flight_most = std::size_t{16} << 20U;  // of one peer, or one ask
  static constexpr std::size_t read_most = 2 * in_flight_most;  // the same where they are read
  static constexpr std::size_t questions_most = 32;             // of each kind, to one peer
  static constexpr std::size_t early_pages_most = pages::brief_pages_most;

  /// `early_most`: so many bytes, of few pages, are asked for before it is known what there is.
  explicit PagePuller(const pages::Hello& self, std::size_t early_most = 0)
      : self_(self), early_most_(early_most) {}

  /// It has proved that it means the same by its pages (`PageHandshake`): it is asked from now on.
  void met(PeerLife peer, const pages::Hello& hello, std::int64_t now);
  /// Somebody could be asked now.
  bool has_peers(std::int64_t now) const;
  /// This one could be.
  bool may_ask(PeerLife peer, std::int64_t now) const;
  /// Who has the first of these, at most `pages::keys_most`? Asked are `first`, who may well have
  /// them, and those behind the last one that was asked. False: there is nobody to ask.
  /// `wants_content`: of few small pages, with the answer. Requires: a new number, not 0; keys.
  bool begin(std::uint64_t pull, std::vector<PageKey> keys, std::int64_t now,
             std::optional<PeerLife> first = {}, bool wants_content = true);
  /// The same where somebody else has said that `peer` has the first `pages`: nobody is asked, and
  /// it is found. False: that peer is not to be asked. Requires: `pages` keys, not none.
  bool begin_at(std::uint64_t pull, std::vector<PageKey> keys, PeerLife peer, std::size_t pages,
                std::int64_t now);
  /// The same where this side has looked into `peer`'s region, which is near, and knows where the
  /// first stand. False: that peer's pages are not to be read. Requires: not more places than keys.
  bool begin_near(std::uint64_t pull, std::vector<PageKey> keys, PeerLife peer,
                  std::vector<pages::Place> places, std::int64_t now);
  /// Of those that could be asked now, at most `peers_asked`, whose regions are near and can be
  /// read. `is_all`: there are no others.
  struct Near {
    struct Peer {
      PeerLife life;
      std::uint64_t incarnation = 0;  // of its pool
      std::uint32_t pages = 0;        // of its region
    };
    std::vector<Peer> peers;
    bool is_all = true;
  };
  Near near(std::int64_t now) const;
  /// The first of them, as many as are wanted. One that has ended: nothing happens. Requires: so
  /// many were found, and not none.
  void fetch(std::uint64_t pull, std::size_t pages, std::int64_t now);
  /// Where the next of those go, which hold a page each: what is known of them is read from now on.
  /// Requires: all have theirs before anything else is told or taken, but `take_out`, `take_reads`.
  void place(std::uint64_t pull, std::vector<Ref<Buffer>> places, std::int64_t now);
  /// Ends it without an event. One that there is not: nothing happens.
  void cancel(std::uint64_t pull);

  /// `body`: the end of the message, where it stands elsewhere; not looked at afterwards.
  void take(PeerLife peer, pages::Bytes message, std::int64_t now, const Ref<Buffer>& body = {});
  void lost(PeerLife peer, std::int64_t now);

  /// What the peer says of its region is to be taken: it is of this life, and the first.
  bool is_to_open(PeerLife peer, const pages::Region& region);
  /// The peer's pages can be read where they stand, so many, until `closed`. `is_near`: as of
  /// `RemoteRegion`.
  void opened(PeerLife peer, std::uint32_t pages, bool is_near = false);
  void closed(PeerLife peer);
  /// Of a `PageRead`: its stamp, the page being in its place; null: it could not be read.
  void read_ended(std::uint64_t number, const Ref<Buffer>& stamp, std::int64_t now);
  /// The same, where somebody has looked at both: whether they are whole; none: as null.
  void verified(std::uint64_t number, std::optional<bool> is_whole, std::int64_t now);
  /// What is to be read, since the last time. Each ends once, whatever becomes of its pull.
  std::vector<PageRead> take_reads() { return std::exchange(reads_, {}); }

  /// Ends what has taken too long.
  void tick(std::int64_t now);

  /// What is to be sent, and what happened, since the last time.
  std::vector<PeerMessage> take_out() { return std::exchange(out_, {}); }
  std::vector<PullEvent> take_events() { return std::exchange(events_, {}); }
  bool has_events() const { return !events_.empty(); }
  std::size_t pulls() const { return pulls_.size(); }
  /// Messages that nobody waited for.
  std::uint64_t stale() const { return stale_; }

 private:
  struct Peer {
    std::uint64_t incarnation = 0;        // of its pool
    std::set<std::uint64_t> finds;        // questions that it has not answered, wanted or not
    std::size_t asks = 0, in_flight = 0;  // the same for pages, and their bytes
    std::int64_t pause = 0, until = 0;    // left alone
    bool has_told = false;                // its region, as it does once
    std::uint32_t pages = 0;              // that can be read where they stand
    bool is_near = false;                 // by this process' copying them
    std::int64_t read_pause = 0, read_until = 0;  // not read there, as a page had changed
  };
  /// A page with its message, which it is a view of.
  struct Held {
    pages::PageContent page;
    pages::Bytes message;
    Ref<Buffer> body;
  };
  struct Question {
    std::uint64_t pull = 0;  // 0: nobody wants the answer any more
    PeerLife peer;
    std::size_t first = 0, count = 0, got = 0;
    std::size_t reading = 0;             // of those that were got, not read yet
    std::optional<pages::End> end = {};  // no more comes
    bool for_places = false, is_near = false;  // what is asked for; nobody was, this side looked
    // What came before the pull was to be fetched.
    std::vector<pages::Place> early = {};
    std::vector<Held> held = {};
  };
  struct Reading {
    std::uint64_t question = 0;
    PeerLife peer;
    pages::PageHead head;
    Ref<Buffer> place;
  };
  /// How a page came, before an event says so: others ahead of it may still be on their way.
  enum class Came : std::uint8_t { not_yet, sent, read };
  struct Pull {
    std::vector<PageKey> keys;
    std::map<std::uint64_t, PeerLife> finds;  // not answered, by question
    std::size_t found = 0;
    PeerLife peer;  // that has most
    bool is_fetching = false;
    std::size_t wanted = 0, asked = 0, got = 0;
    std::vector<Ref<Buffer>> places;  // one for each page that is wanted
    std::int64_t began = 0, heard = 0;
    std::set<std::uint64_t> questions;
    std::uint64_t first_asked = 0;  // of those, the one that was early; 0: none
    std::vector<Came> came = {};    // of each page that is wanted
  };
  using Questions = std::map<std::uint64_t, Question>;
  using Pulls = std::map<std::uint64_t, Pull>;

  static bool may_read(const Peer& peer) { return peer.pages > 0 && peer.read_until == 0; }
  static bool may_be_asked(const Peer& peer, std::int64_t now) {
    return peer.until <= now && peer.finds.size() < questions_most;
  }
  void take_found(PeerLife peer, const pages::Found& found);
  /// Of those that were asked how many there are, one has so many.
  void take_count(std::uint64_t id, Pull& pull, PeerLife peer, std::size_t pages);
  void take_page(PeerLife peer, Held page, std::int64_t now);
  /// Where it goes, if it is what was asked for. False: the pull has ended.
  bool put(const Question& question, const pages::PageContent& page, std::int64_t now);
  void take_place(PeerLife peer, const pages::Place& place, std::int64_t now);
  void read(Questions::iterator question, const pages::Place& place);
  /// How many there are; and of one who is likely to have them, early, for the first themselves.
  void ask_first(std::uint64_t id, Pull& pull, PeerLife life, bool is_likely, bool wants_content);
  void take_early(Pull& pull);
  void read_early(Pull& pull, std::int64_t now);
  /// What was asked for has come, or never will.
  void forget(Questions::iterator question);
  void take_end(PeerLife peer, const pages::End& end, std::int64_t now);
  /// Of one that somebody waits for. `is_place`: and not its content.
  bool is_asked_for(const Question& question, const pages::PageHead& head, bool is_place) const;
  /// In the order of the pull's pages.
  void arrive(const Question& question, std::size_t page, bool is_read, std::int64_t now);
  void finish(Questions::iterator at, std::int64_t now);
  void found_all(std::uint64_t id, Pull& pull);
  void ask_more();
  void ask(std::uint64_t id, Pull& pull, Peer& peer);
  bool ask(std::uint64_t id, Pull& pull, Peer& peer, PeerLife life, std::size_t count,
           bool for_places);
  void took(PeerLife peer, std::uint64_t receipt);
  void drop(Pulls::iterator at);
  void end(Pulls::iterator at, PullEnd how, std::int64_t now);
  void leave_alone(PeerLife peer, std::int64_t now);

  pages::Hello self_;
  std::size_t early_most_;
  std::map<PeerLife, Peer> peers_;
  Pulls pulls_;
  Questions questions_;  // for pages
  Numbered<Reading> reading_;
  std::uint64_t next_question_ = 1;
  PeerLife last_asked_{};  // in their order
  std::vector<PeerMessage> out_;
  std::vector<PullEvent> events_;
  std::vector<PageRead> reads_;
  std::uint64_t stale_ = 0;
};

}  // namespace sluice
