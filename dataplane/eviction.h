// The interface of the policies that say which page of a full pool goes first.
//
// A pool has numbered slots; a slot holds one block (a page's content), named by its key. A request
// visits a path of blocks, from the root of the prefix tree to a leaf. After a visit the caller
// asks for victims until what is resident fits. Thread: one. Owns: nothing but its own orders.
// Units: time in milliseconds, given by the caller. Cost: no allocation after construction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

using Slot = std::uint32_t;
inline constexpr Slot no_slot = 0xffffffffu;

struct VisitedBlock {
  Slot slot = no_slot;
  std::uint64_t key = 0;
  bool fresh = false;  // filled by this visit: it was not resident before
};

/// One request: its blocks from root to leaf, all resident now.
struct Visit {
  std::uint64_t now_ms = 0;
  std::span<const VisitedBlock> path;
  bool is_use = true;  // false: nobody asked for them; those that are not fresh were not used
};

/// Not zero at a slot: it may not go now (somebody uses it, or it has resident children). Empty:
/// every slot may go. Whoever holds a block holds its parent too.
using Held = std::span<const std::uint8_t>;

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual void visit(const Visit& visit) = 0;
  /// A resident slot that is not held; the policy takes it for gone. `no_slot` if all are held. A
  /// held slot that stands first in line is passed over like one just used.
  virtual Slot victim(Held held) = 0;
  /// The caller emptied a resident slot by its own decision.
  virtual void removed(Slot slot) = 0;
};

struct PoolSize {
  std::uint32_t capacity = 0;  // blocks that stay resident after a visit
  std::uint32_t slots = 0;     // capacity and room for the longest path
};

/// Names of `make_eviction`, the first is the default.
std::span<const std::string_view> eviction_names();
Result<std::unique_ptr<EvictionPolicy>> make_eviction(std::string_view name, PoolSize size);

std::unique_ptr<EvictionPolicy> make_lru(PoolSize size);
std::unique_ptr<EvictionPolicy> make_lfu_da(PoolSize size);
std::unique_ptr<EvictionPolicy> make_s3_fifo(PoolSize size);
std::unique_ptr<EvictionPolicy> make_sieve(PoolSize size);
std::unique_ptr<EvictionPolicy> make_arc(PoolSize size);
std::unique_ptr<EvictionPolicy> make_w_tinylfu(PoolSize size);
std::unique_ptr<EvictionPolicy> make_four_temperatures(PoolSize size);
std::unique_ptr<EvictionPolicy> make_learned(PoolSize size);
std::unique_ptr<EvictionPolicy> make_chosen(PoolSize size);

}  // namespace sluice
