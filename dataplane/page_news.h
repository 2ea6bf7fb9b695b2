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
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/peer_port.h"
#include "dataplane/page_server.h"

namespace sluice {

class PageNews {
 public:
  /// `marks`: random, and told nobody.
  explicit PageNews(const PageKeys::Secret& marks) : marks_(marks) {}

  /// What happens in the pool, in its order: a page behind its parent, which goes after it.
  void published(const pages::ToldPage& page);
  void dropped(const PageKey& key);

  void met(PeerLife peer) { followers_[peer]; }
  void lost(PeerLife peer);
  /// False: it is no question that this peer may ask now.
  bool take(PeerLife peer, const pages::Follow& follow);
  /// What is to be sent, since the last time.
  std::vector<PeerMessage> take_out() { return std::exchange(out_, {}); }

  /// Pages of all messages.
  std::uint64_t told() const { return told_; }

 private:
  struct Follower {
    std::uint64_t since = 0, mark = 0;
    bool waits = false;  // for what comes
  };
  void tell(PeerLife peer, Follower& follower);

  PageKeys marks_;
  std::uint64_t marks_made_ = 0;
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, pages::ToldPage> pages_;            // by number
  std::unordered_map<std::uint64_t, std::uint64_t> by_word_;  // a key's first, as in the pool
  std::map<PeerLife, Follower> followers_;
  std::vector<PeerMessage> out_;
  std::uint64_t told_ = 0;
};

}  // namespace sluice
