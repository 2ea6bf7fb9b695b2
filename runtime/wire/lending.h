// Bytes of values that two machines of one computer share, so that a message only names them.
//
// The owner lends a block of its memory, once for each message that names it; the other side reads
// it in place and gives it back when its last reader has gone. A handle is a name and no address:
// whoever gets one checks it against what the owner has shown before. Thread: any.
// Source: docs/WIRE.md, "Values in place"; omni-flow, section 4.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "graph/ids.h"

namespace sluice::wire {

struct Handle {
  std::uint32_t slab = 0;        // of the owner's, in the order in which they were made
  std::uint32_t block = 0;       // its first unit in the slab
  std::uint64_t generation = 0;  // of what stands in it; never 0, never used again by its owner
  friend bool operator==(const Handle&, const Handle&) = default;
};

class Lender {
 public:
  virtual ~Lender() = default;
  /// Memory that can be lent without a copy, with whatever stands in it. Null: there is none.
  virtual Ref<Buffer> make(std::size_t size) = 0;
  /// Whether values could ever be lent to that machine.
  virtual bool reaches(std::uint32_t machine) const = 0;
  /// Nothing: the bytes have to travel in the message. Copies those that are not in its memory.
  virtual std::optional<Handle> lend(Origin to, const Ref<Buffer>& bytes) = 0;
  /// The message that it was lent for will not be sent.
  virtual void take_back(Origin to, const Handle& handle) = 0;
  /// What that life of a machine has lent. Errors: corrupt; the handle cannot be its own.
  virtual Result<Ref<Buffer>> borrow(Origin from, const Handle& handle, std::size_t size) = 0;
};

/// What one message lends, or borrows.
struct Lending {
  Lender* lender = nullptr;  // null: nothing can be
  Origin other;              // whom it goes to, or comes from
  std::size_t bytes = 0;     // of values that are not in the message
  std::vector<Handle> handles{};

  void take_back() {
    for (const Handle& handle : handles) lender->take_back(other, handle);
    handles.clear();
    bytes = 0;
  }
};

}  // namespace sluice::wire
