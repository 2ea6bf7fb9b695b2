// Copies of whole pages between a pool that stands elsewhere, on a GPU, and memory of the host.
//
// They go on while the device computes. A page of such a pool has the same bytes in the same order
// as one of `KvPool` of the same shape, so a copy is all there is to it. Neither side of a copy may
// change until it is known to be done. Thread: the pool's owner. Errors: unavailable (the device
// failed, and how).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "dataplane/page_table.h"

namespace sluice {

class PageCopies {
 public:
  enum class Way : std::uint8_t { down, up };  // to the host, to the device
  struct One {
    Page page = no_page;
    std::byte* host = nullptr;
  };

  virtual ~PageCopies() = default;
  /// Of memory that stays where it is as long as this does: copies to and from it are quicker, and
  /// nobody waits for them. Where that cannot be had they are done all the same.
  virtual Result<void> pin(std::span<std::byte> host) = 0;
  /// Behind all that the device was given to do before.
  virtual Result<void> begin(Way way, std::span<const One> copies) = 0;
  /// Whether all that was begun that way is done.
  virtual Result<bool> is_done(Way way) = 0;
  /// Returns when it is.
  virtual Result<void> wait(Way way) = 0;
};

}  // namespace sluice
