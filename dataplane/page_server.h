// Answers questions for pages: a state machine beside the pool that has them.
//
// Only who has proved the pool's secret (`PageHandshake`, then `met`) is answered, and only for
// keys, which nobody guesses who lacks it. What a peer may be owed is bounded: every answer ends
// with a receipt, which nobody can know before it was read, and counts until its receipt came back.
// An answer has at most `pages::ask_bytes_most` bytes, or one page; or it says where so many more
// pages stand (`pages::places_bytes_most`), for a peer that reads them by itself. A peer that does
// not read its answers is told that this server is busy, and then nothing more. Pages are copied
// one by one (`go_on`), so whoever owns them waits for one. Thread: one. Units: bytes. Source:
// omni-flow, section 4.2 (transfer).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "base/peer_port.h"
#include "dataplane/page_messages.h"

namespace sluice {

/// What a page was read under.
struct ServedPage {
  std::uint64_t generation = 0;
  std::uint32_t crc32c = 0;  // of the content as it was published
};

/// Where one stands that peers may read by themselves.
struct PlacedPage {
  ServedPage served;
  std::uint32_t page = 0;  // of the region
};

/// The pages that may be given away.
class PageLookup {
 public:
  virtual ~PageLookup() = default;
  virtual bool has(const PageKey& key) const = 0;
  /// Appends its content. None: it is not there, or was given up meanwhile; anything may have been
  /// appended then.
  virtual std::optional<ServedPage> append(const PageKey& key, pages::Bytes& to) = 0;
  /// The same into memory of a page's size.
  virtual std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) = 0;
  /// Where it stands, with its stamp. None: it is not there, or stands in no region.
  virtual std::optional<PlacedPage> place(const PageKey& key) {
    static_cast<void>(key);
    return std::nullopt;
  }
};

namespace pages {

// What an answer says, by whichever way it goes (`PageServer`, `answer_briefly`).

/// How many leading ones of these are there.
std::uint32_t leading_pages(std::span<const PageKey> keys, const PageLookup& lookup);
/// Of the page `index` that is asked for.
PageHead head_of(const Ask& ask, std::uint32_t index, const Hello& self, const ServedPage& page);
/// Where those stand that are asked for, as far as they are there.
std::vector<Place> places_of(const Ask& ask, const Hello& self, PageLookup& lookup);

}  // namespace pages

struct PeerMessage {
  PeerLife peer;
  pages::Bytes bytes;
  Ref<Buffer> body = {};  // its end, where that stands elsewhere
};
/// Memory that the peer reads in place. Null: its content goes in the message.
using MakeBody = std::function<Ref<Buffer>(PeerLife to, std::size_t size)>;

struct PageServerCounts {
  std::uint64_t pages = 0, bytes = 0;  // sent
  std::uint64_t placed = 0;            // pages of which the place was told
  std::uint64_t missing = 0;           // questions whose pages were not all there
  std::uint64_t busy = 0;              // refused: too much is owed
  std::uint64_t refused = 0;           // messages of strangers, too many of one peer, or none

  PageServerCounts& operator+=(const PageServerCounts& other);
};

class PageServer {
 public:
  static constexpr std::size_t owed_most = std::size_t{32} << 20U;  // to one peer, or one page
  static constexpr std::size_t answers_most = 128;  // not taken yet, of one peer: then it is busy
  static constexpr std::size_t replies_most = 256;  // then nothing is answered

  /// `receipts`: random, and told nobody.
  PageServer(const pages::Hello& self, const PageKeys::Secret& receipts)
      : self_(self), receipts_(receipts) {}

  void met(PeerLife peer) { peers_[peer]; }
  void lost(PeerLife peer);
  /// A message of a peer; appends what is answered at once. Others than questions are not for a
  /// server.
  void take(PeerLife peer, const pages::Message& message, const PageLookup& lookup,
            std::vector<PeerMessage>& out);
  /// Answers with pages are under way.
  bool has_more() const { return !answers_.empty(); }
  /// Appends the next page of the one that was asked for first, or its end; or all its places.
  void go_on(PageLookup& lookup, std::vector<PeerMessage>& out, const MakeBody& make = {});
  /// That a note has arrived. False: too much is owed, and the note does not count.
  bool take_note(PeerLife peer, std::uint64_t id, std::vector<PeerMessage>& out);
  /// A message that is refused elsewhere, or bytes that are none.
  void take_nonsense() { ++counts_.refused; }

  const PageServerCounts& counts() const { return counts_; }
  /// Not taken yet, of one peer.
  std::size_t owed(PeerLife peer) const;

 private:
  struct Reply {
    std::uint64_t receipt = 0;
    std::size_t bytes = 0;  // of pages
  };
  struct Peer {
    std::deque<Reply> replies;  // not taken, in the order in which they were sent
    std::size_t answers = 0;    // with pages, under way
    std::size_t owed = 0;       // bytes of both
  };
  struct Answer {
    PeerLife peer;
    pages::Ask ask;
    std::uint32_t sent = 0;
  };

  void begin(PeerLife peer, Peer& known, const pages::Ask& ask, std::vector<PeerMessage>& out);
  /// A receipt for what is sent now.
  std::uint64_t reply(Peer& known, std::size_t bytes);
  std::size_t owed_for(const pages::Ask& ask, std::size_t count) const {
    return ask.for_places ? 0 : count * self_.page_bytes;
  }
  /// False: it is not there.
  bool send_page(const Answer& answer, PageLookup& lookup, std::vector<PeerMessage>& out,
                 const MakeBody& make) const;
  static void took(Peer& known, std::uint64_t receipt, PageServerCounts& counts);

  pages::Hello self_;
  PageKeys receipts_;
  std::uint64_t replies_ = 0;
  std::map<PeerLife, Peer> peers_;  // who has proved to mean the same by its pages
  std::deque<Answer> answers_;
  PageServerCounts counts_;
};

}  // namespace sluice
