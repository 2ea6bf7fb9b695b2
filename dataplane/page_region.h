// Memory of a pool that other machines read by themselves: its pages, then a stamp for each, and
// behind those which page stands where (`PageDirectory`).
//
// A stamp says what stands in its page now: incarnation, generation, key, length and CRC-32C, or
// nothing. Its owner clears it before anything else is written into the page and writes it when
// the page is given away; who reads the page, and then the stamp, has read no other content in
// between if the stamp is the one that it was told. Units: bytes. Thread: any; no state.
// Source: omni-flow, section 4.2 (transfer); Lamport 1977, concurrent reading and writing.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/remote_memory.h"
#include "dataplane/page_messages.h"

namespace sluice {

struct PageRegion {
  static constexpr std::size_t stamp_bytes = 64;
  static constexpr std::size_t slot_bytes = 16;  // of the directory

  std::uint32_t pages = 0;
  std::uint32_t page_bytes = 0;

  std::uint64_t stamps() const {
    const std::uint64_t end = std::uint64_t{pages} * page_bytes;
    return (end + stamp_bytes - 1) / stamp_bytes * stamp_bytes;
  }
  std::uint64_t directory() const { return stamps() + std::uint64_t{pages} * stamp_bytes; }
  /// Of at least two slots for each page, and a power of two.
  std::uint64_t size() const {
    return directory() + std::bit_ceil(std::uint64_t{2} * pages) * slot_bytes;
  }
  /// Requires: `page` is one of them.
  RemoteRegion::Part page(std::uint32_t page) const {
    return {std::uint64_t{page} * page_bytes, page_bytes};
  }
  RemoteRegion::Part stamp(std::uint32_t page) const {
    return {stamps() + std::uint64_t{page} * stamp_bytes, stamp_bytes};
  }
};

/// Of a page with this head, whatever question it answers.
std::array<std::byte, PageRegion::stamp_bytes> stamp_of(const pages::PageHead& head);

/// What was read of a page and, afterwards, of its stamp is what the head says, whole. `sum`: the
/// page's CRC-32C, of what was written where it is now; none: it is made here.
bool is_whole(std::span<const std::byte> page, std::span<const std::byte> stamp,
              const pages::PageHead& head, std::optional<std::uint32_t> sum = {});

}  // namespace sluice
