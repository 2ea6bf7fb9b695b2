// What a pool tells other machines of its published pages, as soon as they are there.
//
// A peer asks for what was published behind a number, and hears it in one message; with the next
// question it says that it has read that one (its mark), so at most one is on its way to a peer,
// and whoever does not read is told nothing more. What is published meanwhile goes with the next
// message, and what was given up before it was told is not told. So nothing is lost between two
// messages: a peer that comes later, or again, asks from nothing on and hears of all that is there,
// each page behind the one that it follows. Only who has proved the pool's secret is told, and it
// alone can ask for a page whose key it hears. Pure. Thread: one at a time. Bounds: the pool's
// pages. Source: omni-flow, section 4.2 (search: publish and notify).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "base/peer_port.h"
#include "dataplane/page_server.h"
#include "dataplane/page_table.h"

namespace sluice {

class PageNews {
 public:
  /// `marks`: random, and told nobody.
  explicit PageNews(const PageKeys::Secret& marks) : marks_(marks) {}

  /// What happens in the pool, in its order: a page behind its parent, which goes after it. Each is
  /// told once until it is dropped.
  void published(Page page, const pages::ToldPage& told);
  void dropped(Page page);

  void met(PeerLife peer) { followers_[peer]; }
  void lost(PeerLife peer);
  /// False: it is no question that this peer may ask now.
  bool take(PeerLife peer, const pages::Follow& follow);
  /// What is to be sent, in this order: whoever has sent one takes it out.
  std::vector<PeerMessage>& out() { return out_; }
  std::vector<PeerMessage> take_out() { return std::exchange(out_, {}); }

  /// Pages of all messages.
  std::uint64_t told() const { return told_; }

 private:
  struct Told {
    std::uint64_t number = 0;
    Page page = no_page;  // none: it was given up
    pages::ToldPage told;
  };
  struct Follower {
    std::uint64_t since = 0, mark = 0;
    bool waits = false;  // for what comes
  };
  void tell(PeerLife peer, Follower& follower);
  /// Leaves out what was given up.
  void shorten();

  PageKeys marks_;
  std::uint64_t marks_made_ = 0;
  std::uint64_t next_ = 1;
  // Each page that a pool publishes and gives up comes by here, asked for or not: no memory is
  // taken for it and nothing is searched.
  std::vector<Told> pages_;          // by number
  std::vector<std::size_t> places_;  // in `pages_`, by page; `no_place`: none
  std::size_t gone_ = 0;             // of `pages_`
  std::map<PeerLife, Follower> followers_;
  std::vector<PeerMessage> out_;
  std::uint64_t told_ = 0;
};

}  // namespace sluice
