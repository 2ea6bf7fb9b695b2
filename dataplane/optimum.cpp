#include "dataplane/optimum.h"

#include <iterator>
#include <set>
#include <tuple>

namespace sluice {

void Optimum::add(std::span<const std::uint64_t> keys) {
  for (const std::uint64_t key : keys) {
    const auto number = static_cast<std::uint32_t>(numbers_.size());
    blocks_.push_back(numbers_.emplace(key, number).first->second);
  }
  begins_.push_back(blocks_.size());
}

std::uint64_t Optimum::hits(std::uint32_t capacity, std::size_t before) const {
  const auto requests = static_cast<std::uint32_t>(begins_.size() - 1);
  std::vector<std::uint32_t> next(blocks_.size()), seen(numbers_.size(), never);
  for (std::uint32_t request = requests; request-- > 0;)
    for (std::uint64_t i = begins_[request]; i < begins_[request + 1]; ++i) {
      next[i] = seen[blocks_[i]];
      seen[blocks_[i]] = request;
    }
  using Rank = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;  // next use, depth, block
  std::set<Rank> resident;
  std::vector<Rank> ranks(numbers_.size());
  std::vector<std::uint8_t> is_resident(numbers_.size());
  std::uint64_t hits = 0;
  for (std::uint32_t request = 0; request < requests; ++request) {
    const std::uint64_t begin = begins_[request], end = begins_[request + 1];
    for (std::uint64_t i = begin; i < end && is_resident[blocks_[i]]; ++i)
      hits += request >= before ? 1 : 0;
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint32_t block = blocks_[i];
      if (is_resident[block]) resident.erase(ranks[block]);
      is_resident[block] = next[i] != never;
      if (next[i] == never) continue;
      ranks[block] = {next[i], i - begin, block};
      resident.insert(ranks[block]);
    }
    while (resident.size() > capacity) {
      const auto last = std::prev(resident.end());
      is_resident[std::get<2>(*last)] = 0;
      resident.erase(last);
    }
  }
  return hits;
}

}  // namespace sluice
