// A pool of blocks without their bytes, driven by one policy: how many blocks of each request hit.
//
// A hit is a block of the longest resident prefix at the request's arrival; a resident block behind
// a missing one is none, for its bytes cannot be used alone.
// Thread: one. Units: blocks; milliseconds, given by the caller.
#pragma once

#include "dataplane/eviction.h"
#include "dataplane/key_table.h"

namespace sluice {

class Replay {
 public:
  /// `policy`: a new one, which has seen nothing.
  Replay(PoolSize size, std::unique_ptr<EvictionPolicy> policy);

  /// Hits of one request. Its keys are distinct and at most `slots - capacity`.
  std::uint32_t request(std::uint64_t now_ms, std::span<const std::uint64_t> keys);

  std::uint32_t resident() const { return resident_; }

 private:
  PoolSize size_;
  std::unique_ptr<EvictionPolicy> policy_;
  KeyTable where_;
  std::vector<std::uint64_t> keys_;  // of each slot
  std::vector<Slot> free_;
  std::vector<VisitedBlock> path_;
  std::uint32_t resident_ = 0;
};

}  // namespace sluice
