// The device's choice of tokens against the CPU's.
#include <algorithm>
#include <limits>
#include <numeric>

#include "on_device.h"

using namespace sluice;
using namespace sluice::device;

namespace {

using Options = kernels::SampleOptions;
using Tokens = std::vector<std::int32_t>;

constexpr float infinity = std::numeric_limits<float>::infinity();

SampleRow row_of(const Options& options, std::size_t history, float uniform) {
  return {options.temperature,
          options.top_p,
          options.min_p,
          options.repetition_penalty,
          static_cast<std::uint32_t>(options.top_k),
          0,
          static_cast<std::uint32_t>(history),
          uniform};
}

Tokens choose(const std::vector<float>& logits, const std::vector<SampleRow>& rows,
              const Tokens& history) {
  const std::size_t vocabulary = logits.size() / rows.size();
  const OnDevice<float> on_device(logits);
  const OnDevice<SampleRow> options(rows);
  const OnDevice<std::int32_t> said(history), out(rows.size());
  const OnDevice<std::uint8_t> scratch(sample_scratch(rows.size(), vocabulary));
  sample(on_device, rows.size(), vocabulary, options, said, static_cast<std::uint8_t*>(scratch),
         out, nullptr);
  return out.read();
}

/// One draw for each of `uniforms` from the same logits.
Tokens draw(const std::vector<float>& logits, const Options& options,
            const std::vector<float>& uniforms, const Tokens& history = {}) {
  std::vector<float> rows;
  std::vector<SampleRow> asked;
  for (const float uniform : uniforms) {
    rows.insert(rows.end(), logits.begin(), logits.end());
    asked.push_back(row_of(options, history.size(), uniform));
  }
  return choose(rows, asked, history);
}

/// What may be drawn: the device's weights and limits are rounded otherwise than the CPU's, so a
/// limit may lie this share to either side, and the uniform number so much.
constexpr float limit_slack = 2e-6F;
constexpr double uniform_slack = 1e-5;

class Expected {
 public:
  Expected(const std::vector<float>& logits, const Options& options, const Tokens& history) {
    for (const float nudge : {-limit_slack, 0.0F, limit_slack}) {
      Options nudged = options;
      nudged.min_p *= 1 + nudge;
      if (options.top_p < 1) nudged.top_p *= 1 + nudge;
      distributions_.push_back(kernels::distribution(logits, history, nudged));
    }
  }
  Tokens at(double uniform) const {
    Tokens tokens;
    for (const auto& distribution : distributions_) {
      double end = 0;
      for (const kernels::Candidate& candidate : distribution) {
        const double begin = end;
        end += candidate.probability;
        const bool last = &candidate == &distribution.back();
        if (begin <= uniform + uniform_slack && (last || end > uniform - uniform_slack))
          tokens.push_back(candidate.token);
        if (begin > uniform + uniform_slack) break;
      }
    }
    std::ranges::sort(tokens);
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
  }

 private:
  std::vector<std::vector<kernels::Candidate>> distributions_;
};

std::vector<Options> ways(std::size_t vocabulary) {
  return {{},                                    // greedy
          {0, 0, 1, 0, 1.5F, {}},                // greedy, with a penalty
          {1, 0, 1, 0, 1, {}},                   // all
          {0.3F, 0, 1, 0, 1.3F, {}},             // all, with a penalty
          {1, 1, 1, 0, 1, {}},                   // the likeliest only
          {1.5F, 5, 1, 0, 1, {}},                //
          {1, vocabulary, 1, 0, 1, {}},          // all
          {2, vocabulary - 1, 0.98F, 0, 1, {}},  // many, of nearly the same weight
          {1, 0, 0.02F, 0, 1, {}},               // very few
          {1.2F, 0, 0.6F, 0, 0.8F, {}},          // what was said is likelier
          {0.9F, 0, 0.999F, 0, 1, {}},           // nearly all
          {1, 0, 1, 0.2F, 1, {}},                //
          {1.4F, 0, 0.9F, 0.01F, 1.1F, {}},      //
          {1.1F, 40, 0.8F, 0.05F, 1.2F, {}}};    // all of it
}

}  // namespace

