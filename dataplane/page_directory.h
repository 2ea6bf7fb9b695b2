// Which published page stands where in a region, for whoever has the region mapped.
//
// A table behind the stamps of a `PageRegion`: the first word of a page's key, and its number. Its
// owner writes it as pages come and go; who looks at it meanwhile may find too little, or a page
// that is another by now, so what it says is compared with the page's stamp, and what is read of
// the page with that again. It names pages without a stamp too, which nobody has asked for yet: of
// those the owner is asked.
// Thread: `PageDirectory` one at a time; `find_places` any. Bounds: two slots for each page or
// more; of each key `probes_most` are looked at, whatever its owner wrote. Source: Knuth, The Art
// of Computer Programming, volume 3, 6.4, algorithm R (removal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/page_region.h"

namespace sluice {

class PageDirectory {
 public:
  /// Slots behind each other without an empty one that are looked at. Half are empty, or more, so
  /// a page that stands further from its home is rare; its owner is asked.
  static constexpr std::size_t probes_most = 128;

  /// `memory`: of the region's; empty: nobody looks, and nothing is written.
  explicit PageDirectory(std::span<std::byte> memory) : memory_(memory) {}

  void add(const PageKey& key, std::uint32_t page);
  /// One that is not there: nothing happens.
  void remove(const PageKey& key, std::uint32_t page);
  void clear();

 private:
  const std::span<std::byte> memory_;
};

struct NearPages {
  std::vector<pages::Place> places;  // of the first keys
  bool is_all = true;                // that there are; else the owner has more, or may have
};

/// What a stamp says whose owner may write or clear it meanwhile; none: nothing. `word`: loads its
/// n-th. They are written, and cleared, from the first on, so they are read from the last: where
/// the last is there all were written, and where the first is still there, none of them was
/// cleared before it was read.
template <typename Word>
std::optional<pages::PageHead> head_of_words(Word word) {
  std::uint64_t words[7];
  for (std::size_t i = std::size(words); i-- > 0;) words[i] = word(i);
  if (words[0] == 0 || words[6] == 0) return std::nullopt;
  pages::PageHead head;
  head.incarnation = words[0];
  head.generation = words[1];
  head.key.words = {words[2], words[3], words[4], words[5]};
  head.length = static_cast<std::uint32_t>(words[6]);
  head.crc32c = static_cast<std::uint32_t>(words[6] >> 32U);
  return head;
}

/// Those of the keys, from the first on, that stand in the region now. `memory`: all of it, whose
/// owner may write it meanwhile, and anything; not aligned to words: nothing is found.
NearPages find_places(const PageRegion& region, std::span<const std::byte> memory,
                      std::uint64_t incarnation, std::span<const PageKey> keys);

}  // namespace sluice
