// What a process asks of the page table of its machine, which is in another process, and what it is
// answered: values, and the bytes that they travel as.
//
// A client names its sequences by numbers of its own. Requests travel in batches; one answer says
// what each of them that has a reply got, in their order. Nothing here is trusted: a decoder
// allocates nothing for bytes that are not there, and what the numbers mean is checked by the
// `PageManager`. Units: rows (tokens), pages. Errors: corrupt, with what is wrong. Bounds: those
// below. Thread: any; no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "dataplane/page_table.h"

namespace sluice::attached {

inline constexpr std::size_t requests_most = 4096;     // in a batch
inline constexpr std::size_t keys_most = 65'536;       // in a request
inline constexpr std::size_t pages_most = 1 << 20;     // in a reply
inline constexpr std::size_t message_most = 16 << 20;  // bytes of a batch or an answer
inline constexpr std::size_t text_most = 1 << 20;      // bytes of what is said with a history

/// A client's name for one of its sequences. Never used again.
using SequenceNumber = std::uint64_t;
/// Whoever has it may take what was offered under it, so nobody can guess it.
using OfferToken = std::uint64_t;
/// Between clients: the table's process reads none of it.
using Text = std::vector<std::byte>;

/// What a history of `rows` would take. Reply: `Admission`.
struct Ask {
  std::vector<PageKey> keys;
  std::uint32_t rows = 0;
};
/// A new sequence that begins with the longest resident prefix. Reply: `Pages`.
struct Open {
  SequenceNumber sequence = 0;
  std::vector<PageKey> keys;
};
/// So many reserved pages in all that are no sequence's yet: all of them, or as many as before.
/// Reply: `Pages`, all that are leased now, or `Exhausted`; none, unless it is wanted.
struct Lease {
  std::uint32_t pages = 0;
  bool wants_reply = false;
};
/// `written` rows are there; the last so many leased pages go behind the sequence's, in their
/// order. Nobody else has the page that the next row is written to. No reply.
struct Take {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0, pages = 0;
};
/// `written` rows are there; room for `rows`. The last so many leased pages are given up for it.
/// Reply: `Room`, or `Exhausted`.
struct Reserve {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0, rows = 0, leased = 0;
};
/// `written` rows are there, and the next pages that are not published have these keys. Reply:
/// `Pages`, of those that it published: fewer than keys where one cannot be shared now.
struct Publish {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0;
  std::vector<PageKey> keys;
};
/// To fewer rows, of the `written` ones. Of the pages behind them stay what `reserved` rows need.
/// Reply: `Pages`, all of the sequence's; none, unless it is wanted. `to_lease`: those that do not
/// stay are leased, in their order; nobody else has one of them.
struct Truncate {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0, rows = 0, reserved = 0;
  bool wants_reply = false, to_lease = false;
};
/// A new sequence of the same client with the same `written` rows. No reply.
struct Fork {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0;
  SequenceNumber to = 0;
};
/// No reply.
struct Release {
  SequenceNumber sequence = 0;
};
/// Other clients may have forks of it, until it is withdrawn. An offer ends with whoever made it.
/// Reply: `Nothing`, from which on it may be accepted; `Exhausted`: this client has too many.
struct Offer {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0;
  OfferToken token = 0;
};
/// One that there is not: nothing happens. No reply.
struct Withdraw {
  OfferToken token = 0;
};
/// A new sequence: a fork of what was offered (reply: `Pages`), or what was given (`Given`), which
/// nobody else accepts then. `Nothing`: neither is there, and no such sequence.
struct Accept {
  OfferToken token = 0;
  SequenceNumber sequence = 0;
};
/// An offer of the sequence itself, with what is reserved behind its rows, for one other client:
/// this one has it no more. Reply: as `Offer`'s; `Exhausted`: it is this client's still.
struct Give {
  SequenceNumber sequence = 0;
  std::uint32_t written = 0;
  OfferToken token = 0;
  Text text;  // for who accepts it
};
/// To whoever has given it: who has the number is done with it, accepted or not. Reply: `Nothing`:
/// that can be heard now; `Exhausted`: nobody waits for it, or too much is not heard yet.
struct Say {
  OfferToken token = 0;
  Text text;
};
/// Of what the client gave. Reply: `Heard`, without a text where who accepted it has gone, and it
/// is withdrawn then; `Nothing`: nothing was said yet.
struct Hear {
  OfferToken token = 0;
};
using Request = std::variant<Ask, Open, Lease, Take, Reserve, Publish, Truncate, Fork, Release,
                             Offer, Withdraw, Accept, Give, Say, Hear>;

struct Nothing {};
struct Pages {
  std::vector<Page> pages;
  std::uint32_t rows = 0, published = 0;  // of the sequence, now
};
/// Pages from the one on that the next row is written to. The copies must be made before anything
/// is written there; they may be read until the client's next batch.
struct Room {
  std::uint32_t from = 0;
  std::vector<Page> pages;
  std::vector<CopyPage> copies;
};
/// There are too few pages, or too many of something else, and nothing has changed.
struct Exhausted {};
/// A sequence with the pages that are reserved behind its rows. Nobody else has those from the
/// one numbered `shared` on, or may find them.
struct Given {
  Pages sequence;
  std::uint32_t shared = 0;
  Text text;
};
struct Heard {
  Text text;
};
using Reply = std::variant<Nothing, Admission, Pages, Room, Exhausted, Given, Heard>;

struct Answer {
  std::vector<Reply> replies;
  std::uint32_t free = 0, cached = 0;  // pages of the table, now
};

/// Whether an answer has something for it.
bool has_reply(const Request& request);

std::vector<std::byte> encode(std::span<const Request> batch);
Result<std::vector<Request>> decode_batch(std::span<const std::byte> bytes);
std::vector<std::byte> encode(const Answer& answer);
Result<Answer> decode_answer(std::span<const std::byte> bytes);

}  // namespace sluice::attached
