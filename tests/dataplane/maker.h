// What makers of generated workloads have in common: chance from a seed, fresh blocks, requests.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "tests/dataplane/workloads.h"

namespace sluice {

using Blocks = std::vector<std::uint64_t>;

struct Maker {
  explicit Maker(std::uint64_t seed) : random(seed) {}

  std::uint64_t below(std::uint64_t n) { return random.next() % n; }
  double wait(double mean) { return -mean * std::log(random.uniform()); }
  /// Zipf's law, roughly: the rank's chance falls with its inverse.
  std::uint64_t popular(std::uint64_t n) {
    return static_cast<std::uint64_t>(std::pow(static_cast<double>(n), random.uniform())) - 1;
  }
  Blocks fresh(std::uint64_t count) {
    Blocks blocks(count);
    for (std::uint64_t& block : blocks) block = next_block++;
    return blocks;
  }
  void add(double at_s, Blocks blocks) {
    requests.push_back({static_cast<std::uint64_t>(at_s * 1000), std::move(blocks)});
  }
  std::vector<TraceRequest> sorted() {
    std::stable_sort(requests.begin(), requests.end(),
                     [](const auto& a, const auto& b) { return a.timestamp_ms < b.timestamp_ms; });
    return std::move(requests);
  }

  SplitMix64 random;
  std::uint64_t next_block = 1;
  std::vector<TraceRequest> requests;
};

inline void extend(Blocks& path, const Blocks& more) {
  path.insert(path.end(), more.begin(), more.end());
}

}  // namespace sluice
