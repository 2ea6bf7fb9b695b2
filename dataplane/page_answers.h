// Questions for pages that need not wait for their owner's link, and answers of one piece.
//
// Whoever has the region's key, which is told to whom the pool's secret was proved, may ask by the
// way on which the region is read; so an answer has no receipt, for the way itself bounds what is
// on it. What is asked so is small: how many pages there are, where they stand, or the content of
// few. A piece is several messages of `page_messages`, each behind its sizes.
// Thread: any; no state. Units: bytes. Source: omni-flow, section 4.2 (search, transfer).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dataplane/page_server.h"

namespace sluice::pages {

/// Content that is given so: pages, and bytes of them all.
inline constexpr std::size_t brief_pages_most = 4;
inline constexpr std::size_t brief_bytes_most = std::size_t{256} << 10U;

/// This message may be asked so, of pages of this size.
bool is_brief(std::span<const std::byte> message, std::size_t page_bytes);

/// Appends the answer to such a message, and counts it; nothing to any other.
void answer_briefly(std::span<const std::byte> message, const Hello& self, PageLookup& lookup,
                    PageServerCounts& counts, Bytes& out);

struct Piece {
  std::span<const std::byte> message, body;  // the body is its end; mostly there is none
};
/// None: it is no such answer. Views of it.
std::optional<std::vector<Piece>> pieces_of(std::span<const std::byte> answer);

}  // namespace sluice::pages
