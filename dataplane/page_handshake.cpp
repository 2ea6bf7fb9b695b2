#include "dataplane/page_handshake.h"

#include <string>

namespace sluice {

using namespace pages;

Proof PageHandshake::proof(PeerLife by, const Hello& its, PeerLife to, const Hello& other) const {
  std::string said;
  const auto add = [&](PeerLife life, const Hello& hello) {
    for (const std::uint32_t number : {life.machine, life.incarnation})
      for (unsigned shift = 0; shift < 32; shift += 8)
        said += static_cast<char>(number >> shift & 0xffU);
    for (const std::byte byte : encode(hello)) said += static_cast<char>(byte);
  };
  add(by, its);
  add(to, other);
  return {keys_.root({"proof of pages", "", said, ""})};
}

PageHandshake::Greeting PageHandshake::joined(PeerLife peer, const Nonce& nonce) {
  Peer& known = peers_[peer];
  known.mine = hello_;
  known.mine->nonce = nonce;
  Greeting greeting{encode(*known.mine), {}};
  if (known.theirs.has_value())
    greeting.proof = encode(proof(self_, *known.mine, peer, *known.theirs));
  return greeting;
}

PageHandshake::Outcome PageHandshake::take(PeerLife peer, const Hello& theirs) {
  const bool is_same = theirs.layout == hello_.layout && theirs.page_bytes == hello_.page_bytes;
  Peer& known = peers_[peer];
  if (!is_same || known.theirs.has_value()) return {.is_refused = true};
  known.theirs = theirs;
  if (!known.mine.has_value()) return {};  // said when it has joined
  return {.say = encode(proof(self_, *known.mine, peer, theirs))};
}

PageHandshake::Outcome PageHandshake::take(PeerLife peer, const Proof& said) {
  const auto it = peers_.find(peer);
  const bool can_be = it != peers_.end() && it->second.mine.has_value() &&
                      it->second.theirs.has_value() && !it->second.is_met;
  if (!can_be) return {.is_refused = true};
  const Hello& theirs = *it->second.theirs;
  if (said.mac != proof(peer, theirs, self_, *it->second.mine).mac) return {.is_refused = true};
  it->second.is_met = true;
  return {.met = theirs};
}

}  // namespace sluice
