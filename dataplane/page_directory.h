// Which published page stands where in a region, for whoever has the region mapped.
//
// A table behind the stamps of a `PageRegion`: the first word of a page's key, and its number. Its
// owner writes it as pages come and go; who looks at it meanwhile may find too little, or a page
// that is another by now, so what it says is compared with the page's stamp, and what is read of
// the page with that again. It names pages without a stamp too, which nobody has asked for yet: of
// those the owner is asked.
// Thread: `PageDirectory` one at a time; `find_places` any. Bounds: two slots for each page or
// more. Source: Knuth, The Art of Computer Programming, volume 3, 6.4, algorithm R (removal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/page_region.h"

namespace sluice {

class PageDirectory {
 public:
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

/// Those of the keys, from the first on, that stand in the region now. `memory`: all of it, whose
/// owner may write it meanwhile.
NearPages find_places(const PageRegion& region, std::span<const std::byte> memory,
                      std::uint64_t incarnation, std::span<const PageKey> keys);

}  // namespace sluice