TEST_CASE("tokens are chosen as the CPU chooses them") {
  if (!there()) return;
  SplitMix64 random(7);
  std::size_t draws = 0, sharp = 0, likeliest = 0;
  for (const std::size_t vocabulary : {5U, 128U, 1000U, 50'001U}) {
    for (const Options& options : ways(vocabulary)) {
      const std::vector<float> logits = random_floats(vocabulary, random, 3.5);
      const auto top = std::ranges::max_element(logits) - logits.begin();
      // Out of order, from several parts of the row, the likeliest too; and two that are no tokens.
      Tokens history{static_cast<std::int32_t>(vocabulary - 1), -1, 3, 0,
                     static_cast<std::int32_t>(vocabulary)};
      if (std::ranges::find(history, top) == history.end())
        history.push_back(static_cast<std::int32_t>(top));
      std::vector<float> uniforms{0, 0x1.fffffep-1F};
      for (int i = 0; i < (vocabulary > 10'000 ? 7 : 60); ++i)
        uniforms.push_back(static_cast<float>(random.next() >> 40U) * 0x1p-24F);
      const Tokens got = draw(logits, options, uniforms, history);
      const Expected expected(logits, options, history);
      for (std::size_t i = 0; i < got.size(); ++i) {
        const Tokens want = expected.at(double{uniforms[i]});
        INFO(vocabulary << " tokens, temperature " << options.temperature << ", top k "
                        << options.top_k << ", top p " << options.top_p << ", min p "
                        << options.min_p << ", penalty " << options.repetition_penalty
                        << ", uniform " << uniforms[i]);
        INFO("got " << got[i] << ", want " << want.front() << " or one of " << want.size());
        CHECK(std::ranges::binary_search(want, got[i]));
        ++draws;
        sharp += want.size() == 1 ? 1 : 0;
        likeliest += got[i] == top ? 1 : 0;
      }
    }
  }
  CHECK(sharp > draws * 9 / 10);         // one token only was right
  CHECK(draws - likeliest > draws / 4);  // they were draws
}

TEST_CASE("the likeliest is the lowest of equal ones, wherever they stand") {
  if (!there()) return;
  // Parts of a row begin at multiples of 4096.
  const std::vector<std::vector<std::size_t>> places{
      {0},         {50'000},         {4095, 4096},    {4096, 4097, 49'999}, {8191, 40'000},
      {1, 50'000}, {30'000, 30'007}, {12'290, 12'289}};
  const std::size_t vocabulary = 50'001;
  for (const float most : {3.0F, 0.0F, -5.0F}) {
    std::vector<float> logits(places.size() * vocabulary, -7.0F);
    Tokens want;
    for (std::size_t r = 0; r < places.size(); ++r) {
      for (const std::size_t place : places[r]) logits[r * vocabulary + place] = most;
      want.push_back(static_cast<std::int32_t>(std::ranges::min(places[r])));
    }
    // Zero has two signs and one value.
    if (most == 0) logits[2 * vocabulary + 4095] = -0.0F;
    CHECK(choose(logits, std::vector<SampleRow>(places.size()), {0}) == want);
  }
}

TEST_CASE("equal logits are drawn evenly, in their order") {
  if (!there()) return;
  for (const std::size_t vocabulary : {1U, 5U, 4097U, 50'001U}) {
    Tokens want;
    std::vector<float> uniforms;
    for (const double share : {0.0, 0.1, 0.33, 0.5, 0.77, 0.999999}) {
      const auto token = std::floor(share * static_cast<double>(vocabulary));
      want.push_back(static_cast<std::int32_t>(token));
      uniforms.push_back(static_cast<float>((token + 0.5) / static_cast<double>(vocabulary)));
    }
    for (const float logit : {0.0F, 12.5F, -infinity})
      CHECK(draw(std::vector<float>(vocabulary, logit), {1, 0, 1, 0, 1, {}}, uniforms) == want);
  }
  // Where one token's share ends the next one's begins.
  CHECK(draw(std::vector<float>(8192, 1.0F), {1, 0, 1, 0, 1, {}}, {0.125F, 0.5F, 8191.0F / 8192}) ==
        Tokens{1024, 4096, 8191});
}

TEST_CASE("tokens of equal logits are kept or left together") {
  if (!there()) return;
  const std::vector<float> logits{1, 2, 2, -0.0F, 2, 0};
  const std::vector<float> thirds{0.1F, 0.5F, 0.9F};
  const Tokens all{1, 2, 4};
  CHECK(draw(logits, {1, 1, 1, 0, 1, {}}, thirds) == all);
  CHECK(draw(logits, {1, 0, 0.01F, 0, 1, {}}, thirds) == all);
  CHECK(draw(logits, {1, 0, 0, 0, 1, {}}, thirds) == all);
  CHECK(draw(logits, {1, 0, 1, 1, 1, {}}, thirds) == all);
  CHECK(draw(logits, {0.01F, 0, 1, 0, 1, {}}, thirds) == all);
  CHECK(draw(logits, {1, 4, 1, 0, 1, {}}, {0.9F}) == Tokens{0});
  // The last of the five or six that are kept, by the order of equal ones: 3 before 5.
  const std::vector<float> last{0.96F, 0.999F};
  CHECK(draw(logits, {1, 5, 1, 0, 1, {}}, last) == Tokens{3, 5});
}

TEST_CASE("what is impossible is never drawn, and what is no number breaks nothing") {
  if (!there()) return;
  const std::vector<float> uniforms{0, 0.3F, 0.6F, 0x1.fffffep-1F};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t vocabulary : {7U, 9001U}) {
    std::vector<float> logits(vocabulary, -infinity);
    logits[2] = logits[vocabulary - 2] = -3;
    const auto second = static_cast<std::int32_t>(vocabulary - 2);
    for (const Options& options : ways(vocabulary)) {
      INFO("top k " << options.top_k << ", top p " << options.top_p);
      const bool greedy = options.temperature == 0;
      CHECK(draw(logits, options, uniforms) ==
            Tokens{2, 2, greedy ? 2 : second, greedy ? 2 : second});
      std::vector<float> certain = logits;
      certain[vocabulary - 1] = infinity;
      CHECK(draw(certain, options, uniforms) ==
            Tokens(4, static_cast<std::int32_t>(vocabulary - 1)));
      std::vector<float> broken = logits;
      broken[0] = broken[vocabulary - 1] = nan;
      CHECK(draw(broken, options, uniforms) == draw(logits, options, uniforms));
      for (const std::int32_t token :
           draw(std::vector<float>(vocabulary, nan), options, uniforms)) {
        CHECK(token >= 0);
        CHECK(token < static_cast<std::int32_t>(vocabulary));
      }
    }
  }
}
