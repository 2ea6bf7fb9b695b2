#include "dataplane/page_handshake.h"

#include <string>

#include "base/little_endian.h"

namespace sluice {

using namespace pages;

namespace {

/// In the same time wherever they differ.
bool is_same_mac(const PageKey& a, const PageKey& b) {
  std::uint64_t differs = 0;
  for (std::size_t i = 0; i < a.words.size(); ++i) differs |= a.words[i] ^ b.words[i];
  return differs == 0;
}

}  // namespace

Proof PageHandshake::proof(PeerLife by, const Hello& its, PeerLife to, const Hello& other) const {
  Bytes said;
  const auto add = [&](PeerLife life, const Hello& hello) {
    for (const std::uint32_t number : {life.machine, life.incarnation})
      append_little_endian(number, 4, said);
    const Bytes words = encode(hello);
    said.insert(said.end(), words.begin(), words.end());
  };
  add(by, its);
  add(to, other);
  const std::string text(reinterpret_cast<const char*>(said.data()), said.size());
  return {keys_.root({"proof of pages", "", text, ""}), other.nonce};
}

PageHandshake::Greeting PageHandshake::joined(PeerLife peer, const Nonce& nonce) {
  Peer& known = peers_[peer];
  known.mine = hello_;
  known.mine->nonce = nonce;
  known.has_failed = false;
  Greeting greeting{encode(*known.mine), {}};
  if (known.theirs.has_value())
    greeting.proof = encode(proof(self_, *known.mine, peer, *known.theirs));
  return greeting;
}

PageHandshake::Outcome PageHandshake::take(PeerLife peer, const Hello& theirs) {
  const bool is_same = theirs.layout == hello_.layout && theirs.page_bytes == hello_.page_bytes;
  if (!is_same) return {.is_refused = true, .mismatch = PageMismatch::layout};
  Peer& known = peers_[peer];
  if (known.is_met || known.has_failed) return {.is_refused = true};
  known.theirs = theirs;
  if (!known.mine.has_value()) return {};  // said when it has joined
  return {.say = encode(proof(self_, *known.mine, peer, theirs))};
}

PageHandshake::Outcome PageHandshake::take(PeerLife peer, const Proof& said) {
  const auto it = peers_.find(peer);
  const bool can_be = it != peers_.end() && it->second.mine.has_value() &&
                      it->second.theirs.has_value() && !it->second.is_met && !it->second.has_failed;
  if (!can_be) return {.is_refused = true};
  Peer& known = it->second;
  if (said.nonce != known.mine->nonce) return {};  // of a hello before: the next one comes
  if (!is_same_mac(said.mac, proof(peer, *known.theirs, self_, *known.mine).mac)) {
    known.has_failed = true;
    return {.is_refused = true, .mismatch = PageMismatch::secret};
  }
  known.is_met = true;
  return {.met = *known.theirs};
}

}  // namespace sluice
