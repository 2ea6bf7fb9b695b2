// What happens to a product on its way out. For kernels' products only.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"

namespace sluice::kernels {

struct Finish {
  enum Kind : std::uint8_t {
    store,
    activate,
    gate,  // y [rows, out / 2]: the first half of the outputs, activated, times the second half
    add,   // to what stands in y
  };
  Kind kind = store;
  Activation activation = Activation::silu;  // not the erf form
};

}  // namespace sluice::kernels
