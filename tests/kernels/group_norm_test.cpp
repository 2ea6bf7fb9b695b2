#include "kernels/group_norm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "tests/kernels/paths.h"

namespace sluice::kernels {
namespace {

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(double{a[i]} - double{b[i]}));
  return worst;
}

TEST_CASE("the fast GroupNorm equals the reference, far from zero too") {
  SLUICE_EACH_PATH;
  SplitMix64 random(11);
  struct Case {
    std::size_t channels, pixels, groups;
  };
  for (const Case c : {Case{1, 1, 1}, Case{6, 5, 3}, Case{32, 77, 32}, Case{8, 4099, 2},
                       Case{2, 15, 2}, Case{2, 31, 2}}) {
    std::vector<float> x(c.channels * c.pixels), weight(c.channels), bias(c.channels);
    for (float& v : x) v = static_cast<float>(30 + random.normal());
    for (float& v : weight) v = static_cast<float>(random.normal());
    for (float& v : bias) v = static_cast<float>(random.normal());
    std::vector<float> fast = x, truth = x, wrong = x;
    group_norm_cpu(fast, c.groups, weight, bias, 1e-6F);
    group_norm_ref(truth, c.groups, weight, bias, 1e-6F);
    CHECK(distance(fast, truth) <= 2e-5);
    group_norm_ref(wrong, c.groups, weight, bias, 0.1F);
    if (c.pixels > 1) CHECK(distance(wrong, truth) > 2e-5);  // the check sees another eps
  }
}

}  // namespace
}  // namespace sluice::kernels
