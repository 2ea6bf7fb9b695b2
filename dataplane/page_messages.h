// What machines say to each other about pages, as bytes: who has them, and their content.
//
// A message is 16 bytes (magic, version, kind, zeros, id) and what its kind holds; numbers are
// little-endian. Lengths are checked before anything is allocated. A page comes with what it is
// verified by: the incarnation and generation it was read under, its key, length and CRC-32C. The
// checksum is no protection against who may send: the link is. Units: bytes. Thread: any; no
// state. Errors: none of the decoder but "no message". Source: omni-flow, section 4.2 (transfer).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "dataplane/page_key.h"

namespace sluice::pages {

using Bytes = std::vector<std::byte>;

inline constexpr std::uint8_t version = 5;
inline constexpr std::size_t keys_most = 4096;  // of one question
inline constexpr std::size_t note_bytes_most = 1U << 20U;
inline constexpr std::uint32_t page_bytes_most = 32U << 20U;  // a message holds one page
/// Of pages in one answer, or one page: their content, or where they stand.
inline constexpr std::size_t ask_bytes_most = 4U << 20U, places_bytes_most = 16U << 20U;
inline constexpr std::size_t region_key_most = 16U << 10U;
inline constexpr std::size_t told_most = 256;  // pages of one `Published`

/// Of both sides, first: pages are exchanged by who means the same by them.
struct Hello {
  std::array<std::uint8_t, 32> layout{};  // a digest of what the bytes of a page mean
  std::uint64_t incarnation = 0;          // of the pool: another one has other pages
  std::uint32_t page_bytes = 0;
  std::array<std::uint8_t, 16> nonce{};  // what the other side's proof is made for
  bool operator==(const Hello&) const = default;
};
/// That its sender has the pool's secret (`PageHandshake`).
struct Proof {
  PageKey mac;
  std::array<std::uint8_t, 16> nonce{};  // of the hello that it answers
};
/// How many leading ones of these are there?
struct Find {
  std::uint64_t id = 0;
  std::vector<PageKey> keys;
};
struct Found {
  std::uint64_t id = 0;
  std::uint32_t pages = 0;
  std::uint64_t receipt = 0;
};
/// The content of these, as far as they are there; or where it stands in its owner's region.
struct Ask {
  std::uint64_t id = 0;
  std::vector<PageKey> keys;
  bool for_places = false;
};
/// The sender's pages stand in memory that this peer may read by itself (`PageRegion`).
struct Region {
  std::uint64_t incarnation = 0;  // of the pool
  std::uint32_t pages = 0;
  std::span<const std::byte> key;  // of `RemoteMemory`; in the message
};
struct PageHead {
  std::uint64_t id = 0;  // of the question
  std::uint64_t incarnation = 0, generation = 0;
  PageKey key;
  std::uint32_t index = 0;  // among the keys of the question
  std::uint32_t length = 0, crc32c = 0;
};
struct PageContent {
  PageHead head;
  std::span<const std::byte> content;  // in the message
};
/// Where the content stands, in place of it. It may be given up before it has been read.
struct Place {
  PageHead head;
  std::uint32_t page = 0;  // of the region
};
/// Behind the pages of an answer, or all of one that has none.
struct End {
  enum class Status : std::uint8_t { done = 0, missing = 1, busy = 2, refused = 3 };
  std::uint64_t id = 0;
  std::uint32_t pages = 0;
  Status status = Status::done;
  std::uint64_t receipt = 0;
};
/// A whole answer: the places, at most `keys_most`, and its end, that counts them.
struct Places {
  std::vector<Place> places;  // of the question `end.id`, as their heads say too
  End end;
};
/// Of an answer that has come, wanted or not. Nobody knows a receipt who has not read the answer,
/// so what is on its way stays owed.
struct Took {
  std::uint64_t receipt = 0;
};
/// Words of the pools' users to each other, and that they have arrived.
struct Note {
  std::uint64_t id = 0;
  std::span<const std::byte> text;  // in the message
};
struct Noted {
  std::uint64_t id = 0;
  std::uint64_t receipt = 0;
};

/// Tell this peer what is published behind that number: one message, as soon as there is something.
struct Follow {
  std::uint64_t since = 0;
  std::uint64_t mark = 0;  // of the last one that it has read; 0: none
};
/// A page and the one that it follows; zeros: none.
struct ToldPage {
  PageKey key, parent;
  bool operator==(const ToldPage&) const = default;
};
/// The answer, at most `told_most` in the order of their publishing. Nobody knows a mark who has
/// not read it, so there is one of these at most on its way to a peer.
struct Published {
  std::uint64_t mark = 0;
  std::uint64_t last = 0;  // the number of the last of these
  std::vector<ToldPage> pages;
};

using Message = std::variant<Hello, Proof, Find, Found, Ask, PageContent, End, Took, Note, Noted,
                             Region, Places, Follow, Published>;

Bytes encode(const Hello& hello);
Bytes encode(const Proof& proof);
Bytes encode(const Find& find);
Bytes encode(const Found& found);
Bytes encode(const Ask& ask);
Bytes encode(const End& end);
Bytes encode(const Took& took);
Bytes encode(const Note& note);
Bytes encode(const Noted& noted);
Bytes encode(const Region& region);
Bytes encode(const Places& places);
Bytes encode(const Follow& follow);
Bytes encode(const Published& published);
Bytes encode(const PageContent& page);
/// The same in steps, for content that is copied once: room for it and a head, then the content
/// behind it, then the head.
Bytes page_message(std::uint32_t page_bytes);
void write_page_head(const PageHead& head, Bytes& message);
/// Without the content, which stands elsewhere.
Bytes encode(const PageHead& head);

/// Pages of one question.
constexpr std::size_t asked_most(std::size_t page_bytes, bool for_places) {
  const std::size_t most = (for_places ? places_bytes_most : ask_bytes_most) / page_bytes;
  return std::clamp<std::size_t>(most, 1, keys_most);
}

/// None: it is no message of this version. Views of `message`. `body`: the content of a page that
/// stands elsewhere than behind its head; of no other message.
std::optional<Message> decode(std::span<const std::byte> message,
                              std::span<const std::byte> body = {});

}  // namespace sluice::pages
