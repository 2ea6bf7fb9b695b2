// The instruction sets that kernels are tested with: each that this processor has, one at a time.
#pragma once

#include <catch2/catch.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace sluice::kernels {

/// Those that this processor has; says once which it lacks.
inline const std::vector<Isa>& paths() {
  static const std::vector<Isa> found = [] {
    std::vector<Isa> here;
    std::string lacks;
    for (const Isa isa : isa_levels)
      if (has(isa))
        here.push_back(isa);
      else
        lacks += ' ' + std::string(name_of(isa));
    if (!lacks.empty()) std::cerr << "not tested, for this processor lacks them:" << lacks << '\n';
    return here;
  }();
  return found;
}

/// While it lives, kernels run as on a processor that has nothing better.
struct AtMost {
  explicit AtMost(Isa most) { limit_isa(most); }
  ~AtMost() { limit_isa(Isa::amx); }
  AtMost(const AtMost&) = delete;
  AtMost& operator=(const AtMost&) = delete;
};

/// In a test: the rest of it runs once with each path.
#define SLUICE_EACH_PATH                                               \
  const auto path = GENERATE(from_range(sluice::kernels::paths()));    \
  INFO("with nothing better than " << sluice::kernels::name_of(path)); \
  const sluice::kernels::AtMost at_most(path)

}  // namespace sluice::kernels
