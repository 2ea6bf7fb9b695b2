// Pages that running tasks were promised and have not taken yet: whoever brings pages into their
// pool leaves them so many. Thread: the pool's owner. Units: pages.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice {

class PromisedPages {
 public:
  virtual ~PromisedPages() = default;
  virtual std::uint64_t promised() const = 0;
  /// Of those, to one tenant's tasks.
  virtual std::uint64_t promised_to(std::string_view tenant) const = 0;
};

}  // namespace sluice
