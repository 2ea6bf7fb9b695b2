// Answers questions for pages: a state machine beside the pool that has them.
//
// Only who has said the same of its pages (`Hello`) is answered, and only for keys, which nobody
// guesses who lacks the pool's secret. What a peer may be owed is bounded: an answer has at most
// `pages::ask_bytes_most` bytes, or one page, and counts until the peer has said that it took it;
// a peer that does not read is told that this server is busy. What one does costs the others
// nothing but the time of one answer. Thread: one. Units: bytes.
// Source: omni-flow, section 4.2 (transfer).
#pragma once

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

/// The pages that may be given away.
class PageLookup {
 public:
  virtual ~PageLookup() = default;
  virtual bool has(const PageKey& key) const = 0;
  /// Its content. None: it is not there, or was given up meanwhile; `to` holds anything then.
  virtual std::optional<ServedPage> copy(const PageKey& key, std::span<std::byte> to) = 0;
};

struct PeerMessage {
  PeerLife peer;
  pages::Bytes bytes;
};

struct PageServerCounts {
  std::uint64_t pages = 0, bytes = 0;  // sent
  std::uint64_t missing = 0;           // questions whose pages were not all there
  std::uint64_t busy = 0;              // refused: too much is owed
  std::uint64_t refused = 0;           // messages of strangers, or that are none
};

class PageServer {
 public:
  static constexpr std::size_t owed_most = std::size_t{32} << 20U;  // to one peer, or one page
  static constexpr std::size_t answers_most = 64;                   // not taken yet, of one peer

  explicit PageServer(pages::Hello self) : self_(self) {}

  /// A message of a peer; appends what is answered. Others than questions are not for a server.
  void take(PeerLife peer, const pages::Message& message, PageLookup& lookup,
            std::vector<PeerMessage>& out);
  /// Bytes that are no message.
  void take_nonsense() { ++counts_.refused; }
  void lost(PeerLife peer) { peers_.erase(peer); }

  const PageServerCounts& counts() const { return counts_; }
  /// Not taken yet, of one peer.
  std::size_t owed(PeerLife peer) const;

 private:
  struct Peer {
    std::map<std::uint64_t, std::size_t> answers;  // bytes, by question
    std::size_t owed = 0;
  };

  void answer(PeerLife peer, Peer& known, const pages::Ask& ask, PageLookup& lookup,
              std::vector<PeerMessage>& out);
  bool is_within(const Peer& known, const pages::Ask& ask) const;

  pages::Hello self_;
  std::map<PeerLife, Peer> peers_;  // who means the same by its pages
  PageServerCounts counts_;
};

}  // namespace sluice
