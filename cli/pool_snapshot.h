// What `sluice pool status` and `sluice pool sessions` show of the pools of running machines.
//
// Pure: a snapshot is what the machines said and when, and what is shown is made of one snapshot,
// or of two for what has happened between them. Any member of what they said may be missing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::cli {

/// A pool of a machine, or why the machine says nothing of its pools.
struct SeenPool {
  std::string machine;
  nlohmann::ordered_json pool;  // as cli/pool_json.h says
  std::string silent;
};

struct PoolSnapshot {
  double seconds = 0;  // of a clock that only rises
  std::vector<SeenPool> pools;
  std::string nobody;  // why there is none at all
  bool lacks_answers = false;  // of machines that run
};

/// Of what machine `name` said of itself: its pools; one that loads or ends is silent.
void add_pools(const std::string& name, const nlohmann::ordered_json& said, PoolSnapshot& snapshot);

/// `before`: an earlier one; null: there is none, and nothing is shown by the second. Neither is
/// what has begun anew meanwhile.
std::string pool_status_text(const PoolSnapshot& now, const PoolSnapshot* before);
nlohmann::ordered_json pool_status_json(const PoolSnapshot& now, const PoolSnapshot* before);

std::string pool_sessions_text(const PoolSnapshot& now);
nlohmann::ordered_json pool_sessions_json(const PoolSnapshot& now);

/// "4096 bytes", "12.5 MiB".
std::string bytes_words(double bytes);

}  // namespace sluice::cli
