// A pool's folder and the same pool on other machines as one place where its pages may be.
//
// Whoever asks begins with what the folder has, and then with what machines have of the rest; where
// machines are giving it the first of these pages already, with those, and then with what the
// folder has behind them. Each decides by itself whether that is quicker than computing. What was
// pulled is written to the folder as what was computed is. Thread: the pool's owner. Borrows both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/storage/kv_peers.h"
#include "engine/storage/kv_tier.h"

namespace sluice {

class FolderAndPeers final : public PageSource {
 public:
  /// Where both are waited for nobody can sleep until either moves: each has a turn of this.
  static constexpr std::chrono::nanoseconds turn = std::chrono::milliseconds(1);

  FolderAndPeers(KvTier& folder, KvPeers& peers) : folder_(folder), peers_(peers) {}

  bool begin(std::uint64_t task, const RowsOrigin& origin, std::span<const std::int32_t> tokens,
             std::optional<double> per_token, std::int64_t now) override;
  void forget(std::uint64_t task) override;
  void poll(std::int64_t now, std::vector<Ready>& ready,
            std::chrono::nanoseconds most = {}) override;
  bool is_waited_for() const override { return !waiting_.empty(); }
  std::size_t pages_awaited() const override {
    return folder_.pages_awaited() + peers_.pages_awaited();
  }
  bool holds_pages() const override { return folder_.holds_pages() || peers_.holds_pages(); }
  bool has_backlog() const override { return folder_.has_backlog(); }
  void rest() override { folder_.rest(); }

 private:
  /// A task that waits in one of the two, with what the other is told if it is asked too.
  struct Waiting {
    std::uint64_t task = 0;
    RowsOrigin origin;
    std::vector<std::int32_t> tokens;
    std::optional<double> per_token;
    std::optional<PeerLife> first;        // whom of the machines it asks first
    std::array<PageSource*, 2> places{};  // in the order in which they are asked
    std::size_t asked = 0;                // of those
    Ready come{};                         // so far
  };

  bool ask(Waiting& one, std::int64_t now);
  void hear(std::vector<Ready>& come, std::vector<Ready>& ready, std::int64_t now);

  KvTier& folder_;
  KvPeers& peers_;
  std::vector<Waiting> waiting_;
  // From each of them, until it was dealt with.
  std::vector<Ready> of_folder_, of_peers_;
};

}  // namespace sluice
