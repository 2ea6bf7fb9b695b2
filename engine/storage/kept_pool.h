// A pool of pages with what stands behind it: its folder on a disk, where one is named, and other
// machines' pools.
//
// Errors: as `PageStore::open`. Thread: the pool's owner.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/storage/folder_and_peers.h"

namespace sluice {

struct KeptPool {
  std::unique_ptr<KvPool> pool;
  PageKeys::Secret secret{};  // of its keys
  // They go before the pool.
  std::unique_ptr<KvTier> tier;          // null: no folder
  std::unique_ptr<KvPeers> peers;        // null: no other machines
  std::unique_ptr<FolderAndPeers> both;  // null: one of them at most

  KeptPool() = default;
  KeptPool(KeptPool&&) = default;
  KeptPool& operator=(KeptPool&& other) noexcept {
    both = nullptr;  // before the pool that it has now
    peers = nullptr;
    tier = nullptr;
    pool = std::move(other.pool);
    secret = other.secret;
    tier = std::move(other.tier);
    peers = std::move(other.peers);
    both = std::move(other.both);
    return *this;
  }
  PageSource* source() const {
    if (both != nullptr) return both.get();
    return tier != nullptr ? static_cast<PageSource*>(tier.get()) : peers.get();
  }

  /// An empty `folder`: memory alone.
  static Result<KeptPool> make(const KvShape& shape, std::size_t pages, const std::string& folder,
                               std::uint64_t bytes_most);
  /// Whether machines can exchange pages of this shape. Errors: invalid_argument (one is larger
  /// than a message holds).
  static Result<void> check_travels(const KvShape& shape);
  /// Beside pools of this name on other machines; in memory that they can read by themselves where
  /// the port has some. `folder`: in which each machine of this computer has one of its own, under
  /// the port's secret; empty: none. Errors: invalid_argument (another pool here has it), those of
  /// `check_travels`, exhausted (there is not so much of such memory).
  static Result<KeptPool> make_among(const KvShape& shape, std::size_t pages, PeerPort& port,
                                     const std::string& name, const std::string& folder = {},
                                     std::uint64_t bytes_most = 0);
};

}  // namespace sluice
