// Who may ask for pages here and be asked for them: who means the same by them and has the pool's
// secret.
//
// Both sides say hello with a nonce and answer the other's with a proof: a MAC under the secret
// over both hellos and whose they are, the prover's first. So a proof that was heard is of no use
// to anybody else, nor back to its maker, nor a second time. A side that has joined anew says hello
// anew, and each hello is answered with a proof until both have met: what was on its way over a
// break of the link, a proof for an earlier nonce too, decides nothing. After a wrong proof nothing
// of that peer is taken until it joins anew. Pure: nonces come from the caller.
// Thread: one. Source: ISO/IEC 9798-4, mutual authentication.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "base/peer_port.h"
#include "dataplane/page_messages.h"

namespace sluice {

/// Why two do not exchange pages.
enum class PageMismatch : std::uint8_t { layout, secret };

class PageHandshake {
 public:
  using Nonce = std::array<std::uint8_t, 16>;

  /// `hello`: this side's, but for the nonce.
  PageHandshake(const PageKeys::Secret& secret, PeerLife self, const pages::Hello& hello)
      : keys_(secret), self_(self), hello_(hello) {}

  struct Outcome {
    std::optional<pages::Bytes> say{};  // to that peer
    std::optional<pages::Hello> met{};  // it has proved what it said: pages are exchanged with it
    bool is_refused = false;
    std::optional<PageMismatch> mismatch{};  // of one that is refused, where it is for good
  };
  /// It can be sent to. `nonce`: random, and not used before. `say` is this side's hello, and
  /// `proof` the answer to the peer's where that came first.
  struct Greeting {
    pages::Bytes hello;
    std::optional<pages::Bytes> proof;
  };
  Greeting joined(PeerLife peer, const Nonce& nonce);
  void lost(PeerLife peer) { peers_.erase(peer); }
  Outcome take(PeerLife peer, const pages::Hello& theirs);
  Outcome take(PeerLife peer, const pages::Proof& proof);

 private:
  struct Peer {
    std::optional<pages::Hello> mine, theirs;
    bool is_met = false;
    bool has_failed = false;  // its proof was wrong
  };
  pages::Proof proof(PeerLife by, const pages::Hello& its, PeerLife to,
                     const pages::Hello& other) const;

  PageKeys keys_;
  PeerLife self_;
  pages::Hello hello_;
  std::map<PeerLife, Peer> peers_;
};

}  // namespace sluice
