// Which token is taken of logits, and how likely each is, under options made by chance: as before.
#include <catch2/catch.hpp>
#include <cstdio>

#include "base/random.h"
#include "kernels/sample.h"
#include "tests/journal.h"
#include "tests/outcomes.h"

using namespace sluice;
using namespace sluice::kernels;

TEST_CASE("tokens are as likely, and taken, as they were before") {
  test::Outcomes outcomes("samples");
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SplitMix64 chance(seed);
    const auto pick = [&](std::uint64_t most) { return chance.next() % (most + 1); };
    const auto of = [&](std::initializer_list<double> values) {
      return static_cast<float>(*(values.begin() + pick(values.size() - 1)));
    };
    std::vector<std::string> journal;
    for (int i = 0; i < 200; ++i) {
      std::vector<float> logits(1 + pick(9));
      for (float& logit : logits) logit = static_cast<float>(pick(6)) - 3;  // some are equal
      const auto some_token = [&] {
        return static_cast<std::int32_t>(pick(logits.size() + 1)) - 1;
      };
      std::vector<std::int32_t> history;
      for (std::uint64_t most = pick(4); history.size() < most;) history.push_back(some_token());
      SampleOptions options;
      options.temperature = of({-1, 0, 0, 0.5, 1, 2});
      options.top_k = static_cast<std::size_t>(pick(2) == 0 ? 0 : pick(logits.size() + 1));
      options.top_p = of({0, 0.3, 0.5, 0.9, 1, 1.5});
      options.min_p = of({-1, 0, 0, 0.2, 0.5, 1});
      options.repetition_penalty = of({1, 1, 0.5, 2});
      while (pick(2) == 0) options.bias.emplace_back(some_token(), of({-2, 1.5, 100}));
      std::string line;
      for (const Candidate& one : distribution(logits, history, options)) {
        char text[40];
        std::snprintf(text, sizeof text, "%d %.6f ", one.token, one.probability);
        line += text;
      }
      for (const double uniform : {0.0, 0.3, 0.7, 0.9999999, 1.0})
        line += ' ' + std::to_string(sample(logits, history, options, uniform));
      journal.push_back(std::move(line));
    }
    for (int i = 0; seed == 1 && i < 20; ++i)
      outcomes.add("chance 1", journal[static_cast<std::size_t>(i)]);
    outcomes.add("digests", test::digest_of(journal));
  }
  outcomes.require_as_kept();
}
