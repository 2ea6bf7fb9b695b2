#include "runtime/sim/cluster.h"
#include "runtime/sim/simulation.h"

namespace sluice::sim {

std::uint64_t CallReport::hash() const {
  std::uint64_t hash = firings_hash;
  for (const std::uint64_t count : outputs) hash = mixed(hash, count);
  for (const std::string& warning : warnings)
    for (const char c : warning) hash = mixed(hash, static_cast<unsigned char>(c));
  if (!failure) return hash;
  hash = mixed(
      hash, (std::uint64_t{failure->node} << 8U) + static_cast<std::uint64_t>(failure->kind) + 1);
  for (const char c : failure->error.message) hash = mixed(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace sluice::sim
