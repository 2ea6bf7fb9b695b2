// Answers to many prompts, so many of them in the queue at a time.
#pragma once

#include <catch2/catch.hpp>
#include <cstddef>
#include <utility>
#include <vector>

#include "engine/tasks/generator.h"

namespace sluice::testing {

/// The first to wait is the first to be asked. `on_done`: of each answer, by its number; none may
/// fail. Returns how many tokens were computed.
template <typename OnDone>
std::size_t answer_all(Generator& generator, std::vector<Generation> requests, std::size_t at_once,
                       OnDone on_done) {
  std::size_t computed = 0, next = 0;
  std::vector<std::uint64_t> advanced;
  while (next < requests.size() || generator.size() > 0) {
    while (generator.size() < at_once && next < requests.size())
      generator.add(std::move(requests[next++]));
    advanced.clear();
    generator.step(advanced);
    computed += generator.last_tokens();
    for (const std::uint64_t id : advanced) {
      const Generation::Finish finish = generator.find(id)->finish;
      if (finish == Generation::Finish::none) continue;
      CHECK(finish != Generation::Finish::failed);
      on_done(id, *generator.remove(id));
    }
  }
  return computed;
}

}  // namespace sluice::testing
