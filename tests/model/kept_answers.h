// Answers over a pool of pages and what stands behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "answer_all.h"
#include "engine/family/model.h"
#include "engine/storage/kept_pool.h"

namespace sluice::testing {

struct KeptAnswers {
  std::map<std::uint64_t, std::vector<std::int32_t>> answers;  // tokens, by prompt
  std::size_t computed = 0;                                    // tokens
};

/// `at_once` prompts in the queue at a time.
inline KeptAnswers answer_over(const Model& model, KeptPool& kept, std::vector<Generation> prompts,
                               std::size_t at_once) {
  KeptAnswers made;
  Generator generator(model.text(), *kept.pool, nullptr, Budget{});
  generator.use(kept.source());
  made.computed = answer_all(
      generator, std::move(prompts), at_once,
      [&](std::uint64_t id, const Generation& done) { made.answers[id] = done.tokens; });
  return made;
}

}  // namespace sluice::testing
