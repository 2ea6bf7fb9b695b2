// Where pages may be that a pool has not: the host's memory, a folder on a disk, other machines.
//
// Thread: the pool's owner. Units: nanoseconds of a clock that only rises, tokens.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/layers/kv_content.h"

namespace sluice {

class PageSource {
 public:
  struct Ready {
    std::uint64_t task = 0;
    std::size_t tokens = 0;     // whose pages came for it
    std::size_t of_folder = 0;  // of those: from a disk
  };

  virtual ~PageSource() = default;
  /// Whether the task waits for pages from now on, until `poll` names it. `per_token`: what
  /// computing one costs; none: not known.
  virtual bool begin(std::uint64_t task, const RowsOrigin& origin,
                     std::span<const std::int32_t> tokens, std::optional<double> per_token,
                     std::int64_t now) = 0;
  /// It waits no more; what is under way for it may come all the same.
  virtual void forget(std::uint64_t task) = 0;
  /// Moves everything on; waits at most so long for something to happen if there is something to
  /// wait for. `ready`: who waits no more.
  virtual void poll(std::int64_t now, std::vector<Ready>& ready,
                    std::chrono::nanoseconds most = {}) = 0;
  /// Somebody waits for pages.
  virtual bool is_waited_for() const = 0;
  /// Pages that are still to be put into the pool for them.
  virtual std::size_t pages_awaited() const = 0;
  /// It has pages of the pool that come back by themselves, soon.
  virtual bool holds_pages() const { return false; }
  /// Nobody computes: what it takes over behind the forwards may be waited for, if that is a
  /// moment.
  virtual void rest() {}
  /// There is more of that, which goes on soon.
  virtual bool has_backlog() const { return false; }
};

}  // namespace sluice
