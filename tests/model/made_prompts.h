// Prompts that are drawn by a seed, for a model of the golden files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/family/model.h"
#include "engine/tasks/generation.h"

namespace sluice::testing {

/// So many, numbered from 0, under the name of a model: with common beginnings, some the same, some
/// with rows that see each other.
inline std::vector<Generation> made_prompts(const Model& model, const std::string& name,
                                            std::size_t count) {
  std::vector<Generation> made;
  SplitMix64 random(4);
  for (std::uint64_t id = 0; id < count; ++id) {
    Generation one;
    one.id = id;
    one.options.tokens_max = 3 + random.next() % 9;
    one.options.sampling.temperature = id % 3 == 0 ? 0.8F : 0;
    one.options.seed = id;
    SplitMix64 begin(id % 2), rest(random.next() % 4);
    for (int i = 0; i < 22; ++i) one.history.push_back(static_cast<int>(begin.next() % 128));
    for (std::uint64_t i = 0; i < 3 + 5 * (id % 3); ++i)
      one.history.push_back(static_cast<int>(rest.next() % 128));
    one.origin.model = name;
    if (id % 5 == 4) {
      one.history.resize(23);  // as others of its kind
      one.origin.block = one.history.size();
      one.mask = Mask::block;
    }
    model.text().embed(one.history, one.rows);
    made.push_back(std::move(one));
  }
  return made;
}

}  // namespace sluice::testing
