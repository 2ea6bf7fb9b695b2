// How a `paged_kv` tells people of its pool while roles use it.
//
// Thread: `PoolView::read` from any; the rest is whose turn of the engine it is.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/pool_report.h"
#include "engine/storage/host_tier.h"
#include "engine/storage/kept_pool.h"
#include "engine/tasks/shared_engine.h"

namespace sluice {

/// Of a prompt, what came to stand in its pages before its answer was asked for. Units: tokens.
struct ReadAhead {
  std::size_t behind = 0;                 // so many that were there
  std::size_t computed = 0, brought = 0;  // brought: from a disk, or another machine
  std::size_t of_folder = 0;              // of those, from a disk

  void add(std::size_t there, std::size_t more) {
    if (computed == 0) behind = there;
    computed += more;
  }
  /// Of so many that were found when the answer began, those that were not computed for it.
  std::size_t not_computed(std::size_t found) const {
    return found - std::min(found > behind ? found - behind : 0, computed);
  }
};

/// Tokens of prompts that were computed, by where their keys and values came from.
class PromptCounts {
 public:
  /// Of `tokens`, `kept` were not computed; of those, `brought` came from a disk or another
  /// machine, `of_folder` of them from the disk.
  void add(std::size_t tokens, std::size_t kept, std::size_t brought, std::size_t of_folder);
  void show(PoolReport& report) const;

 private:
  std::uint64_t prompts_ = 0, memory_ = 0, brought_ = 0, of_folder_ = 0, computed_ = 0;
};

/// Of the pool of this name, for the model there: nothing is known of its pages.
PoolReport unseen_pool(const std::string& name, const std::string& model);
void add_pages(const KvPages& pool, PoolReport& report);
void add_source(const KeptPool& kept, PoolReport& report);
/// What a pool has exchanged with other machines; nothing where there are none.
std::vector<std::pair<std::string, std::uint64_t>> counts_of(const KeptPool& kept);
/// Null: there is none.
void add_host(const HostTier* tier, PoolReport& report);

/// Whether the folder of a pool works, for who tells people.
class FolderWatch {
 public:
  /// Why it is not used for a while, once each time that it failed; empty: it works, there is none,
  /// or this was told. `pool`: the name of that.
  std::string take_trouble(const KeptPool& kept, const std::string& pool);

 private:
  bool was_off_ = false;
};

/// The last report that anybody has asked for.
class PoolView {
 public:
  /// A new one, made while nobody has a turn of the engine (null: no role uses the pool), or, where
  /// that does not come within `patience`, the last one with its age. There is none: `unseen`.
  PoolReport read(SharedEngine* engine, const std::function<PoolReport()>& make,
                  std::chrono::milliseconds patience, PoolReport unseen);

 private:
  std::mutex mutex_;  // of a reader; no role ever waits for it
  std::optional<PoolReport> last_;
  Nanoseconds at_ = 0;
};

}  // namespace sluice
